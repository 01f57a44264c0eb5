"""Which tool kinds there are."""

import subprocess
import sys

import pytest
from tool_world import Workshop

from noetl.model.kinds import InputRole
from noetl.tools.registry import BUILT_IN, ToolKinds


def test_every_kind_of_the_language_is_built_in() -> None:
    assert list(ToolKinds())[: len(BUILT_IN)] == [
        "noop", "python", "http", "postgres", "duckdb", "shell", "playbook", "workbook", "secrets", "resolve", "transfer",
        "wait",
    ]  # fmt: skip
    assert len(ToolKinds()) >= 12


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_kind_declares_itself_under_its_own_name(name: str) -> None:
    kind = ToolKinds()[name]
    assert kind.name == name
    assert kind.doc
    assert kind.output
    groups = [*kind.one_of, *kind.at_most_one]
    named = {key for group in groups for key in group} | kind.literal | kind.sql | kind.shell
    nested = {"query"} if name == "transfer" else set()
    assert named - nested <= set(kind.keys)
    assert all(key.doc for key in kind.keys.values())


def test_script_is_another_word_for_shell() -> None:
    kinds = ToolKinds()
    assert kinds["script"] is kinds["shell"]
    assert "script" in kinds
    assert "script" not in list(kinds)


def test_a_kind_nobody_has_is_a_key_error() -> None:
    kinds = ToolKinds()
    with pytest.raises(KeyError):
        kinds["nope"]
    assert "nope" not in kinds
    assert kinds.get("nope") is None


def test_a_kind_is_loaded_once() -> None:
    kinds = ToolKinds()
    assert kinds["http"] is kinds["http"]


@pytest.mark.parametrize("name", ["http", "resolve", "transfer", "wait"])
def test_of_these_kinds_the_input_configures_the_tool(name: str) -> None:
    assert ToolKinds()[name].input is InputRole.CONFIGURES


@pytest.mark.parametrize("name", ["python", "playbook", "workbook", "postgres", "duckdb", "shell"])
def test_of_these_kinds_the_input_is_the_arguments(name: str) -> None:
    assert ToolKinds()[name].input is InputRole.ARGUMENTS


def test_a_runner_is_that_of_the_kind_or_of_what_the_alias_means() -> None:
    assert ToolKinds().module("script") is ToolKinds().module("shell")
    assert ToolKinds().module("shell").__name__ == "noetl.tools.shell"
    with pytest.raises(KeyError):
        ToolKinds().module("nope")


@pytest.mark.parametrize("name", ["noop", "python", "http", "shell"])
def test_what_only_a_run_needs_is_not_imported_before_it(name: str) -> None:
    code = f"import sys, noetl.tools.registry as r; r.ToolKinds()[{name!r}]; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"asyncio", "aiohttp", "subprocess", "noetl.ports", "json"} & set(done.stdout.split()) == set()


async def test_noop_does_nothing(world: Workshop) -> None:
    assert await world.run("noop", input={"a": 1}) == {"status": "ok", "data": None, "ref": None, "error": None}
