"""Heartbeats: one thread per server, so that neither a busy event loop nor a slow server delays them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Event, Thread
from time import monotonic

from msgspec.structs import replace

from noetl.client import BlockingConnection, TokenSource, choose_tls, format_request, parse_address
from noetl.config import mask_login
from noetl.model.wire import SHORTEST_HEARTBEAT_S, Heartbeat, Lease, ServerReply, decode_reply, encode

#: seconds that a server has for its answer; less where beats are more frequent, so that one that hangs costs no lease
_TIMEOUT_S, _LEAST_TIMEOUT_S = 5.0, 1.0
#: bytes of an answer
_MOST_BYTES = 256 << 20
_STORE_AWAY = 503
_REFUSALS = (401, 403)


class Heartbeats:
    """Beats every third of a lease, or more often where pipelines have leases of their own."""

    def __init__(
        self,
        urls: Sequence[str],
        tokens: TokenSource,
        lease_s: float,
        heartbeat: Callable[[], Heartbeat],
        interval: Callable[[], float],
        on_reply: Callable[[str, str, ServerReply], None],
        on_silence: Callable[[], None],
    ) -> None:
        self._urls, self._lease_s = list(urls), lease_s
        self._tokens = tokens
        self._make_heartbeat, self._make_interval = heartbeat, interval
        self._on_reply, self._on_silence = on_reply, on_silence
        #: seconds between two beats, and the longest lease of a pipeline, as of the last beat
        self._interval, self._longest_s = interval(), 0.0
        self._loop = asyncio.get_running_loop()
        self._over = Event()
        self._leaving = False
        #: of each server: beat now
        self._now = [Event() for _ in self._urls]
        #: when somebody last heard of this worker
        self._last = monotonic()
        #: with what status each server answers; 0: it does not
        self._answers = dict.fromkeys(self._urls, 200)
        #: called with why none hears this worker; nothing: one does
        self.alone: Callable[[str], None] = lambda _why: None
        # A thread for each: one that stands still must not keep the others from hearing that this worker lives.
        self._threads = [
            Thread(target=self._run, args=(url, now), name="noetl-heartbeat", daemon=True)
            for url, now in zip(self._urls, self._now, strict=True)
        ]
        #: set when the first beat was heard by somebody
        self.first = asyncio.Event()

    def start(self) -> None:
        """Begin."""
        self.forget_silence()
        for thread in self._threads:
            thread.start()

    @property
    def silence_s(self) -> float:
        """For how long no server has heard of this worker."""
        return monotonic() - self._last

    def forget_silence(self) -> None:
        """Count the silence from now on."""
        self._last = monotonic()

    def beat(self) -> None:
        """Beat now."""
        for now in self._now:
            now.set()

    def hasten(self, leases: Sequence[Lease]) -> None:
        """Beat now if pipelines of these leases cannot wait for the next beat, or make this worker be kept for longer."""
        sooner = min(lease.heartbeat_s for lease in leases) < self._interval
        if sooner or max(lease.ttl_s for lease in leases) > max(self._longest_s, self._lease_s):
            self.beat()

    def stop(self, *, leaving: bool = False) -> None:
        """End; `leaving`: and say so, in a last beat."""
        self._leaving = leaving
        self._over.set()
        self.beat()
        for thread in self._threads:
            thread.join()

    def _run(self, url: str, now: Event) -> None:
        while not self._over.is_set():
            began = monotonic()
            status = self._say(url)
            self._answers[url] = status
            self._loop.call_soon_threadsafe(self.alone, self._why_alone())
            if _is_heard(status):
                self.forget_silence()
                self._loop.call_soon_threadsafe(self.first.set)
            else:
                self._loop.call_soon_threadsafe(self._on_silence)
            now.wait(max(SHORTEST_HEARTBEAT_S / 2, began + self._interval - monotonic()))
            now.clear()
        if self._leaving:
            self._say(url)

    def _why_alone(self) -> str:
        answers = dict(self._answers)
        if any(map(_is_heard, answers.values())):
            return ""
        refusals = [
            f"{mask_login(url)} does not admit this worker ({status})"
            for url, status in answers.items()
            if status in _REFUSALS
        ]
        if refusals:
            return f"{', '.join(refusals)}: check NOETL_TOKEN"
        others = [f"{mask_login(url)} answers {status}" for url, status in answers.items() if status]
        if others:
            return f"no NoETL server answers: {', '.join(others)}; still trying"
        return f"no server answers at {', '.join(map(mask_login, self._urls))}; trying on"

    def _say(self, url: str) -> int:
        """With what status a server answers; 0: it does not."""
        try:
            return self._send_heartbeat(url)
        except Exception:  # noqa: BLE001  whatever it is: were this thread to end, the worker would be given up
            return 0

    def _send_heartbeat(self, url: str) -> int:
        address, headers = self._tokens.format_headers(parse_address(url))
        interval = self._make_interval()
        deadline = monotonic() + min(_TIMEOUT_S, self._lease_s, max(_LEAST_TIMEOUT_S, interval))
        # A new connection each time: one that was kept and is dead would cost the beat.
        with BlockingConnection(address, choose_tls(address, None), deadline) as connection:
            heartbeat = replace(self._make_heartbeat(), leaving=self._leaving)
            self._interval, self._longest_s = interval, heartbeat.longest_lease_s
            request = format_request("POST", f"{address.base}/api/pulse", headers.reveal(), encode(heartbeat))
            status = connection.send(request, deadline, _MOST_BYTES).status
            body = connection.read()
        if status == 200:
            self._loop.call_soon_threadsafe(self._on_reply, url, heartbeat.worker, decode_reply(body))
        return status


def _is_heard(status: int) -> bool:
    # Where its database is away, nobody is given up until some time after that is back.
    return status in (200, _STORE_AWAY)
