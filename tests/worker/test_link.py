"""What a worker says to its servers, and what it makes of odd answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from tool_world import serving
from waiting import until

from noetl.client.owner_token import TokenSource
from noetl.errors import AccessDenied, NoetlError, UnexpectedAnswer
from noetl.model.events import Fact
from noetl.model.wire import LogRecord, PipelineReport, ServerReply, WorkerMessage, encode
from noetl.worker.agent import WorkerAgent
from noetl.worker.link import Outbox, ServerLink

NOT_UTF8, DEEP = b'{"ended": ["\xff"]}', b'{"shared": {"x": {"a": ' + b"[" * 3_000


class Line(ServerLink):
    """A link to a server that answers what a test says; what is sent is encoded as always."""

    def __init__(self, *answers: ServerReply | NoetlError) -> None:
        super().__init__("http://127.0.0.1:9", None)
        self.answers = list(answers)
        self.sent: list[WorkerMessage] = []

    async def _call(self, *_: Any) -> bytes:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(0)
        if isinstance(answer, NoetlError):
            raise answer
        return encode(answer)

    async def exchange(self, message: WorkerMessage) -> ServerReply:
        reply = await super().exchange(message)
        self.sent.append(message)
        return reply


def report(value: Any, execution_id: str = "x") -> PipelineReport:
    return PipelineReport(execution_id, "a-1", None, "fence", [Fact("task.done", "a-1", {"output": value})], last=True)


async def test_a_report_that_cannot_be_written_is_rejected_and_the_others_arrive() -> None:
    link = Line(ServerReply())
    outbox = Outbox(link, lambda *parts: WorkerMessage("w", *parts), lambda *_: None)
    sending = asyncio.create_task(outbox.run())
    values = [1, "caf\udce9", 2, object(), 3]
    fates: dict[int, str] = {}
    waiting = dict(enumerate(values))
    while waiting:  # as the agent does: what is to be sent again is
        told = {at: outbox.add(report(value, str(at))) for at, value in waiting.items()}
        for at, future in told.items():
            fate = await asyncio.wait_for(future, 60)
            if fate != "again":
                fates[at] = fate
                del waiting[at]
    outbox.write(LogRecord("x", {"text": "caf\udce9"}))
    await until(outbox.idle.is_set)
    assert fates == {0: "durable", 1: "rejected", 2: "durable", 3: "rejected", 4: "durable"}
    assert await asyncio.wait_for(outbox.add(report(6)), 60) == "durable"
    assert not sending.done()
    sending.cancel()


@pytest.mark.parametrize("body", [NOT_UTF8, DEEP, b"[]", b"<html>"], ids=["no UTF-8", "deep", "a list", "a page"])
async def test_an_answer_that_cannot_be_read_is_an_unexpected_one(body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serving(web.post("/api/work", answer), web.get("/api/assigned/h", answer)) as url:
        link = ServerLink(url, TokenSource(None, None))
        with pytest.raises(UnexpectedAnswer, match="did not answer as a NoETL server does"):
            await link.exchange(WorkerMessage("w"))
        with pytest.raises(UnexpectedAnswer, match="did not answer as a NoETL server does"):
            await link.source("h")
        link.close()


def make_agent(*links: ServerLink) -> tuple[WorkerAgent, list[str]]:
    """An agent that runs nothing, and what it warned of."""
    runners = cast("Any", SimpleNamespace(tasks={}))
    agent = WorkerAgent(links, runners, cast("Any", None), lambda: "id", name="w", pools=["default"], slots=2)
    warned: list[str] = []
    agent.warn = warned.append
    return agent, warned


async def poll_until(agent: WorkerAgent, holds: Callable[[], bool]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(agent.poll(link)) for link in agent.links]
    await until(lambda: holds() or any(task.done() for task in tasks))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return tasks


async def test_a_worker_goes_on_while_one_of_its_servers_admits_it() -> None:
    refusing, admitting = Line(AccessDenied("it does not admit this worker", 401)), Line(ServerReply())
    agent, warned = make_agent(refusing, admitting)
    tasks = await poll_until(agent, lambda: len(admitting.sent) > 5)
    assert len(admitting.sent) > 5
    assert all(task.cancelled() for task in tasks)
    assert warned == ["it does not admit this worker"]


async def test_a_worker_ends_when_every_server_refuses_it() -> None:
    agent, _ = make_agent(*(Line(AccessDenied(f"{name} does not admit this worker", 401)) for name in "ab"))
    tasks = await poll_until(agent, lambda: False)
    assert [type(task.exception()) for task in tasks if not task.cancelled()] == [AccessDenied]


async def test_an_odd_answer_is_reported_once_until_the_server_is_itself_again() -> None:
    redirect = UnexpectedAnswer("it redirects to 'http://elsewhere/', which is not followed")
    link = Line(redirect, redirect, redirect, ServerReply(), redirect, ServerReply())
    agent, warned = make_agent(link)
    await poll_until(agent, lambda: len(link.sent) > 1)
    assert warned == [str(redirect)] * 2


async def test_a_worker_whose_questions_are_answered_at_once_without_work_waits_in_between() -> None:
    link = Line(ServerReply(ended=["x"]))
    agent, _ = make_agent(link)
    asking = asyncio.create_task(agent.poll(link))
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.wait([asking])
    assert 3 < len(link.sent) < 20  # without a pause there would be some for each millisecond
