"""A worker's connection to one server. Reports that are ready together go in one request; the reply brings work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from noetl.client import AsyncTransport, TokenSource, decode_answer, failure_of, parse_address
from noetl.errors import AccessDenied, NoetlError, RequestInvalid, UnexpectedAnswer, describe_error
from noetl.model.wire import (
    CredentialCheckResult,
    LogRecord,
    PipelineReport,
    ServerReply,
    WorkerMessage,
    decode_reply,
    encode,
)
from noetl.ports import PlaybookSource

#: seconds until a server that did not answer is asked again, at first and at most: who waits longer misses who takes over
PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
_ANSWER_S = 60.0
_BAD_REQUEST, _FORBIDDEN = 400, 403
#: reports and lines that go in one message, so that none of them grows without bound
_REPORTS, _LINES = 500, 2_000
#: lines that are kept while a server is away
_KEPT_LINES = 20_000


class ServerLink:
    """One server, as a worker sees it."""

    def __init__(self, url: str, tokens: TokenSource) -> None:
        self.url = url.rstrip("/")
        address = parse_address(self.url)
        #: without a user and a password
        self.shown = address.url
        self._transport = AsyncTransport(address, tokens)

    async def exchange(self, message: WorkerMessage) -> ServerReply:
        """Send a message; return the answer. AccessDenied: no message will be taken; RequestInvalid: not this one."""
        body = await self._call("POST", "/api/work", _encode(message), message.wait + _ANSWER_S)
        return decode_answer(self.shown, lambda: decode_reply(body))

    async def source(self, content_hash: str) -> PlaybookSource:
        """Return the playbook of a hash."""
        body = await self._call("GET", f"/api/assigned/{content_hash}")
        return decode_answer(self.shown, lambda: msgspec.json.decode(body, type=PlaybookSource))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    async def _call(self, method: str, path: str, body: bytes | None = None, seconds: float = _ANSWER_S) -> bytes:
        response = await self._transport.request(method, path, body, seconds)
        if response.status == 200:
            return response.body
        failure = failure_of(self.shown, response)
        if isinstance(failure, AccessDenied):
            why = failure.problem.get("detail") if failure.status == _FORBIDDEN else None
            refusal = f"{self.shown} does not admit this worker ({failure.status}): {why or 'check NOETL_TOKEN'}"
            raise AccessDenied(refusal, failure.status, failure.problem)
        raise failure or UnexpectedAnswer(f"{self.shown} answered {response.status} without a message")


def _encode(message: WorkerMessage) -> bytes:
    """Return a message as it is sent. RequestInvalid: it holds something that no JSON can, so no server will ever take it."""
    try:
        return encode(message)
    except Exception as error:
        raise RequestInvalid(f"the message cannot be written as JSON: {describe_error(error)}", _BAD_REQUEST) from error


class Outbox:
    """What goes to one server: gathered while the last message is under way, and sent together."""

    def __init__(
        self, link: ServerLink, message: Callable[..., WorkerMessage], heard: Callable[[ServerLink, ServerReply], Any]
    ) -> None:
        self.link = link
        self._message, self._heard = message, heard
        self._reports: list[tuple[PipelineReport, asyncio.Future[str]]] = []
        self._lines: list[LogRecord] = []
        self._answers: list[CredentialCheckResult] = []
        #: how many reports go at once
        self._most = _REPORTS
        self._something = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def add(self, report: PipelineReport) -> asyncio.Future[str]:
        """Send a report; what becomes of it: `durable`, `refused`, `again`, or `rejected`: no server will ever take it."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reports.append((report, told))
        self._something.set()
        self.idle.clear()
        return told

    def write(self, line: LogRecord) -> None:
        """Send a line."""
        self._lines.append(line)
        self._something.set()
        self.idle.clear()

    def answer(self, answer: CredentialCheckResult) -> None:
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
            except RequestInvalid:
                # One of them is the culprit: they go one by one, and it is given up; what tools wrote is not worth more.
                self._most = 1
                if reports or lines:  # then it may be one of these, and an answer goes again
                    self._put_back(answers)
                fate = "again" if len(reports) > 1 else "rejected"
                _settle(reports, dict.fromkeys(range(len(reports)), fate))
            except NoetlError:
                self._lines = [*lines, *self._lines][-_KEPT_LINES:]
                self._put_back(answers)
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

    def _put_back(self, answers: list[CredentialCheckResult]) -> None:
        """Send answers again, before those that came meanwhile."""
        if answers:
            self._answers = [*answers, *self._answers]
            self._something.set()


def _settle(reports: list[tuple[PipelineReport, asyncio.Future[str]]], fates: dict[int, str]) -> None:
    for at, (_, told) in enumerate(reports):
        if not told.done():
            told.set_result(fates.get(at, "durable"))
