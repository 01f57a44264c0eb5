"""Which tool kinds there are: the built-in ones, and those of installed plugins (entry point group `noetl.tools`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noetl.model.kinds import ToolKind

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "noetl.tools"
BUILT_IN = (
    "noop",
    "python",
    "http",
    "postgres",
    "duckdb",
    "shell",
    "playbook",
    "workbook",
    "secrets",
    "resolve",
    "transfer",
    "wait",
)
_ALIASES = {"script": "shell"}


class ToolKinds(Mapping[str, ToolKind]):
    """Tool kinds by name. A built-in is imported when it is asked for; plugins are looked up only for other names."""

    def __init__(self) -> None:
        self._loaded: dict[str, ToolKind] = {}

    def __getitem__(self, name: str) -> ToolKind:
        kind = self._loaded.get(name)
        if kind is None:
            kind = self._loaded[name] = _module(name).KIND
        return kind

    def module(self, name: str) -> Any:
        """The module of a kind, with its `run` or `suspend`; KeyError: there is no such kind."""
        return _module(name)

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from (name for name in _plugins() if name not in BUILT_IN)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _module(name: str) -> Any:
    built_in = _ALIASES.get(name, name)
    if built_in in BUILT_IN:
        return import_module(f"noetl.tools.{built_in}")
    return _plugins()[name].load()


@cache
def _plugins() -> dict[str, EntryPoint]:
    # Reading entry points costs more than all the rest of a small validation, so it is done late and once.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
