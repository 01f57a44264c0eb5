"""The whole house in one process, on a real store: faults that end a run clearly, and runs side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.engine.fold import replay
from noetl.errors import NoetlError
from noetl.history.log_queries import read_snapshot
from noetl.model.requests import Cancel, Pause, Resume, Signal, encode_request
from noetl.model.state import Execution
from noetl.ports import StoreFailed
from noetl.server.core.service import LiveExecution
from noetl.stores.sqlite_file import WriteLock
from noetl.stores.sqlite_log import SqliteLog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"


class Site:
    """A folder with playbooks and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(folder / "home")

    def write(self, name: str, steps: str) -> Path:
        file = self.folder / f"{name}.yaml"
        file.write_text(HEAD % name + steps)
        return file

    def node(self) -> LocalNode:
        return LocalNode(self.settings, SqliteLog(self.settings.home / "noetl.db"))

    async def start(self, node: LocalNode, file: Path, **payload: Any) -> LiveExecution:
        source, loaded = node.catalog.read(file)
        assert loaded.net is not None, loaded.diagnostics
        return await node.start(source, loaded.net, payload)

    async def run(self, steps: str, **payload: Any) -> Execution:
        async with self.node() as node:
            return await self.run_in(node, self.write("main", steps), **payload)

    async def run_in(self, node: LocalNode, file: Path, **payload: Any) -> Execution:
        live = await self.start(node, file, **payload)
        await asyncio.wait_for(asyncio.shield(live.finished), 60)
        assert replay(live.id, node.log.read(live.id)) == live.state
        return live.state


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


@pytest.mark.parametrize(
    ("steps", "kind", "said"),
    [
        ("- {step: a, tool: {kind: noop, output: '{{ ctx.none }}'}}", "template", "`none` is missing"),
        ("- {step: a, loop: {in: '{{ workload.n }}', iterator: i}, tool: {kind: noop}}", "type", "not a number (int)"),
        ("- {step: a, tool: {kind: playbook, path: nowhere}}", "playbook", "no playbook `nowhere`"),
        ("- {step: a, tool: {kind: playbook, path: main}}", "playbook", "more than 32 deep"),
        ("- {step: a, tool: {kind: noop, output: \"{{ 'a' * 10 ** 9 }}\"}}", "template", "grew too large"),
        (
            "- step: a\n  spec: {policy: {max_jumps: 50}}\n  tool: [{name: x, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: x}}}]}}}]",
            "jump-limit",
            "more than 50 times",
        ),
        ('- {step: a, tool: {kind: postgres, auth: "{{ workload.db }}", query: SELECT 1}}', "credential", "needs to know where and as whom"),
        ("- {step: a, tool: {kind: wait, until: tomorrow}}", "type", "cannot wait so"),
        ("- {step: a, tool: {kind: wait, seconds: '{{ workload.n * 1e12 }}'}}", "type", "beyond the year 9999"),
        ("- {step: a, tool: {kind: wait, signal: s, timeout: '{{ 10 ** 400 }}'}}", "type", "cannot wait so"),
    ],
    ids=["undefined", "no list", "no playbook", "calls itself", "explodes", "endless jump", "no credential", "no time", "too late", "no number"],
)  # fmt: skip
def test_what_cannot_work_ends_in_an_error_that_names_the_step(site: Site, steps: str, kind: str, said: str) -> None:
    state = run(site.run(steps, n=1, db=""))
    assert state.status == "failed"
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == (kind, "a")
    assert said in state.error["message"]


def test_a_failure_far_below_is_told_at_the_top_in_one_sentence(site: Site) -> None:
    site.write("bottom", "- {step: x, tool: {kind: python, code: 'def main(): raise ValueError(\"deep\")'}}\n")
    site.write("middle", "- {step: y, tool: {kind: playbook, path: bottom}}\n")
    state = run(site.run("- {step: a, tool: {kind: playbook, path: middle}}"))
    assert state.error is not None
    assert state.error["message"] == "playbook `middle` failed: ValueError: deep"
    assert state.error["cause"]["kind"] == "python"


def test_the_error_of_a_step_comes_before_that_of_its_arcs(site: Site) -> None:
    state = run(
        site.run(
            "- step: a\n  tool: {kind: python, code: 'def main(): return nam'}\n  set: {ctx.all: '{{ output.data }}'}\n"
            "  next: {arcs: [{step: b, when: '{{ ctx.all | length == 0 }}'}]}\n- {step: b, tool: {kind: noop}}\n"
        )
    )
    assert state.error is not None
    assert state.error["kind"] == "python"
    assert state.error["message"].startswith("NameError")


def test_a_store_that_fails_ends_the_run_and_keeps_what_was_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with site.node() as node:
            file = site.write(
                "main", "- {step: a, tool: {kind: wait, signal: go}, next: {arcs: [{step: end}]}}\n- {step: end}\n"
            )
            live = await site.start(node, file)
            written = len(node.log.read(live.id))

            async def full(*_arguments: Any, **_more: Any) -> None:
                raise StoreFailed("the disk is full")

            with monkeypatch.context() as patch:
                patch.setattr(node.log, "append", full)
                node.service.post(live.id, [Signal("go")])
                with pytest.raises(StoreFailed, match="disk is full"):
                    await asyncio.wait_for(live.finished, 60)
            assert len(node.log.read(live.id)) >= written
            again = await node.resume(live.id)
            node.service.post(live.id, [Signal("go")])
            await asyncio.wait_for(again.finished, 60)
            assert again.state.status == "completed"

    run(main())


def test_a_request_that_was_not_settled_takes_effect_once(site: Site) -> None:
    async def main() -> None:
        file = site.write(
            "main",
            "- {step: a, tool: {kind: wait, signal: go}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: wait, signal: go, timeout: 0.3}}\n",
        )
        async with site.node() as node:
            live = await site.start(node, file)
            node.log.settle = lambda _number: None  # type: ignore[method-assign]  # the process dies just before
            node.log.post(live.id, encode_request(Signal("go", 1)))
            while "b-1" not in live.state.runs:
                await asyncio.sleep(0.01)
            node.service.give_up(live.id, NoetlError("it dies here"))
        async with site.node() as node:
            again = await node.resume(live.id)
            await asyncio.wait_for(asyncio.shield(again.finished), 60)
            names = [event.name for event in node.log.read(live.id)]
            assert names.count("signal.received") == 1
            assert again.state.error is not None
            assert again.state.error["kind"] == "timeout"

    run(main())


def test_a_paused_run_starts_nothing_new_until_it_is_resumed(site: Site) -> None:
    async def main() -> None:
        async with site.node() as node:
            file = site.write(
                "main",
                "- {step: a, loop: {in: '{{ range(9) | list }}', iterator: i}, tool: {kind: wait, seconds: 0.05}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n",
            )
            live = await site.start(node, file)
            await node.service.record(live.id, [Pause()])
            loop = live.state.runs["a-1"].loop
            assert loop is not None
            started = loop.started
            await asyncio.sleep(0.3)
            assert loop.started == started < 9
            await node.service.record(live.id, [Resume()])
            await asyncio.wait_for(live.finished, 60)
            assert live.state.status == "completed"

    run(main())


def test_a_pause_that_ends_before_a_pipeline_has_said_anything_makes_it_run_once(site: Site) -> None:
    steps = "- {step: a, tool: {kind: shell, cmd: 'echo once >> marks'}, next: {arcs: [{step: b}]}}\n"
    file = site.write("main", steps + "- {step: b, tool: {kind: shell, cmd: 'sleep 0.3'}}\n")

    async def go() -> None:
        async with site.node() as node:
            live = await site.start(node, file)
            await node.service.record(live.id, [Pause(), Resume()])
            await asyncio.wait_for(live.finished, 60)
            assert live.state.status == "completed"

    asyncio.run(go())
    assert (site.folder / "marks").read_text() == "once\n"


def test_a_pipeline_stops_between_two_tasks_when_it_is_paused_and_goes_on_behind_them(site: Site) -> None:
    file = site.write(
        "pages",
        """- step: fetch
  set: {ctx.pages: "{{ step.page }}"}
  tool:
  - {name: first, kind: noop, set: {step.page: 0}}
  - name: page
    kind: shell
    cmd: "echo page >> pages.txt; while [ -e hold ]; do sleep 0.02; done"
    spec:
      policy:
        rules:
        - {when: "{{ step.page < 7 }}", then: {do: jump, to: page, set: {step.page: "{{ step.page + 1 }}"}}}
        - else: {then: {do: continue}}
""",
    )
    pages, hold = site.folder / "pages.txt", site.folder / "hold"
    hold.touch()

    async def go() -> None:
        async with site.node() as node:
            live = await site.start(node, file)
            while not pages.exists():
                await asyncio.sleep(0.01)
            await node.service.record(live.id, [Pause()])
            hold.unlink()
            await node.runners.settle()
            await asyncio.sleep(0.2)
            assert pages.read_text() == "page\n"
        async with site.node() as node:  # another process takes it over while it is paused
            live = await node.resume(live.id)
            await asyncio.sleep(0.2)
            assert pages.read_text() == "page\n"
            await node.service.record(live.id, [Resume()])
            await asyncio.wait_for(live.finished, 60)
            assert (live.state.status, live.state.ctx) == ("completed", {"pages": 7})
        assert pages.read_text() == "page\n" * 8

    asyncio.run(go())


def test_a_number_of_any_size_survives_a_snapshot(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr("noetl.server.core.service.SNAPSHOT_EVERY", 5)
    steps = """- step: start
  tool: {kind: noop, set: {ctx.large: "{{ 10 ** 30 }}"}}
  next: {arcs: [{step: more}]}
- step: more
  loop: {in: "{{ range(20) | list }}", iterator: i}
  tool: {kind: noop}
"""

    async def go() -> None:
        state = await site.run(steps)
        assert state.ctx == {"large": 10**30}
        log = SqliteLog(site.settings.home / "noetl.db")
        found = log.snapshot(state.execution_id)
        assert found is not None
        assert read_snapshot(found[1]).ctx == state.ctx
        await log.close()

    asyncio.run(go())


def test_a_playbook_that_calls_itself_several_times_over_is_stopped(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    monkeypatch.setattr("noetl.server.core.children.RECURSIONS", 20)
    steps = """- step: start
  loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel}}
  tool: {kind: playbook, path: main}
"""
    state = asyncio.run(site.run(steps))
    assert state.error is not None
    assert state.error["cause"]["kind"] == "limit"
    assert "calls itself; more than 20 runs" in state.error["cause"]["message"]


def test_children_pause_with_their_parent_and_go_on_with_it(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: wait, signal: go}, next: {arcs: [{step: end}]}}\n- {step: end}\n")
        async with site.node() as node:
            loop = "loop: {in: [1, 2], iterator: i, spec: {mode: parallel}}"
            file = site.write("main", f"- {{step: a, {loop}, tool: {{kind: playbook, path: child}}}}\n")
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None
            live = await node.start(source, loaded.net, {})
            await node.service.record(live.id, [Pause()])  # the children are still on their way
            while len(node.service.live) < 3:
                await asyncio.sleep(0.01)
            children = [one.state for one in node.service.live.values() if one is not live]
            await until(lambda: all(one.paused for one in children))
            for one in children:
                node.service.post(one.execution_id, [Signal("go")])
            await asyncio.sleep(0.3)
            assert [(one.paused, "end" in one.steps) for one in children] == [(True, False)] * 2
            await node.service.record(children[0].execution_id, [Pause()])
            await node.service.record(live.id, [Resume()])
            await until(lambda: children[1].status == "completed")
            assert children[0].status == "running", "it was paused for itself"
            await node.service.record(children[0].execution_id, [Resume()])
            await asyncio.wait_for(asyncio.shield(live.finished), 60)
            assert live.state.status == "completed"

    run(main())


def test_cancelling_kills_the_tools_and_the_children(site: Site) -> None:
    async def main() -> None:
        site.write(
            "child",
            "- {step: x, tool: {kind: shell, cmd: 'echo $$ > begun; sleep 600; touch late'}}\n",
        )
        async with site.node() as node:
            file = site.write("main", "- {step: a, tool: {kind: playbook, path: child}}\n")
            live = await site.start(node, file)
            while len(node.service.live) < 2:
                await asyncio.sleep(0.01)
            child = next(one for one in node.service.live.values() if one is not live)
            begun = site.folder / "begun"
            await until(lambda: begun.exists() and begun.read_text())
            await node.service.record(live.id, [Cancel()])
            await asyncio.wait_for(asyncio.shield(child.finished), 60)
            assert (live.state.status, child.state.status) == ("cancelled", "cancelled")
            await until(lambda: not Path(f"/proc/{begun.read_text().strip()}").exists())
            assert not (site.folder / "late").exists()

    run(main())


def test_a_child_that_is_called_often_is_compiled_once(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: noop}}\n")
        file = site.write(
            "main",
            "- {step: a, loop: {in: [1, 2, 3, 4], iterator: i, spec: {mode: parallel}}, tool: {kind: playbook, path: child}}\n",
        )
        async with site.node() as node:
            nets = []
            node.service.watchers.append(lambda live, _: nets.append(live.net) if live.state.depth else None)
            assert (await site.run_in(node, file)).status == "completed"
            assert nets
            assert len({id(net) for net in nets}) == 1

    run(main())


def test_a_pipeline_that_breaks_before_its_first_wait_ends_the_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any, **_more: Any) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("noetl.worker.runner.machine.begin", broken)
    with pytest.raises(NoetlError, match="a mistake of ours"):
        run(site.run("- {step: a, tool: {kind: noop}}"))


def test_many_runs_go_on_side_by_side_in_one_file(site: Site) -> None:
    async def main() -> None:
        file = site.write(
            "main",
            "- {step: a, tool: {kind: python, input: {n: '{{ workload.n }}'}, code: 'def main(n): return n * 2'}}\n",
        )
        async with site.node() as node:
            states = await asyncio.gather(*[site.run_in(node, file, n=n) for n in range(12)])
            assert [state.output for state in states] == [n * 2 for n in range(12)]

    run(main())


def test_an_outer_loop_ends_early_by_its_own_until(site: Site) -> None:
    state = run(
        site.run(
            "- step: a\n  loop: {in: [[1], [2, 3], [4]], iterator: g, spec: {until: '{{ output.data | length == 2 }}'},"
            " loop: {in: '{{ iter.g }}', iterator: n}}\n  tool: {kind: noop, output: '{{ iter.n }}'}\n"
        )
    )
    assert state.output == [[1], [2, 3]]


def test_a_limit_of_a_loop_that_is_no_number_fails_the_step(site: Site) -> None:
    steps = "- {step: a, loop: {in: [1], iterator: n, spec: {mode: parallel, max_in_flight: '{{ workload.n }}'}}, tool: {kind: noop}}"
    state = run(site.run(steps, n="many"))
    assert state.error is not None
    assert "max_in_flight" in state.error["message"]


def test_a_child_that_is_still_on_its_way_is_cancelled_with_its_parent(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: wait, signal: never}}\n")
        async with site.node() as node:
            file = site.write("main", "- {step: a, tool: {kind: playbook, path: child}}\n")
            claim, on_its_way, go_on = node.log.claim, asyncio.Event(), asyncio.Event()
            live = await site.start(node, file)

            async def slow(execution_id: str) -> bool:
                on_its_way.set()
                await go_on.wait()
                return await claim(execution_id)

            node.log.claim = slow  # type: ignore[method-assign]
            await asyncio.wait_for(on_its_way.wait(), 60)
            await node.service.record(live.id, [Cancel()])
            go_on.set()
            while not (found := node.log.summaries(parent=live.id)) or found[0].status == "running":
                await asyncio.sleep(0.01)
            assert found[0].status == "cancelled"

    run(asyncio.wait_for(main(), 60))


def test_a_playbook_whose_folder_has_gone_calls_no_other_and_says_so(site: Site, tmp_path: Path) -> None:
    async def main() -> Execution:
        async with site.node() as node:
            folder = tmp_path / "books"
            folder.mkdir()
            file = folder / "main.yaml"
            file.write_text(HEAD % "main" + "- {step: a, tool: {kind: playbook, path: child}}\n")
            data = file.read_bytes()
            file.unlink()
            folder.rmdir()
            source, loaded = node.catalog.read(file, data)
            assert loaded.net is not None
            live = await node.start(source, loaded.net, {})
            await asyncio.wait_for(live.finished, 60)
            return live.state

    state = run(main())
    assert state.error["message"].startswith("there is no playbook `child` in")


def test_a_child_that_cannot_be_written_fails_nobody_and_both_can_be_resumed(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: wait, seconds: 0.2}}\n")
        file = site.write("main", "- {step: a, tool: {kind: playbook, path: child}}\n")
        async with site.node() as node:
            live = await site.start(node, file)
            append = node.log.append

            async def full(events: Any, **more: Any) -> None:
                if events[0].execution_id != live.id:
                    raise StoreFailed("the disk is full")
                await append(events, **more)

            node.log.append = full  # type: ignore[method-assign]
            with pytest.raises(StoreFailed, match="disk is full"):
                await asyncio.wait_for(live.finished, 60)
        async with site.node() as node:
            again = await node.resume(live.id)
            await asyncio.wait_for(again.finished, 60)
            assert again.state.status == "completed"

    run(main())


def test_what_is_remembered_of_runs_does_not_grow_with_them(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: noop}}\n")
        loop = "{in: '{{ range(20) | list }}', iterator: i, spec: {mode: parallel}}"
        file = site.write("main", f"- {{step: a, loop: {loop}, tool: {{kind: playbook, path: child}}}}\n")
        async with site.node() as node:
            assert (await site.run_in(node, file)).status == "completed"
            kept = {name: len(value) for name, value in vars(node).items() if isinstance(value, (dict, set, list))}
            assert max(kept.values()) <= 2  # the two playbooks

    run(main())


def test_a_child_whose_parent_ended_without_it_is_cancelled_when_it_is_resumed(site: Site) -> None:
    async def main() -> None:
        site.write("child", "- {step: x, tool: {kind: wait, signal: never}}\n")
        file = site.write("main", "- {step: a, tool: {kind: playbook, path: child}}\n")
        async with site.node() as node:
            live = await site.start(node, file)
            while not (found := node.log.summaries(parent=live.id)):
                await asyncio.sleep(0.01)
            node.service.order_receiver._host.stop_child = lambda *_: None  # type: ignore[attr-defined]  # the process dies just before
            await node.service.record(live.id, [Cancel()])
        async with site.node() as node:
            child = await node.resume(found[0].execution_id)
            await asyncio.wait_for(child.finished, 60)
            assert child.state.status == "cancelled"

    run(main())


def test_another_process_that_holds_the_store_does_not_stop_what_runs_here(site: Site) -> None:
    async def main() -> None:
        file = site.write("main", "- {step: a, tool: {kind: noop}}\n")
        async with site.node() as node:
            lock = WriteLock(site.settings.home / "noetl.db.lock")
            assert lock.try_acquire()
            starting = asyncio.ensure_future(site.start(node, file))
            await asyncio.sleep(0.1)
            assert not starting.done()
            lock.close()
            await asyncio.wait_for((await starting).finished, 60)

    run(main())


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("- {step: a, tool: {kind: wait, seconds: '{{ workload.n }}'}}", "`seconds` must be a number of seconds, not the text 'soon'"),
        ("- {step: a, tool: {kind: wait, until: tomorrow}}", "`until` must be a time such as 2030-01-31T08:00:00Z, not the text 'tomorrow'"),
        ("- {step: a, tool: {kind: shell, cmd: pwd, cwd: 'no/{{ workload.n }}'}}", "`cwd` is no folder: "),
        ("- {step: a, loop: {in: '{{ workload.n }}', iterator: i}, tool: {kind: noop}}", "`| from_json` reads a list from text"),
        ("- {step: a, tool: {kind: shell, cmd: sleep 9, spec: {timeout: 0.1}}}", "within 0.1 s (`spec.timeout`)"),
        ("- {step: a, spec: {timeout: 0.1}, tool: {kind: shell, cmd: sleep 9}}", "within 0.1 s (`step.spec.timeout`)"),
        (
            "- {step: a, tool: {kind: shell, cmd: sleep 9}}\nexecutor: {spec: {policy: {defaults: {timeouts: {shell: 0.1}}}}}",
            "within 0.1 s (`executor.spec.policy.defaults.timeouts.shell`)",
        ),
        ("- {step: a, spec: {policy: {lifecycle: {timeout_s: 0.1}}}, tool: {kind: wait, seconds: 9}}", "(`lifecycle.timeout_s: 0.1`)"),
    ],
    ids=["seconds", "until", "cwd", "loop.in", "task timeout", "step timeout", "default timeout", "lifecycle"],
)  # fmt: skip
def test_an_error_names_the_key_the_value_and_the_limit(site: Site, steps: str, said: str) -> None:
    state = run(site.run(steps, n="soon"))
    assert state.error is not None
    assert said in state.error["message"]


def test_an_arc_that_ends_an_execution_as_failed_tells_the_cause(site: Site) -> None:
    steps = """\
- step: a
  tool: {kind: shell, cmd: "exit 3"}
  next: {arcs: [{step: b, when: "{{ event.status == 'error' }}"}]}
- step: b
  tool: {kind: noop}
  next: {arcs: [{terminate: failed}]}
"""
    state = run(site.run(steps))
    assert state.error is not None
    assert (state.error["kind"], state.error["step"]) == ("fail", "b")
    assert "step a failed: shell: the command exited with code 3" in state.error["message"]
    assert (state.error["cause"]["kind"], state.error["cause"]["step"]) == ("shell", "a")


def test_used_up_retries_are_counted_in_the_error(site: Site) -> None:
    rule = "{when: '{{ output.error }}', then: {do: retry, attempts: 3, delay: 0.01}}"
    state = run(site.run(f"- {{step: a, tool: {{kind: shell, cmd: exit 3, spec: {{policy: {{rules: [{rule}]}}}}}}}}"))
    assert state.error is not None
    assert state.error["attempts"] == 3


def test_a_request_that_cannot_be_read_is_reported_and_holds_up_nothing(tmp_path: Path) -> None:
    """A newer version may have left it, and may own the execution next."""
    file = tmp_path / "waits.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waits}\nworkflow:\n"
        "- {step: start, tool: {kind: wait, signal: go}}\n"
    )
    printed: list[str] = []

    async def go() -> None:
        log = SqliteLog(tmp_path / "noetl.db")
        async with LocalNode(Settings(tmp_path), log) as node:
            node.print_line = printed.append
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None
            live = await node.start(source, loaded.net, {})
            log.post(live.id, b'{"type":"Levitate"}')
            await until(lambda: printed)
            log.post(live.id, encode_request(Signal("go", 1)))
            await asyncio.wait_for(live.finished, 120)
        assert live.state.status == "completed"

    asyncio.run(go())
    assert "cannot be read here and stays in the store" in printed[0]


@pytest.mark.parametrize("spec", ["{}", "{concurrency: {key: two, limit: 2}}"], ids=["at once", "with a slot"])
def test_a_pipeline_that_cannot_be_made_ready_to_run_ends_its_run_and_holds_up_no_other(site: Site, spec: str) -> None:
    file = site.write("main", f"  - {{step: a, spec: {spec}, tool: {{kind: noop}}}}\n")

    def fail(_live: object) -> Any:
        raise KeyError("a mistake of ours")

    async def main() -> None:
        async with site.node() as node, asyncio.timeout(60):
            make, node.runners.make_world = node.runners.make_world, fail
            live = await site.start(node, file)
            with pytest.raises(NoetlError, match="a mistake of ours"):
                await live.finished
            node.runners.make_world = make
            assert (await site.run_in(node, file)).status == "completed"

    asyncio.run(main())


def test_dispatch_that_fails_once_still_hears_that_executions_are_paused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.write("main", "  - {step: a, tool: {kind: wait, signal: go}}\n")

    def fail(*_given: object, **_named: object) -> Any:
        raise RuntimeError("a mistake of ours")

    async def main() -> None:
        async with site.node() as node, asyncio.timeout(60):
            broken = await site.start(node, file)
            with monkeypatch.context() as patch:
                patch.setattr(node.dispatcher, "observe", fail)
                node.service.post(broken.id, [Pause()])
                with pytest.raises(NoetlError, match="a mistake of ours"):
                    await broken.finished
            live = await site.start(node, file)
            await node.service.record(live.id, [Pause()])
            await until(lambda: node.dispatcher.executions[live.id].paused)

    asyncio.run(main())
