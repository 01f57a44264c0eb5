"""Results that lie in the store, in a whole house on a disk: what is seen of them, and that no death changes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from thorough import share

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.engine.fold import replay
from noetl.errors import NoetlError
from noetl.model.requests import Pause, Resume
from noetl.model.state import Execution
from noetl.ports import StoreFailed
from noetl.results.store import PayloadStore
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"
ROWS = "[{'id': i, 'name': 'x' * 40} for i in range(2000)]"
#: each makes all kinds of things that are too large for the log
PLAYBOOKS = {
    "outputs and writes": f"""
- step: a
  tool:
    - {{name: one, kind: python, code: "def main(): return {ROWS}", set: {{step.all: "{{{{ output.data }}}}"}}}}
    - {{name: two, kind: python, input: {{n: "{{{{ _prev | length }}}}"}}, code: "def main(n): return {{'n': n, 'long': 'y' * 70000}}"}}
    - {{name: three, kind: python, input: {{last: "{{{{ step.all[-1].id }}}}"}}, code: "def main(last): return {{'last': last, 'rows': ['z' * 100] * 1000}}"}}
  set: {{ctx.last: "{{{{ output.data.last }}}}", ctx.rows_ref: "{{{{ output.ref }}}}", ctx.first: "{{{{ step.all[0].id }}}}"}}
  next: {{arcs: [{{step: end}}]}}
- step: end
  tool:
    - {{name: get, kind: resolve, ref: "{{{{ ctx.rows_ref }}}}"}}
    - {{name: say, kind: noop, output: "{{{{ [_prev.rows | length, ctx.last, ctx.first] }}}}"}}
""",
    "loops": f"""
- {{step: make, tool: {{kind: python, code: "def main(): return {ROWS}[:40]"}}, set: {{ctx.rows_ref: "{{{{ output.ref }}}}"}}, next: {{arcs: [{{step: each}}]}}}}
- step: each
  loop: {{in: "{{{{ ctx.rows_ref }}}}", iterator: row, spec: {{mode: parallel, max_in_flight: 3}}}}
  tool: {{kind: python, input: {{n: "{{{{ iter.row.id }}}}"}}, code: "def main(n): return {{'n': n, 'long': 'y' * (70000 if n % 10 == 0 else 3000)}}"}}
  set: {{ctx.list_ref: "{{{{ output.ref }}}}"}}
  next: {{arcs: [{{step: again}}]}}
- step: again
  loop: {{in: "{{{{ ctx.list_ref }}}}", iterator: one, spec: {{until: "{{{{ iter.one.n == 25 }}}}"}}}}
  tool: {{kind: noop, output: "{{{{ [iter.one.n, iter.one.long | length] }}}}"}}
  next: {{arcs: [{{step: end}}]}}
- {{step: end, tool: {{kind: resolve, ref: "{{{{ ctx.list_ref }}}}", range: [9, 11], output: "{{{{ output.data | map(attribute='n') | list }}}}"}}}}
""",
    "child and workbook": """
- {step: call, tool: {kind: playbook, path: child, input: {n: 3}}, set: {ctx.n: "{{ output.data.n }}", ctx.all_ref: "{{ output.ref }}"}, next: {arcs: [{step: book}]}}
- {step: book, tool: [{name: w, kind: workbook, task: big, input: {n: 4}}, {name: t, kind: python, input: {n: "{{ _prev | length }}"}, code: "def main(n): return n"}], set: {ctx.w: "{{ output.data }}"}, next: {arcs: [{step: silent}]}}
- {step: silent, tool: {kind: workbook, task: big, input: {n: 5}}, next: {arcs: [{step: end}]}}
- {step: end, tool: [{name: get, kind: resolve, ref: "{{ ctx.all_ref }}"}, {name: say, kind: noop, output: "{{ [_prev.rows | length, ctx.n, ctx.w] }}"}]}
workbook:
  big: [{name: one, kind: python, input: {n: "{{ input.n }}"}, code: "def main(n): return ['w' * 1000] * (n * 100)"}]
""",
}
CHILD = """
- {step: x, tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "def main(n): return {'n': n, 'rows': ['c' * 100] * 1000}"}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "def main(n): return {'n': n + 1, 'rows': ['c' * 100] * 1000}"}}
"""
OUTPUTS = {
    "outputs and writes": [1000, 1999, 0],
    "loops": [9, 10],
    "child and workbook": [1000, 4, 400],
}


TRANSFER = """
- step: move
  tool: {kind: transfer, source: {kind: data, data: "{{ range(50) | list }}"}, targets: [{kind: file, path: "out.FORM", mapping: {n: "{{ row }}"}}], chunk: {size: 20}}
  set: {ctx.out_ref: "{{ output.data.targets[0].ref }}"}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ ctx.out_ref }}", iterator: row}
  tool: {kind: noop, output: "{{ iter.row.n }}"}
  set: {ctx.all: "{{ output.data }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: resolve, ref: "{{ ctx.out_ref }}", range: [48, 60]}}
"""


class Dying(PayloadStore):
    """A store that fails at its nth write, before or after it."""

    die_at, after = 0, False
    writes = 0

    async def keep(self, *arguments: Any, **more: Any) -> Any:
        return await self._at(super().keep(*arguments, **more))

    async def keep_list(self, *arguments: Any, **more: Any) -> Any:
        return await self._at(super().keep_list(*arguments, **more))

    async def _at(self, write: Awaitable[Any]) -> Any:
        Dying.writes += 1
        dies = Dying.writes == self.die_at
        if dies and not self.after:
            write.close()  # type: ignore[attr-defined]
            raise StoreFailed("it dies here")
        done = await write
        if dies:
            raise StoreFailed("it dies here")
        return done


class Site:
    """A folder with playbooks and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(folder / "home")
        (folder / "child.yaml").write_text(HEAD % "child" + CHILD)

    def node(self) -> LocalNode:
        node = LocalNode(self.settings, SqliteLog(self.settings.home / "noetl.db"))
        node.results.__class__ = Dying
        return node

    async def run(self, steps: str, during: Callable[[LocalNode, str], Awaitable[None]] | None = None) -> Execution:
        """Run it, and go on with it if it dies."""
        file = self.folder / "main.yaml"
        file.write_text(HEAD % "main" + steps)
        async with self.node() as node:
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None, loaded.diagnostics
            live = await node.start(source, loaded.net, {})
            if during is not None:
                await during(node, live.id)
            with contextlib.suppress(StoreFailed):
                await asyncio.wait_for(asyncio.shield(live.finished), 120)
        if live.finished.exception() is None and live.state.over:
            return live.state
        async with self.node() as node:
            again = await node.resume(live.id)
            await asyncio.wait_for(asyncio.shield(again.finished), 120)
            assert replay(live.id, node.log.read(live.id)) == again.state
            return again.state


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(Dying, "writes", 0)
    return Site(tmp_path)


def ended(state: Execution) -> tuple[Any, ...]:
    return state.status, state.error, state.output, sorted(state.ctx)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_death_at_any_write_to_the_store_changes_nothing(
    name: str, after: bool, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    calm = asyncio.run(site.run(PLAYBOOKS[name]))
    assert (calm.status, calm.output) == ("completed", OUTPUTS[name])
    writes = Dying.writes
    assert writes >= 5
    monkeypatch.setattr(Dying, "after", after)
    for point in range(1, writes + 1):
        monkeypatch.setattr(Dying, "writes", 0)
        monkeypatch.setattr(Dying, "die_at", point)
        assert ended(asyncio.run(site.run(PLAYBOOKS[name]))) == ended(calm), f"write {point} of {writes}"


async def recorded(node: LocalNode, execution_id: str, point: int) -> None:
    """Wait until an execution has come to an event, which is just being written, or to its end."""
    live = node.service.live[execution_id]
    reached = asyncio.Event()
    append = node.log.append

    async def noticed(*arguments: Any, **more: Any) -> Any:
        if live.state.seq >= point or live.state.over:
            reached.set()
        return await append(*arguments, **more)

    if live.state.seq < point:
        node.log.append = noticed  # type: ignore[method-assign]
        await reached.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_run_that_is_given_up_after_any_report_goes_on_to_the_same_end(name: str, site: Site) -> None:
    calm = asyncio.run(site.run(PLAYBOOKS[name]))
    points = share([seq for seq in range(4, calm.seq) if seq < 30 or seq % 23 == 0], list(PLAYBOOKS).index(name))
    for point in points:

        async def die(node: LocalNode, execution_id: str, point: int = point) -> None:
            await recorded(node, execution_id, point)
            node.service.give_up(execution_id, StoreFailed("it dies here"))

        assert ended(asyncio.run(site.run(PLAYBOOKS[name], die))) == ended(calm), f"event {point} of {calm.seq}"


def test_a_loop_over_a_reference_can_be_paused(site: Site) -> None:
    async def pause(node: LocalNode, execution_id: str) -> None:
        live = node.service.live[execution_id]
        while not (live.state.runs.get("each-1") and live.state.runs["each-1"].loop):
            await asyncio.sleep(0.001)
        await node.service.record(execution_id, [Pause()])
        await asyncio.sleep(0.3)
        loop = live.state.runs["each-1"].loop
        assert loop is not None
        assert loop.started < loop.total
        await node.service.record(execution_id, [Resume()])

    assert asyncio.run(site.run(PLAYBOOKS["loops"], pause)).output == OUTPUTS["loops"]


def test_a_payload_that_is_gone_fails_the_task_that_wants_it_and_nothing_else(site: Site) -> None:
    async def lose(node: LocalNode, execution_id: str) -> None:
        live = node.service.live[execution_id]
        while "rows_ref" not in live.state.ctx:
            await asyncio.sleep(0.001)
        for path in (site.settings.home / "results" / execution_id).iterdir():
            path.unlink()

    steps = PLAYBOOKS["outputs and writes"].replace("next: {arcs: [{step: end}]}", "next: {arcs: [{step: later}]}") + (
        "- {step: later, tool: {kind: wait, seconds: 0.2}, next: {arcs: [{step: end}]}}\n"
    )
    state = asyncio.run(site.run(steps, lose))
    assert state.error is not None
    assert (state.error["kind"], state.error["step"], state.error["task"]) == ("result-expired", "end", "get")


def test_a_full_disk_ends_the_run_with_a_sentence_and_it_can_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def full(*_arguments: Any, **_more: Any) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        file = site.folder / "main.yaml"
        file.write_text(HEAD % "main" + PLAYBOOKS["outputs and writes"])
        async with site.node() as node:
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None
            with monkeypatch.context() as patch:
                patch.setattr("noetl.results.codec.write", full)
                live = await node.start(source, loaded.net, {})
                with pytest.raises(NoetlError, match="No space left"):
                    await asyncio.wait_for(asyncio.shield(live.finished), 120)
        async with site.node() as node:
            again = await node.resume(live.id)
            await asyncio.wait_for(asyncio.shield(again.finished), 120)
            assert again.state.output == OUTPUTS["outputs and writes"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (
            "store: nats",
            "result",
            "`spec.result.store: nats` is not there; there is `blob`, which `auto` takes as well",
        ),
        ("store: object_store", "result", "there is `blob`"),
        ("store: relational", "result", "there is `blob`"),
        ("ttl: soon", "type", "such as 24h, not 'soon'"),
        ("ttl: ''", "type", "such as 24h"),
        ("ttl: '1_0'", "type", "such as 24h, not '1_0'; at most 100 years"),
        ("ttl: inf", "type", "not 'inf'"),
        ("ttl: 1e300", "type", "not 1e+300"),
        ("ttl: '{{ [1] }}'", "type", "not [1]"),
        ("ttl: '{{ workload.nowhere }}'", "template", "nowhere"),
        ("select: {n: '$['}", "template", "jsonpath"),
    ],
)
@pytest.mark.parametrize("tool", ["{kind: noop, output: [1]}", "{kind: shell, cmd: 'echo 1'}"], ids=["noop", "shell"])
def test_results_that_cannot_be_kept_so_fail_whatever_their_size(
    site: Site, tool: str, result: str, kind: str, said: str
) -> None:
    state = asyncio.run(site.run(f"- {{step: a, spec: {{result: {{{result}}}}}, tool: {tool}}}\n"))
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == (kind, "a")
    assert said in state.error["message"]


@pytest.mark.parametrize("store", ["auto", "blob"])
def test_what_is_there_may_be_asked_for(site: Site, store: str) -> None:
    steps = f"- {{step: a, spec: {{result: {{store: {store}, inline_max_bytes: 1}}}}, tool: {{kind: noop, output: [1, 2]}}, set: {{ctx.a_ref: '{{{{ output.ref }}}}'}}}}\n"
    state = asyncio.run(site.run(steps))
    assert state.ctx["a_ref"]["type"] == "blob"
    assert state.output == {"ref": state.ctx["a_ref"]}


@pytest.mark.parametrize(
    ("path", "expected"),
    [("$.items[*].id", [7]), ("$.items[0].id", 7), ("$.none[*]", []), ("$.none", None), ("$['total']", 1), ("$..id", [7])],
)  # fmt: skip
def test_what_is_selected_has_one_shape_whatever_the_data(site: Site, path: str, expected: Any) -> None:
    steps = (
        f'- {{step: a, spec: {{result: {{select: {{x: "{path}"}}}}}}, '
        "tool: {kind: noop, output: {total: 1, items: [{id: 7}]}}, set: {ctx.x: '{{ output.data.x }}'}}\n"
    )
    assert asyncio.run(site.run(steps)).ctx == {"x": expected}


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet"])
def test_what_a_transfer_wrote_is_gone_over_and_resolved(site: Site, form: str) -> None:
    state = asyncio.run(site.run(TRANSFER.replace("FORM", form)))
    assert state.error is None
    assert state.ctx["all"] == list(range(50))
    assert state.output == [{"n": 48}, {"n": 49}]


def test_a_made_up_reference_reads_no_file_of_the_machine(site: Site) -> None:
    (site.folder / "secret.json").write_text('[{"a": "secret"}]')
    forged = {"type": "blob", "locator": {"file": str(site.folder / "secret.json")}, "auth_reference": None, "meta": {"content_type": "application/json", "rows": 1}}  # fmt: skip
    for steps in (
        "- {step: a, tool: {kind: resolve, ref: '{{ workload.r }}'}}\n",
        "- {step: a, loop: {in: '{{ workload.r }}', iterator: x}, tool: {kind: noop, output: '{{ iter.x }}'}}\n",
    ):
        state = asyncio.run(site.run(f"{steps}workload: {{r: {forged!r}}}\n".replace("None", "null")))
        assert state.error is not None
        assert state.error["kind"] == "result"
        assert "no transfer on this machine has made it" in state.error["message"]


BIG = "['x' * 100] * 5000"
GOING_ON = {
    "an output": f"""
- step: a
  tool:
    - {{name: make, kind: python, code: "def main(): return {BIG}"}}
    - {{name: slow, kind: shell, cmd: "test -e started || (touch started; sleep 60)", spec: {{policy: {{rules: [{{when: "{{{{ true }}}}", then: {{do: skip}}}}]}}}}}}
    - {{name: use, kind: python, input: {{p: "{{{{ _prev }}}}"}}, code: "def main(p): return 'none!' if p is None else len(p)"}}
""",
    "a write": f"""
- step: a
  tool:
    - {{name: make, kind: python, code: "def main(): return {BIG}", set: {{step.big: "{{{{ output.data }}}}"}}}}
    - {{name: slow, kind: shell, cmd: "test -e started || (touch started; sleep 60)"}}
    - {{name: use, kind: python, input: {{p: "{{{{ step.big }}}}"}}, code: "def main(p): return 'none!' if p is None else len(p)"}}
""",
}


async def interrupted(site: Site, steps: str, between: Callable[[Path], None] = lambda folder: None) -> Execution:
    """Kill it in its slow task, do something to its payloads, and go on."""
    file = site.folder / "main.yaml"
    file.write_text(HEAD % "main" + steps)
    async with site.node() as node:
        source, loaded = node.catalog.read(file)
        assert loaded.net is not None, loaded.diagnostics
        live = await node.start(source, loaded.net, {})
        while not (site.folder / "started").exists():
            assert not live.finished.done(), live.state.error
            await asyncio.sleep(0.01)
        node.service.give_up(live.id, StoreFailed("it dies here"))
        with contextlib.suppress(StoreFailed):
            await live.finished
    between(site.settings.home / "results" / live.id)
    async with site.node() as node:
        again = await node.resume(live.id)
        await asyncio.wait_for(asyncio.shield(again.finished), 120)
        assert replay(live.id, node.log.read(live.id)) == again.state
        return again.state


def damage(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"something else")


def lose(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(("spoil", "kind"), [(lose, "result-expired"), (damage, "result-damaged")])
@pytest.mark.parametrize("name", GOING_ON)
def test_a_run_that_goes_on_fails_if_a_payload_it_still_reads_cannot_be_brought(
    name: str, spoil: Callable[[Path], None], kind: str, site: Site
) -> None:
    state = asyncio.run(interrupted(site, GOING_ON[name], spoil))
    assert state.status == "failed"
    assert state.error is not None
    assert (state.error["kind"], state.error["step"], state.error["task"]) == (kind, "a", "slow")
    assert "is wanted again" in state.error["message"]


@pytest.mark.parametrize("name", GOING_ON)
def test_a_run_that_goes_on_reads_its_payloads_again(name: str, site: Site) -> None:
    assert asyncio.run(interrupted(site, GOING_ON[name])).output == 5000


def test_a_payload_that_nobody_reads_any_more_is_not_missed(site: Site) -> None:
    steps = GOING_ON["an output"].replace('p: "{{ _prev }}"', "p: [1]")
    assert asyncio.run(interrupted(site, steps, lose)).output == 1


@pytest.mark.parametrize(
    "body",
    [
        "input: {t: '{{ keychain.a.token }}'}, code: \"def main(t):\\n    open('made', 'a').write('x')\\n    return [t] + ['x' * 1000] * 3000\"",
        "input: {t: '{{ keychain.a.token }}'}, output: done, code: \"def main(t):\\n    open('made', 'a').write('x')\\n    return [t] + ['x' * 1000] * 3000\"",
    ],
    ids=["nobody reads it", "it was reshaped"],
)
def test_a_redacted_payload_that_nobody_reads_is_not_made_again(body: str, site: Site) -> None:
    (site.folder / "token.txt").write_text("tok-8c1f0a7e55d2")
    steps = f"""
- step: a
  tool:
    - {{name: big, kind: python, {body}}}
    - {{name: slow, kind: shell, cmd: "test -e started || (touch started; sleep 60)"}}
keychain:
- {{name: a, kind: bearer, from: {{file: {site.folder}/token.txt}}}}
"""
    state = asyncio.run(interrupted(site, steps))
    assert state.error is None
    assert (site.folder / "made").read_text() == "x"
    assert list((site.settings.home / "results" / "drafts").iterdir()) == []


def test_what_the_server_reads_of_step_is_counted_with_what_it_reads_of_the_output(site: Site) -> None:
    half = "'y' * 600000"
    steps = f"""
- step: a
  tool:
    - {{name: one, kind: python, code: "def main(): return {half}", set: {{step.big: "{{{{ output.data }}}}"}}}}
    - {{name: two, kind: python, code: "def main(): return {half}"}}
  set: {{ctx.n: "{{{{ step.big | length }}}}", ctx.m: "{{{{ output.data | length }}}}"}}
"""
    state = asyncio.run(site.run(steps))
    assert state.error is not None
    assert (state.error["kind"], state.ctx) == ("payload-too-large", {})
    assert "`output.data` and `step`" in state.error["message"]
    assert asyncio.run(site.run(steps.replace("600000", "500000"))).ctx == {"n": 500000, "m": 500000}


def test_no_event_holds_more_of_step_than_may_travel(site: Site) -> None:
    async def run() -> tuple[Execution, int]:
        state = await site.run(
            """
- step: a
  tool:
    - {name: one, kind: python, code: "def main(): return ['x' * 100] * 50000", set: {step.big: "{{ output.data }}"}}
    - {name: two, kind: noop}
  set: {ctx.n: "{{ step.big | length }}"}
"""
        )
        async with site.node() as node:
            return state, max(len(repr(event)) for event in node.log.read(state.execution_id))

    state, longest = asyncio.run(run())
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == ("payload-too-large", "a")
    assert longest < 100_000


@pytest.mark.parametrize(
    "task",
    [
        "output: done",
        "output: '{{ workload.nowhere }}'",
        "spec: {result: {store: nats}}",
        "spec: {validate: {output: {type: object}}}",
    ],
)
def test_no_file_is_left_of_a_result_that_nobody_takes(site: Site, task: str) -> None:
    asyncio.run(site.run(f'- {{step: a, tool: {{kind: python, {task}, code: "def main(): return {BIG} * 10"}}}}\n'))
    drafts = site.settings.home / "results" / "drafts"
    assert not drafts.exists() or list(drafts.iterdir()) == []


def test_a_range_that_ends_before_it_begins_is_an_error_with_a_way_out(site: Site) -> None:
    steps = (
        "- {step: a, tool: {kind: noop, output: [1, 2]}, set: {ctx.r_ref: '{{ output.ref }}'}, next: {arcs: [{step: b}]}}\n"
        "- {step: b, tool: {kind: resolve, ref: '{{ ctx.r_ref }}', range: [5, 2]}}\n"
    )
    state = asyncio.run(site.run(steps))
    assert state.error is not None
    assert state.error["kind"] == "type"
    assert "`[from, to]`, the second no less than the first" in state.error["message"]
