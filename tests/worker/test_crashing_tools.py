"""Whatever a tool does, the task fails and the process that runs it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.model.state import Execution
from noetl.plugin import Call, InputRole, Output, ToolKind, World, ok
from noetl.ports import LogLine
from noetl.stores.sqlite_log import SqliteLog
from noetl.tools.registry import ToolKinds

BOOK = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkflow: [{step: a, tool: {kind: odd}}]\n"


class OneMore(ToolKinds):
    """The installed kinds and one more, `odd`."""

    def __init__(self, run: Any, *, effect_free: bool = False) -> None:
        super().__init__()
        kind = ToolKind(
            name="odd", doc="Odd.", keys={}, input=InputRole.CONFIGURES, output="any", effect_free=effect_free
        )
        self._odd = SimpleNamespace(KIND=kind, run=run)

    def __getitem__(self, name: str) -> ToolKind:
        kind: ToolKind = self._odd.KIND if name == "odd" else super().__getitem__(name)
        return kind

    def module(self, name: str) -> Any:
        return self._odd if name == "odd" else super().module(name)


def run_odd(folder: Path, kinds: ToolKinds) -> tuple[Execution, list[LogLine]]:
    """Run one task of the kind `odd`; the end of the execution, and what the task wrote."""
    file = folder / "p.yaml"
    file.write_text(BOOK)

    async def whole() -> tuple[Execution, list[LogLine]]:
        async with LocalNode(Settings(folder / "home"), SqliteLog(folder / "home" / "noetl.db"), kinds=kinds) as node:
            source, loaded = node.catalog.read(file)
            assert loaded.net is not None, loaded.diagnostics
            live = await node.start(source, loaded.net, {})
            await asyncio.wait_for(asyncio.shield(live.finished), 120)
        log = SqliteLog(folder / "home" / "noetl.db")
        lines = [line for _, line in log.lines(live.id)]
        await log.close()
        return live.state, lines

    return asyncio.run(whole())


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


RETURNED = [
    (42, "tool-crashed", "`run` of kind `odd` returned int, not an Output"),
    ({"a": 1}, "tool-crashed", "`run` of kind `odd` returned dict, not an Output"),
    (None, "tool-crashed", "`run` of kind `odd` returned NoneType, not an Output"),
    (ok({"files": ["a", "caf\udce9"]}), "result-not-json", r"`output.data.files[1]` is no JSON: the text "),
    (ok({"caf\udce9": 1}), "result-not-json", "`output.data` has a key that is no JSON: the text "),
    (ok({"a": {(1, 2): 3}}), "result-not-json", "`output.data.a` has a key that is no JSON: a value of type tuple"),
    (ok([1, object()]), "result-not-json", "`output.data[1]` is no JSON: a value of type object"),
    (ok(1, odd={"x": object()}), "result-not-json", "`output.odd.x` is no JSON: a value of type object"),
    (ok(nested(201)), "result-not-json", "`output` is nested more than 200 levels deep"),
    (ok(nested(965)), "result-not-json", "`output` is nested more than 200 levels deep"),
    (ok(nested(100_000)), "result-not-json", "`output` is nested more than 200 levels deep"),
]


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
@pytest.mark.parametrize(("returned", "kind", "message"), RETURNED, ids=range(len(RETURNED)))
def test_what_is_no_output_fails_the_task(tmp_path: Path, returned: Any, kind: str, message: str, plain: bool) -> None:
    async def run(_call: Call, _world: World) -> Any:
        return returned

    kinds = OneMore((lambda *_: returned) if plain else run, effect_free=plain)
    state, _ = run_odd(tmp_path, kinds)
    assert state.status == "failed"
    assert state.error is not None
    assert state.error["kind"] == kind
    assert state.error["message"].startswith(message)


def test_data_of_two_hundred_levels_is_an_output(tmp_path: Path) -> None:
    async def run(_call: Call, _world: World) -> Output:
        return ok(nested(200))

    state, _ = run_odd(tmp_path, OneMore(run))
    assert (state.status, state.output) == ("completed", nested(200))


class Wordless(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "plain"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError("/data/caf\udce9.csv"), r"the tool broke: FileNotFoundError: /data/caf\udce9.csv"),
        (SystemExit(4), "the tool broke: SystemExit: 4"),
        (KeyboardInterrupt(), "the tool broke: KeyboardInterrupt: "),
        (asyncio.CancelledError(), "the tool broke: CancelledError: "),
        (TimeoutError("the device"), "the tool broke: TimeoutError: the device"),
        (Wordless(), "the tool broke: Wordless"),
    ],
)
def test_a_tool_that_raises_fails_its_task_and_shows_its_line(
    tmp_path: Path, error: BaseException, message: str, plain: bool
) -> None:
    def raise_it(_call: Call, _world: World) -> Output:
        raise error

    async def run(call: Call, world: World) -> Output:
        return raise_it(call, world)

    state, lines = run_odd(tmp_path, OneMore(raise_it if plain else run, effect_free=plain))
    assert state.status == "failed"
    assert state.error is not None
    assert (state.error["kind"], state.error["message"]) == ("tool-crashed", message)
    written = "".join(line.text for line in lines)
    assert "Traceback (most recent call last)" in written
    assert "in raise_it\n    raise error" in written
    assert message.removeprefix("the tool broke: ") in written


def test_a_line_that_is_no_unicode_text_is_written_with_escapes(tmp_path: Path) -> None:
    async def run(call: Call, world: World) -> Output:
        world.log(call, "stdout", "caf\udce9\n")
        return ok(1)

    state, lines = run_odd(tmp_path, OneMore(run))
    assert state.status == "completed"
    assert [line.text for line in lines] == ["caf\\udce9\n"]


def test_progress_that_cannot_be_recorded_fails_the_task(tmp_path: Path) -> None:
    async def run(call: Call, world: World) -> Output:
        await world.progress(call, {"at": object()})
        return ok(1)

    state, _ = run_odd(tmp_path, OneMore(run))
    assert state.error is not None
    assert "`progress.at` is no JSON: a value of type object" in state.error["message"]
