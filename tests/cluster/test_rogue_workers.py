"""A worker with a token of its own that speaks for others: it gets, changes and ends nothing of theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fleet import Server, serving, working
from waiting import until

from noetl.app.worker import WorkerNode
from noetl.client import AsyncTransport, TokenSource, parse_address
from noetl.config import Secret
from noetl.model.access import AuditQuery, TokenRequest
from noetl.model.events import Fact
from noetl.model.output import ok
from noetl.model.wire import (
    CredentialCheckResult,
    Heartbeat,
    HeldPipeline,
    LogRecord,
    PipelineReport,
    ServerReply,
    WorkerMessage,
    decode_reply,
    encode,
)
from noetl.server.cluster.worker_api import WorkerCall
from noetl.server.cluster.workers import MemoryRegistry
from noetl.server.core.service import LiveExecution
from noetl.server.http.access import TokenFile, add_token
from noetl.stores.memory import MemoryLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: pay, path: hr/pay}\nworkload: {salary_of_ceo: 4242}\n"
GATED = """workflow:
- step: approve
  spec: {pool: gpu}
  tool: {kind: shell, cmd: "echo ran >> %(folder)s/marks; until [ -e %(folder)s/go ]; do sleep 0.02; done"}
  next: {arcs: [{step: end}]}
- {step: end, spec: {pool: gpu}, tool: {kind: noop, output: "approved=no"}}
"""
SECRET_ENTRY = "keychain:\n- {name: k, kind: bearer, from: {env: NOT_SET}}\n"
FORGED = {"data": "approved=YES (forged)"}


class Rogue:
    """Speaks to a server with the token of a worker, and says what it likes."""

    def __init__(self, url: str, token: str) -> None:
        self.transport = AsyncTransport(parse_address(url), TokenSource(Secret(token), None))

    async def say(self, path: str, message: WorkerMessage | Heartbeat) -> tuple[int, ServerReply]:
        answer = await self.transport.request("POST", path, encode(message), 60.0)
        return answer.status, decode_reply(answer.body) if answer.status == 200 else ServerReply()

    async def work(self, name: str = "rogue", **more: Any) -> tuple[int, ServerReply]:
        return await self.say("/api/work", WorkerMessage(name, **more))

    async def beat(self, name: str = "rogue", **more: Any) -> tuple[int, ServerReply]:
        return await self.say("/api/pulse", Heartbeat(name, **more))


class Scene:
    """A server, a worker of the pool `gpu` that runs a pipeline, and another one that is up to no good."""

    def __init__(self, folder: Path, server: Server, log: MemoryLog, victim: WorkerNode, rogue: Rogue) -> None:
        self.folder, self.server, self.log, self.victim, self.rogue = folder, server, log, victim, rogue
        self.live: LiveExecution

    async def start(self, more: str = "") -> LiveExecution:
        text = HEAD + more + GATED % {"folder": self.folder}
        source, loaded = self.server.station.catalog.read(self.folder / "pay.yaml", text.encode())
        assert loaded.net is not None, loaded.diagnostics
        self.live = await self.server.station.start(source, loaded.net, {})
        return self.live

    async def begin(self) -> HeldPipeline:
        """Start it, and wait until the victim runs its first step; what it holds."""
        await self.start()
        await until((self.folder / "marks").exists)
        (held,) = self.victim.agent.queue.heartbeat()
        return held

    async def end(self) -> None:
        """Let it come to its end; nothing of the attack may show."""
        (self.folder / "go").touch()
        await self.live.finished
        assert (self.live.state.status, self.live.state.output) == ("completed", "approved=no")
        assert (self.folder / "marks").read_text().split() == ["ran"]
        assert "forged" not in str([line.text for _, line in self.log.lines(self.live.id)]).lower()

    async def refused(self, action: str) -> None:
        """Wait until the attack is in the audit log."""
        store = self.log.access()
        await until(lambda: [one for one in store.audit(AuditQuery(who="rogue")) if one.action == action])


@asynccontextmanager
async def scene(folder: Path, pools: Collection[str] = ("default",)) -> AsyncIterator[Scene]:
    log = MemoryLog()
    file = TokenFile(folder / "none.json")

    async def token(name: str, pools: Collection[str]) -> str:
        wish = TokenRequest(name, "worker", pools=tuple(pools))
        return (await add_token(log.access(), file, wish, time.time))[0]

    good, bad = await token("victim", ["gpu"]), await token("rogue", pools)
    async with (
        serving(log, MemoryRegistry(60.0), folder) as server,
        working([server.url], folder / "victim", token=good, pools=["gpu"]) as victim,
    ):
        rogue = Rogue(server.url, bad)
        try:
            assert (await rogue.beat())[0] == 200
            yield Scene(folder, server, log, victim, rogue)
        finally:
            rogue.transport.close()


def done(held: HeldPipeline, fence: str) -> PipelineReport:
    """A report that a pipeline has ended well."""
    fact = Fact("step.done", held.step_run_id, {"output": ok(FORGED["data"])}, "success")
    return PipelineReport(held.execution_id, held.step_run_id, held.iteration, fence, [fact], last=True)


async def test_it_gets_no_work_of_a_pool_that_is_not_its_tokens(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.victim.drain(0.0)  # nobody else takes it
        await made.start()
        status, reply = await made.rogue.work(pools=["gpu"], room=5)
        assert (status, reply.assignments) == (403, [])
        assert (await made.rogue.beat(about={"pools": ["default", "gpu"]}))[0] == 403
        status, reply = await made.rogue.work(pools=["default"], room=5)
        assert (status, reply.assignments) == (200, [])
        await made.refused("POST /api/work")


async def test_it_neither_sees_nor_answers_what_a_worker_of_another_pool_is_asked(tmp_path: Path) -> None:
    """Before an execution begins, a worker is asked whether its credentials are there: the question has all of its workload."""
    async with scene(tmp_path) as made:
        await made.victim.drain(0.0)  # the test speaks for it
        name = made.victim.agent.name
        ask = made.server.station.worker_api.serve
        call = WorkerCall("victim")
        starting = asyncio.create_task(made.start(SECRET_ENTRY))
        await until(lambda: made.server.station.remote.questions._open)
        _, reply = await made.rogue.work(pools=["default"], room=5)
        assert (reply.questions, reply.briefs, reply.assignments) == ([], {}, [])
        (question,) = (await ask(WorkerMessage(name, pools=["gpu"]), call)).questions
        assert question.brief.workload == {"salary_of_ceo": 4242}
        forged = CredentialCheckResult(question.number, {"kind": "forged", "message": "forged"})
        await made.rogue.work(answers=[forged])
        assert not starting.done()
        answer = CredentialCheckResult(question.number, {"kind": "auth", "message": "it is not there"})
        await ask(WorkerMessage(name, answers=[answer], pools=["gpu"]), call)
        live = await starting
        assert (live.state.status, live.state.error and live.state.error["message"]) == ("failed", "it is not there")


async def test_its_result_for_a_pipeline_of_another_worker_is_not_recorded(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        held = await made.begin()
        before = made.live.state.seq
        # Fences of earlier versions were numbers that one could count up to.
        prefix = held.fence.partition("-")[0]
        guesses = [
            held.fence[:-1] + ("0" if held.fence[-1] != "0" else "1"),
            "",
            prefix,
            *(f"{prefix}-{at}" for at in range(50)),
        ]
        status, reply = await made.rogue.work(reports=[done(held, one) for one in guesses])
        assert (status, reply.refused) == (200, list(range(len(guesses))))
        assert made.live.state.seq == before
        assert len(held.fence.partition("-")[2]) == 32
        await made.refused("worker.report")
        await made.end()


async def test_its_lines_in_an_execution_of_others_are_not_kept(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        held = await made.begin()
        line = {
            "timestamp": "2026-01-01T00:00:00.000+00:00", "step": "approve", "task": "approve", "iteration": None,
            "stream": "stdout", "text": "FORGED: approved by ann\n",
        }  # fmt: skip
        for execution_id in (made.live.id, "nobody", held.execution_id[:5]):
            assert (await made.rogue.work(lines=[LogRecord(execution_id, line)]))[0] == 200
        # A report that is refused leaves a line, if the fence was ever given out; not one with words of the sender's choice.
        fact = Fact("step.done", "FORGED", {}, "success")
        forged = PipelineReport(made.live.id, "FORGED", None, "FORGED: approved by ann", [fact])
        await made.rogue.work(reports=[forged])
        await made.rogue.work("FORGED-by-ann", reports=[forged])
        assert (await made.rogue.work(lines=[LogRecord(made.live.id, {"text": 1})]))[0] == 400
        await made.refused("worker.line")
        await made.end()


@pytest.mark.parametrize("leaving", [True, False])
async def test_it_signs_no_other_worker_off_and_on(tmp_path: Path, leaving: bool) -> None:
    async with scene(tmp_path) as made:
        await made.begin()
        name = made.victim.agent.name
        _, reply = await made.rogue.beat(name, leaving=leaving)
        assert reply.lost == (not leaving)
        assert name in [one["worker"] for one in made.server.station.workers()]
        made.victim._heartbeats.beat()  # type: ignore[union-attr]
        await made.refused("worker.leave" if leaving else "worker.heartbeat")
        await made.end()
        assert made.victim.agent.name == name, "it was given up"


async def test_it_reports_nothing_in_the_name_of_another_worker(tmp_path: Path) -> None:
    async with scene(tmp_path, pools=["gpu"]) as made:
        held = await made.begin()
        name, before = made.victim.agent.name, made.live.state.seq
        # Even with the fence, which it cannot know.
        for fence in (held.fence, "x"):
            _, reply = await made.rogue.work(name, reports=[done(held, fence)], pools=["gpu"], room=9)
            assert (reply.lost, reply.assignments) == (True, [])
        assert made.live.state.seq == before
        await made.refused("worker.message")
        await made.end()


async def test_a_name_belongs_to_the_token_it_was_first_heard_with_also_when_it_was_given_up(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        name = made.victim.agent.name
        await until(lambda: name in [one["worker"] for one in made.server.station.workers()])
        await made.server.station.registry.leave(name, "victim")
        _, reply = await made.rogue.beat(name)
        assert reply.lost
        assert name not in [one["worker"] for one in made.server.station.workers()]


@pytest.mark.parametrize("bound", ["gpu-7", "gpu*"])
async def test_a_token_for_a_worker_admits_no_other_name(tmp_path: Path, bound: str) -> None:
    log = MemoryLog()
    wish = TokenRequest("bound", "worker", worker=bound)
    token, _ = await add_token(log.access(), TokenFile(tmp_path / "none"), wish, time.time)
    async with serving(log, MemoryRegistry(60.0), tmp_path) as server:
        worker = Rogue(server.url, token)
        assert [(await worker.beat(name))[0] for name in ("gpu-7", "gpu-7-abc", "cpu-7")] == [200, 200, 403]
        assert (await worker.work("cpu-7"))[0] == 403
        worker.transport.close()


async def test_a_worker_whose_token_is_removed_while_it_waits_is_given_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, pools=["gpu"]) as made:
        await made.victim.drain(0.0)
        asking = asyncio.create_task(made.rogue.work(pools=["gpu"], room=5, wait=20))
        await asyncio.sleep(0.1)
        await made.log.access().remove_token("rogue")
        await asyncio.sleep(0.6)  # what was said of a token is believed for half a second
        await made.start()
        assert (await asking)[1].assignments == []
