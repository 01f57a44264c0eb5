"""Which tool kinds there are: the built-in ones, and those of installed plugins (entry point group `noetl.tools`)."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from noetl.model.kinds import ToolKind

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


class Kinds(Mapping[str, ToolKind]):
    """Tool kinds by name. A built-in is imported when it is asked for; plugins are looked up only for other names."""

    def __init__(self) -> None:
        self._loaded: dict[str, ToolKind] = {}
        self._plugins: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> ToolKind:
        kind = self._loaded.get(name)
        if kind is None:
            kind = self._find(name)
            self._loaded[name] = kind
        return kind

    def _find(self, name: str) -> ToolKind:
        found: ToolKind = self.module(name).KIND
        return found

    def module(self, name: str) -> Any:
        """The module of a kind: its KIND, and `run` or `suspend`."""
        known = _ALIASES.get(name, name)
        if known in BUILT_IN:
            return import_module(f"noetl.tools.{known}")
        return self._from_plugins()[name]

    def _from_plugins(self) -> dict[str, Any]:
        # Reading entry points costs more than all the rest of a small validation, so it is done late and once.
        if self._plugins is None:
            from importlib.metadata import entry_points

            self._plugins = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
        return self._plugins

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from (name for name in self._from_plugins() if name not in BUILT_IN)

    def __len__(self) -> int:
        return sum(1 for _ in self)
