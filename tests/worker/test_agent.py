"""The agent of a worker: what servers say takes effect on the assignment it is about, and nothing that fails is kept quiet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from waiting import until

from noetl.errors import NoetlError
from noetl.model.events import Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.wire import (
    CredentialCheckResult,
    ExecutionBrief,
    Key,
    ServerReply,
    WorkAssignment,
    WorkerMessage,
    decode_reply,
    encode,
)
from noetl.ports import PlaybookSource
from noetl.worker.agent import WorkerAgent
from noetl.worker.link import Outbox, ServerLink
from noetl.worker.pipeline_runners import PipelineRunners
from noetl.worker.remote_executions import RemoteExecution

KEY: Key = ("x", "s-1", None)
ORDER = RunPipeline("s-1", "s", None, {})
OTHER = RunPipeline("s-2", "s", None, {})
BRIEF = ExecutionBrief("hash", "it.yaml")
DONE = [Fact("task.done", "s-1", {})]


class FakeLink:
    """A server that is asked for playbooks, and does what its test says with messages."""

    url = "http://a"

    def __init__(self) -> None:
        self.messages: list[WorkerMessage] = []
        self.fails = 0

    async def exchange(self, message: WorkerMessage) -> ServerReply:
        self.messages.append(message)
        if len(self.messages) <= self.fails:
            raise NoetlError("it is away")
        return ServerReply()

    async def source(self, content_hash: str) -> PlaybookSource:
        return PlaybookSource(content_hash, "it.yaml", "")


class FakeRunners:
    """Runs what it is given until it is told to stop; or breaks."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[Key, object]] = {}
        self.stopped: list[Key] = []
        self.breaks = False
        self.clock = time.time

    def run(self, execution: RemoteExecution, order: RunPipeline) -> None:
        if self.breaks:
            raise KeyError(order.step)
        self.tasks.setdefault(execution.id, {})[execution.id, order.step_run_id, order.iteration] = order

    def stop(self, key: Key) -> None:
        self.stopped.append(key)

    async def wait_stopped(self, key: Key) -> None:
        if self.is_running(key):
            del self.tasks[key[0]][key]

    def is_running(self, key: Key) -> bool:
        return key in self.tasks.get(key[0], {})


class Bench:
    """An agent whose outbox sends nothing by itself."""

    def __init__(self) -> None:
        self.link, self.runners = FakeLink(), FakeRunners()
        self.agent = WorkerAgent(
            [cast("ServerLink", self.link)],
            cast("PipelineRunners", self.runners),
            lambda _source, _plans: cast("Net", None),
            lambda: "child",
            name="w",
            pools=["default"],
            slots=4,
        )
        (self.box,) = self.agent.outboxes.values()
        self.agent.remotes["x"] = RemoteExecution("x", cast("Net", None), BRIEF)

    def hear(self, reply: ServerReply) -> None:
        """A reply as it comes over the wire."""
        self.agent.handle_reply(cast("ServerLink", self.link), decode_reply(encode(reply)))

    def assign(self, fence: str) -> None:
        self.hear(ServerReply(assignments=[WorkAssignment("x", ORDER, fence)], briefs={"x": BRIEF}))

    def post(self) -> None:
        """A runner ends whose last report nobody waits for."""
        self.agent.post("x", DONE)
        self.runners.tasks.clear()
        self.agent.on_done(KEY)

    def answer(self, fate: str) -> None:
        """What becomes of the oldest report."""
        self.box._reports.pop(0)[1].set_result(fate)

    def held(self) -> list[str]:
        return [one.fence for one in self.agent.queue.heartbeat()]


def run(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            await test(Bench())

    asyncio.run(whole())


def test_a_stale_report_that_is_refused_does_not_stop_the_new_holder() -> None:
    async def test(bench: Bench) -> None:
        bench.assign("f1")
        bench.post()
        bench.answer("again")
        await until(lambda: bench.box._reports)
        bench.hear(ServerReply(stops=[KEY]))
        bench.assign("f2")
        bench.answer("refused")
        await until(lambda: not bench.agent._tasks)
        assert bench.held() == ["f2"]
        assert not bench.runners.stopped

    run(test)


def test_a_last_report_is_sent_again_until_it_arrives_and_named_until_then() -> None:
    async def test(bench: Bench) -> None:
        bench.assign("f1")
        bench.post()
        for _ in range(2):
            assert bench.held() == ["f1"]
            bench.answer("again")
            await until(lambda: bench.box._reports)
        assert bench.box._reports[0][0].facts == DONE
        bench.answer("durable")
        await until(lambda: not bench.agent.held)
        assert bench.agent.quiet.is_set()

    run(test)


def test_a_worker_that_drains_gives_back_what_runs_and_not_what_has_ended() -> None:
    async def test(bench: Bench) -> None:
        bench.assign("f1")
        bench.post()
        bench.hear(ServerReply(assignments=[WorkAssignment("x", OTHER, "f2")]))
        draining = asyncio.ensure_future(bench.agent.drain(0.0))
        await until(lambda: len(bench.box._reports) == 2)
        first, second = [report for report, _ in bench.box._reports]
        assert (first.fence, first.last) == ("f1", True)
        assert (second.fence, second.returned) == ("f2", True)
        assert bench.held() == ["f1"]
        bench.answer("durable")
        bench.answer("durable")
        bench.box.idle.set()
        await draining
        assert not bench.held()

    run(test)


def test_a_last_report_that_no_server_takes_breaks_the_pipeline() -> None:
    async def test(bench: Bench) -> None:
        bench.assign("f1")
        bench.post()
        bench.answer("rejected")
        await until(lambda: bench.box._reports)
        assert bench.box._reports[0][0].broken.startswith("no server takes its report: it is too large")
        assert not bench.held()

    run(test)


def test_a_stop_for_an_earlier_fence_ends_nothing_and_one_without_a_fence_ends_what_is_held() -> None:
    async def test(bench: Bench) -> None:
        bench.assign("f2")
        bench.hear(ServerReply(stops=[KEY], stop_fences=["f1"]))
        assert bench.held() == ["f2"]
        bench.hear(ServerReply(stops=[KEY]))  # as a server of an earlier version sends it
        assert bench.runners.stopped == [KEY]

    run(test)


def test_a_pipeline_that_cannot_be_begun_is_reported_as_broken_and_takes_no_slot() -> None:
    async def test(bench: Bench) -> None:
        bench.runners.breaks = True
        for known in (False, True):
            if not known:
                bench.agent.remotes.clear()
            bench.assign("f1")
            await until(lambda: bench.box._reports)
            report, _ = bench.box._reports.pop()
            assert "KeyError" in (report.broken or "")
            assert not bench.agent.held
            assert bench.agent.queue.running == 0

    run(test)


def test_a_playbook_that_comes_too_late_does_not_break_the_new_holder() -> None:
    async def test(bench: Bench) -> None:
        coming: asyncio.Future[PlaybookSource] = asyncio.get_running_loop().create_future()

        async def source(_hash: str) -> PlaybookSource:
            return await asyncio.shield(coming)

        bench.link.source = source  # type: ignore[method-assign]
        bench.agent.remotes.clear()
        bench.assign("f1")
        bench.hear(ServerReply(stops=[KEY]))
        bench.agent.remotes["x"] = RemoteExecution("x", cast("Net", None), BRIEF)
        bench.assign("f2")
        await asyncio.sleep(0)
        coming.set_exception(NoetlError("it is gone"))
        await until(lambda: not bench.agent._tasks)
        assert bench.held() == ["f2"]
        assert not bench.box._reports

    run(test)


def test_what_fails_beside_is_said_and_a_closed_agent_leaves_nothing_running() -> None:
    async def test(bench: Bench) -> None:
        said: list[str] = []
        bench.agent.warn = said.append

        async def fail() -> None:
            raise RuntimeError("a mistake")

        bench.agent.spawn(fail())
        await until(lambda: said)
        assert "a mistake" in said[0]
        ended = asyncio.Event()

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        bench.agent.spawn(wait())
        await asyncio.sleep(0)
        await bench.agent.close()
        assert ended.is_set()
        bench.agent.spawn(wait())
        assert not bench.agent._tasks

    run(test)


def test_answers_are_sent_again_when_a_server_was_away() -> None:
    async def test(bench: Bench) -> None:
        bench.link.fails = 1
        box = Outbox(
            cast("ServerLink", bench.link),
            lambda reports, lines, answers: WorkerMessage("w", reports, lines, answers),
            lambda _link, _reply: None,
        )
        sending = asyncio.ensure_future(box.run())
        box.answer(CredentialCheckResult(7))
        await until(lambda: len(bench.link.messages) == 2)
        sending.cancel()
        assert [answer.number for answer in bench.link.messages[1].answers] == [7]

    run(test)
