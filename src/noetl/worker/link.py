"""Link: a worker's way to one server. Reports that come at the same time go together; an answer brings more to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.errors import NoetlError
from noetl.model.wire import Answer, Message, Reply, Report, Written, decode_reply, encode
from noetl.ports import Source
from noetl.worker.phone import Phone, Unplain

if TYPE_CHECKING:
    import aiohttp

#: seconds until a server that did not answer is asked again, at first and at most: who waits longer misses who takes over
PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
_ANSWER_S = 60.0
#: reports and lines that go in one message, so that none of them grows without bound
_REPORTS, _LINES = 500, 2_000
#: lines that are kept while a server is away
_KEPT_LINES = 20_000


class Unreachable(NoetlError):
    """A server does not answer, or not now."""


class Rejected(Unreachable):
    """A server cannot take a message, and never will: it is too large, or no message to it."""


class Refused(NoetlError):
    """A server does not want this worker: its token, or its version."""


class Link:
    """One server, as a worker sees it."""

    def __init__(self, url: str, token: str | None, session: Callable[[], aiohttp.ClientSession]) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session = session
        phone = Phone(self.url, self._headers)
        #: None: between here and the server is something that answers in more ways than a server does
        self._phone = phone if phone.is_plain else None

    async def exchange(self, message: Message) -> Reply:
        """Say something and hear the answer. Unreachable: it is to be said again."""
        body = await self._said("/api/work", encode(message), message.wait + _ANSWER_S)
        try:
            return decode_reply(body)
        except msgspec.MsgspecError as error:
            raise Unreachable(f"{self.url} answered something else: {error}") from error

    async def source(self, content_hash: str) -> Source:
        """The playbook of a hash."""
        return msgspec.json.decode(await self._call("GET", f"/api/assigned/{content_hash}"), type=Source)

    async def _said(self, path: str, body: bytes, seconds: float) -> bytes:
        if self._phone is None:
            return await self._call("POST", path, body, seconds)
        try:
            return self._checked(*await self._phone.post(path, body, seconds))
        except (TimeoutError, OSError) as error:
            raise self._silent(error) from error
        except Unplain:
            self.close()
            self._phone = None
            return await self._call("POST", path, body, seconds)  # what was said before may be said again

    def close(self) -> None:
        """Hang up."""
        if self._phone is not None:
            self._phone.close()

    async def _call(self, method: str, path: str, body: bytes | None = None, seconds: float = _ANSWER_S) -> bytes:
        import aiohttp

        try:
            async with self._session().request(
                method,
                self.url + path,
                data=body,
                headers={**self._headers, "Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as answer:
                return self._checked(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._silent(error) from error

    def _checked(self, status: int, said: bytes) -> bytes:
        if status == 200:
            return said
        words = said[:200].decode("utf-8", "replace")
        if status in (401, 403):
            raise Refused(f"{self.url} does not admit this worker ({status}): check NOETL_TOKEN")
        if status in (400, 413):
            raise Rejected(f"{self.url} does not take what it is told: {words}")
        raise Unreachable(f"{self.url} answered {status}: {words}")

    def _silent(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self.url} does not answer: {str(error) or type(error).__name__}")


class Outbox:
    """What goes to one server: gathered while the last message is under way, and sent together."""

    def __init__(self, link: Link, message: Callable[..., Message], heard: Callable[[Link, Reply], Any]) -> None:
        self.link = link
        self._message, self._heard = message, heard
        self._reports: list[tuple[Report, asyncio.Future[str]]] = []
        self._lines: list[Written] = []
        self._answers: list[Answer] = []
        #: how many reports go at once
        self._most = _REPORTS
        self._something = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def add(self, report: Report) -> asyncio.Future[str]:
        """Send a report; what becomes of it: `durable`, `refused`, `again`, or `rejected`: no server will ever take it."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reports.append((report, told))
        self._something.set()
        self.idle.clear()
        return told

    def write(self, line: Written) -> None:
        """Send a line."""
        self._lines.append(line)
        self._something.set()
        self.idle.clear()

    def answer(self, answer: Answer) -> None:
        """Send what was asked for."""
        self._answers.append(answer)
        self._something.set()

    async def run(self) -> None:
        """Send, for ever."""
        pause = PAUSE_S
        while True:
            await self._something.wait()
            self._something.clear()
            reports, self._reports = self._reports[: self._most], self._reports[self._most :]
            lines, self._lines = self._lines[:_LINES], self._lines[_LINES:]
            answers, self._answers = self._answers, []
            if self._reports or self._lines:
                self._something.set()
            try:
                reply = await self.link.exchange(self._message([report for report, _ in reports], lines, answers))
                pause = PAUSE_S
            except Rejected:
                # One of them is the culprit: they go one by one, and it is given up; what tools wrote is not worth more.
                self._most = 1
                fate = "again" if len(reports) > 1 else "rejected"
                _settle(reports, dict.fromkeys(range(len(reports)), fate))
            except NoetlError:
                self._lines = [*lines, *self._lines][-_KEPT_LINES:]
                _settle(reports, dict.fromkeys(range(len(reports)), "again"))
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                if self._lines:
                    self._something.set()
            else:
                fates = {**dict.fromkeys(reply.again, "again"), **dict.fromkeys(reply.refused, "refused")}
                if reply.lost:
                    fates = dict.fromkeys(range(len(reports)), "again")
                self._most = min(2 * self._most, _REPORTS)
                _settle(reports, fates)
                self._heard(self.link, reply)
            if not self._reports and not self._lines:
                self.idle.set()


def _settle(reports: list[tuple[Report, asyncio.Future[str]]], fates: dict[int, str]) -> None:
    for at, (_, told) in enumerate(reports):
        if not told.done():
            told.set_result(fates.get(at, "durable"))
