"""Pulse: threads that say to each server that this worker lives, however busy its event loop is, and whichever of them is slow."""

from __future__ import annotations

import asyncio
import http.client
import urllib.parse
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from time import monotonic

import msgspec

from noetl.model.wire import Holding, Reply, decode_reply, encode

_TIMEOUT_S = 5.0
_STORE_AWAY = 503


class Pulse:
    """Beats every third of a lease."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None,
        lease_s: float,
        holding: Callable[[], Holding],
        heard: Callable[[str, str, Reply], None],
        missed: Callable[[], None],
    ) -> None:
        self._urls, self._lease_s = list(urls), lease_s
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._holding, self._heard, self._missed = holding, heard, missed
        self._loop = asyncio.get_running_loop()
        self._over = Event()
        #: of each server: beat now
        self._now = [Event() for _ in self._urls]
        #: when somebody last heard of this worker
        self._last = monotonic()
        self._gate = Lock()
        #: which servers answer
        self._answers = dict.fromkeys(self._urls, True)
        #: called with whether none does
        self.alone: Callable[[bool], None] = lambda _alone: None
        # A thread for each: one that stands still must not keep the others from hearing that this worker lives.
        self._threads = [
            Thread(target=self._run, args=(url, now), name="noetl-pulse", daemon=True)
            for url, now in zip(self._urls, self._now, strict=True)
        ]
        #: set when the first beat was heard by somebody
        self.first = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self._last = monotonic()
        for thread in self._threads:
            thread.start()

    def beat(self) -> None:
        """Beat now."""
        for now in self._now:
            now.set()

    def stop(self) -> None:
        """End."""
        self._over.set()
        self.beat()
        for thread in self._threads:
            thread.join()

    def _run(self, url: str, now: Event) -> None:
        while not self._over.is_set():
            heard = self._say(url)
            self._answers[url] = heard
            self._loop.call_soon_threadsafe(self.alone, not any(self._answers.values()))
            if heard:
                self._last = monotonic()
                self._loop.call_soon_threadsafe(self.first.set)
            elif self._is_missed():
                self._loop.call_soon_threadsafe(self._missed)
            now.wait(self._lease_s / 3)
            now.clear()

    def _is_missed(self) -> bool:
        """Whether nobody has heard of this worker for so long that it is taken for dead; said once, by one of the threads."""
        with self._gate:
            missed = monotonic() - self._last > self._lease_s
            if missed:
                self._last = monotonic()
            return missed

    def _say(self, url: str) -> bool:
        """Whether a server has heard it."""
        parts = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=min(_TIMEOUT_S, self._lease_s))
        try:
            holding = self._holding()
            connection.request("POST", f"{parts.path.rstrip('/')}/api/pulse", encode(holding), self._headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == _STORE_AWAY:
                return (
                    True  # it is there and its database is not: nobody is given up until some time after that is back
                )
            if answer.status != 200:
                return False
            reply = decode_reply(body)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return False
        finally:
            connection.close()
        self._loop.call_soon_threadsafe(self._heard, url, holding.worker, reply)
        return True
