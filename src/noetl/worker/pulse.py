"""Pulse: a thread that says to each server that this worker lives, however busy its event loop is."""

from __future__ import annotations

import asyncio
import http.client
import urllib.parse
from collections.abc import Callable, Sequence
from threading import Event, Thread
from time import monotonic

import msgspec

from noetl.model.wire import Holding, Reply, decode_reply, encode

_TIMEOUT_S = 5.0


class Pulse:
    """Beats every third of a lease."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None,
        lease_s: float,
        holding: Callable[[], Holding],
        heard: Callable[[str, Reply], None],
        missed: Callable[[], None],
    ) -> None:
        self._urls, self._lease_s = list(urls), lease_s
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._holding, self._heard, self._missed = holding, heard, missed
        self._loop = asyncio.get_running_loop()
        self._over = Event()
        self._now = Event()
        self._thread = Thread(target=self._run, name="noetl-pulse", daemon=True)
        #: set when the first beat was heard by somebody
        self.first = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def beat(self) -> None:
        """Beat now."""
        self._now.set()

    def stop(self) -> None:
        """End."""
        self._over.set()
        self._now.set()
        self._thread.join()

    def _run(self) -> None:
        last = monotonic()
        while not self._over.is_set():
            heard = [self._say(url) for url in self._urls]  # by each of them, not only the first
            if any(heard):
                last = monotonic()
                self._loop.call_soon_threadsafe(self.first.set)
            elif monotonic() - last > self._lease_s:
                # Nobody has heard of this worker for so long that it is taken for dead.
                self._loop.call_soon_threadsafe(self._missed)
                last = monotonic()
            self._now.wait(self._lease_s / 3)
            self._now.clear()

    def _say(self, url: str) -> bool:
        """Whether a server has heard it."""
        parts = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=min(_TIMEOUT_S, self._lease_s))
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}/api/pulse", encode(self._holding()), self._headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                return False
            reply = decode_reply(body)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return False
        finally:
            connection.close()
        self._loop.call_soon_threadsafe(self._heard, url, reply)
        return True
