"""Load: many executions that are started through the API, whatever is killed meanwhile, and held against an undisturbed run."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import aiohttp
import psycopg
from access_tokens import authorization
from cluster_processes import Arena

from noetl.history.log_queries import state_at
from noetl.model.state import Execution
from noetl.stores.postgres.postgres_log import PostgresLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s, path: %s}\nworkload: {run: 0, n: 0, ledger: ''}\nworkflow:\n"
#: each effect is a POST to the ledger, whose label says of which run it is, and where in it
EFFECT = (
    "kind: http, method: POST, url: '{{ workload.ledger }}/{{ workload.run }}/%s', "
    "spec: {policy: {rules: [{when: '{{ output.status == \"error\" }}', then: {do: retry, attempts: 20, backoff: fixed, delay: 0.1}}]}}"
)
#: what is killed with its process is tried again, under the same key
AGAIN = "spec: {policy: {rules: [{when: '{{ output.status == \"error\" }}', then: {do: retry, attempts: 20, delay: 0.05}}]}}"
PLAYBOOKS = {
    "chain": f"""
- step: first
  tool: {{{EFFECT % "first"}}}
  set: {{ctx.first: "{{{{ output.data.label }}}}"}}
  next: {{arcs: [{{step: sum}}]}}
- step: sum
  tool: {{kind: python, input: {{n: "{{{{ workload.n }}}}"}}, code: "result = n * 2", {AGAIN}}}
  set: {{ctx.sum: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: two}}]}}
- step: two
  tool:
    - {{name: a, {EFFECT % "a"}}}
    - {{name: b, {EFFECT % "b"}}}
  set: {{ctx.two: "{{{{ output.data.label }}}}"}}
  next: {{arcs: [{{step: end}}]}}
- {{step: end, tool: {{kind: noop, output: "{{{{ ctx.sum }}}}"}}}}
""",
    "loop": f"""
- step: each
  loop: {{in: "{{{{ range(4) | list }}}}", iterator: i, spec: {{mode: parallel, max_in_flight: 4, policy: {{reduce: {{ctx.sum: sum}}}}}}}}
  tool: {{{EFFECT % "each{{ iter.i }}"}, set: {{ctx.sum: "{{{{ iter.i + workload.n }}}}"}}}}
  next: {{arcs: [{{step: end}}]}}
- {{step: end, tool: {{kind: noop, output: "{{{{ ctx.sum }}}}"}}}}
""",
    "parent": f"""
- step: call
  tool: {{kind: playbook, path: child, input: {{run: "{{{{ workload.run }}}}", n: "{{{{ workload.n }}}}", ledger: "{{{{ workload.ledger }}}}"}}}}
  set: {{ctx.child: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: end}}]}}
- {{step: end, tool: {{{EFFECT % "end"}, output: "{{{{ ctx.child }}}}"}}}}
""",
    "wait": f"""
- step: before
  tool: {{{EFFECT % "before"}}}
  next: {{arcs: [{{step: rest}}]}}
- step: rest
  tool: {{kind: wait, seconds: 0.3}}
  next: {{arcs: [{{step: after}}]}}
- {{step: after, tool: {{{EFFECT % "after"}, output: "{{{{ output.data.label }}}}"}}}}
""",
    "ask": f"""
- step: ask
  tool: {{kind: wait, signal: answer}}
  set: {{ctx.answer: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: heard}}]}}
- {{step: heard, tool: {{{EFFECT % "heard"}, output: "{{{{ ctx.answer }}}}"}}}}
""",
}
CHILD = f"""
- step: inside
  tool: {{{EFFECT % "child"}}}
  next: {{arcs: [{{step: done}}]}}
- {{step: done, tool: {{kind: noop, output: "{{{{ workload.n + 1 }}}}"}}}}
"""
#: the effects of a run
LABELS = {
    "chain": ["first", "a", "b"],
    "loop": ["each0", "each1", "each2", "each3"],
    "parent": ["child", "end"],
    "wait": ["before", "after"],
    "ask": ["heard"],
}
#: runs of one kind and number end alike
NUMBERS = 3


class Run(NamedTuple):
    """An execution that is wanted."""

    number: int
    kind: str

    @property
    def n(self) -> int:
        return self.number % NUMBERS

    @property
    def patience(self) -> float:
        """How long it waits for its signal: some are out of all memories by then."""
        return self.number % 10 / 4


def runs(first: int, count: int) -> list[Run]:
    """So many of all kinds."""
    kinds = list(PLAYBOOKS)
    return [Run(at, kinds[at % len(kinds)]) for at in range(first, first + count)]


class Load:
    """Starts executions and sees them to their ends."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        #: run → its execution
        self.started: dict[Run, str] = {}
        self._open: dict[str, asyncio.Event] = {}
        self._turn = 0

    async def run(
        self, wanted: list[Run], *, at_once: int = 40, within: float = 600.0, pace: Callable[[], float] | None = None
    ) -> None:
        """Start executions, so many at a time, and wait for their ends. `pace` says what share of them may have begun."""
        queue = iter(wanted)
        begun = len(self.started)

        def may_start() -> bool:
            return pace is None or len(self.started) - begun <= pace() * len(wanted)

        async with asyncio.timeout(within), self.session() as session:
            watch = asyncio.create_task(self._watch())
            try:
                await asyncio.gather(*(self._one_by_one(session, queue, may_start) for _ in range(at_once)))
            finally:
                watch.cancel()

    async def _one_by_one(
        self, session: aiohttp.ClientSession, queue: Iterator[Run], may_start: Callable[[], bool]
    ) -> None:
        for one in queue:
            while not may_start():
                await asyncio.sleep(0.05)
            self.started[one] = execution_id = await self.start(session, one)
            ended = self._open[execution_id] = asyncio.Event()
            if one.kind == "ask":
                await asyncio.sleep(one.patience)
                await self._answer(session, one, execution_id)
            await ended.wait()

    async def _watch(self) -> None:
        """Tell those who wait of the ends of executions."""
        while True:
            await asyncio.sleep(0.1)
            for name in await asyncio.to_thread(self.over, list(self._open)):
                self._open.pop(name).set()

    def session(self) -> aiohttp.ClientSession:
        """A session that shows the token of the tests."""
        return aiohttp.ClientSession(headers=authorization(self.arena.environment))

    async def start(self, session: aiohttp.ClientSession, run: Run, playbook: str | None = None) -> str:
        """Start one: asked for until somebody says that it was, under a key that makes it one."""
        ledger = f"http://127.0.0.1:{self.arena.ledger_port}"
        text = playbook if playbook is not None else HEAD % (run.kind, run.kind) + PLAYBOOKS[run.kind]
        called = {"text": HEAD % ("child", "child") + CHILD, "file": "child.yaml", "names": ["child"]}
        wish = {
            "playbook": text,
            "payload": {"run": run.number, "n": run.n, "ledger": ledger},
            "calls": [called] if run.kind == "parent" else [],
        }
        said = await self._insist(session, "/api/executions", wish, (200, 201), f"run-{run.number}")
        return str(said["execution_id"])

    async def _answer(self, session: aiohttp.ClientSession, run: Run, execution_id: str) -> None:
        """Send the signal; it may be over already if a server died before it could say that it has heard it."""
        wish = {"name": "answer", "data": {"n": run.n}}
        await self._insist(session, f"/api/executions/{execution_id}/signal", wish, (200, 409), f"answer-{run.number}")

    async def _insist(
        self, session: aiohttp.ClientSession, path: str, wish: dict[str, Any], done: tuple[int, ...], key: str
    ) -> dict[str, Any]:
        """Ask one server after the other until one says that it has done it."""
        while True:
            self._turn += 1
            url = self.arena.urls[self._turn % len(self.arena.urls)]
            try:
                async with session.post(
                    url + path, json=wish, headers={"Idempotency-Key": key}, timeout=aiohttp.ClientTimeout(total=5)
                ) as answer:
                    said: dict[str, Any] = await answer.json(content_type=None)
                    if answer.status in done:
                        return said
                    assert answer.status in (500, 503), said
            except (aiohttp.ClientError, TimeoutError, ConnectionError):
                pass
            await asyncio.sleep(0.02)

    def over(self, ids: Iterable[str]) -> set[str]:
        """Those that have ended; none while the database is away."""
        try:
            with psycopg.connect(self.arena.postgres.url(), connect_timeout=2, autocommit=True) as connection:
                found = connection.execute(
                    "SELECT execution_id FROM noetl.execution WHERE over AND execution_id = ANY(%s)", (list(ids),)
                )
                return {row[0] for row in found.fetchall()}
        except psycopg.Error:
            return set()

    # --- afterwards --------------------------------------------------------------------------------------------------

    def unfinished(self) -> list[tuple[str, str]]:
        with psycopg.connect(self.arena.postgres.url(), autocommit=True) as connection:
            found = connection.execute("SELECT execution_id, status FROM noetl.execution WHERE NOT over").fetchall()
        return [(row[0], row[1]) for row in found]

    def check(self) -> dict[str, Any]:
        """Everything happened, once, as if nothing had been disturbed; what can be counted is told."""
        states = self.states()
        ends = {run: _end(states[name]) for run, name in self.started.items()}
        wrong = {run: end for run, end in ends.items() if end["status"] != "completed"}
        assert not wrong, f"{len(wrong)} did not complete, among them {list(wrong.items())[:3]}"
        expected: dict[tuple[str, int], Any] = {}
        for run, end in sorted(ends.items()):
            first = expected.setdefault((run.kind, run.n), end)  # those that ran before anything was disturbed
            assert end == first, f"{run} ended as {end}, and undisturbed as {first}"
        effects = self.effects()
        problems = json.loads(self.arena.fsck())
        assert problems["problems"] == [], problems["problems"][:3]
        assert problems["checked"] >= len(self.started)
        return {"executions": problems["checked"], "events": problems["events"], **effects}

    def states(self) -> dict[str, Execution]:
        log = PostgresLog(self.arena.postgres.url())
        try:
            return {name: state_at(log, name) for name in self.started.values()}
        finally:
            asyncio.run(log.close())

    def ledger(self) -> list[tuple[str, str, float]]:
        return [tuple(json.loads(line)) for line in self.arena.ledger_file.read_text().splitlines()]

    def effects(self) -> dict[str, int]:
        """The ledger is the log: every effect is there under one key, which is its own."""
        keys: dict[str, set[str]] = {}
        lines = self.ledger()
        for label, key, _ in lines:
            keys.setdefault(label, set()).add(key)
        wanted = {f"{run.number}/{label}" for run in self.started for label in LABELS.get(run.kind, ())}
        assert wanted - keys.keys() == set(), "effects are missing"
        assert keys.keys() - wanted == set(), "there are effects that nobody wanted"
        second = {label: found for label, found in keys.items() if len(found) != 1}
        assert not second, f"effects have a second key: {second}"
        shared = [key for key, times in Counter(key for found in keys.values() for key in found).items() if times > 1]
        assert not shared, f"effects share a key: {shared}"
        return {"effects": len(keys), "repeated": len(lines) - len(keys)}


def _end(state: Execution) -> dict[str, Any]:
    return {"status": state.status, "ctx": state.ctx, "output": state.output, "error": state.error}
