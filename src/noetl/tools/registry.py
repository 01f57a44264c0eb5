"""Which tool kinds there are: the built-in ones, and those of installed plugins (entry point group `noetl.tools`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noetl.errors import NoetlError, describe_error
from noetl.model.kinds import ToolKind
from noetl.model.shape import Key

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


class BrokenPlugin(NoetlError):
    """An installed plugin cannot be used. Kinds of other packages can."""


class ToolKinds(Mapping[str, ToolKind]):
    """Tool kinds by name. A built-in is imported when it is asked for; plugins are looked up only for other names.

    BrokenPlugin: the kind is that of a plugin that cannot be used.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, ToolKind] = {}

    def __getitem__(self, name: str) -> ToolKind:
        kind = self._loaded.get(name)
        if kind is None:
            kind = self._loaded[name] = _module(name).KIND
        return kind

    def list_usable(self) -> tuple[dict[str, ToolKind], list[BrokenPlugin]]:
        """Return the kinds that can be used, by name, and what is wrong with the plugins that cannot."""
        usable: dict[str, ToolKind] = {}
        broken: list[BrokenPlugin] = []
        for name in self:
            try:
                usable[name] = self[name]
            except BrokenPlugin as error:
                broken.append(error)
        return usable, broken

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
    return _load_plugin(_plugins()[name])


def _load_plugin(entry: EntryPoint) -> Any:
    """Return the module of a plugin. BrokenPlugin: it cannot be imported, or is no tool of that name."""
    try:
        module = entry.load()
    except (Exception, SystemExit) as error:
        raise _broken(entry, f"it cannot be imported: {describe_error(error)}") from error
    problem = _find_problem(module, entry.name)
    if problem is not None:
        raise _broken(entry, problem)
    return module


def _find_problem(module: Any, name: str) -> str | None:
    kind = getattr(module, "KIND", None)
    if not isinstance(kind, ToolKind):
        return "it has no `KIND`" if kind is None else f"its `KIND` is a {type(kind).__name__}, not a ToolKind"
    if kind.name != name:
        return f"its `KIND` is named {kind.name!r}, not {name!r} as its entry point"
    keys: Any = kind.keys
    if not isinstance(keys, Mapping) or not all(isinstance(key, Key) for key in keys.values()):
        return "the `keys` of its `KIND` are no map of names to `Key`"
    if not any(callable(getattr(module, part, None)) for part in ("run", "suspend")):
        return "it has no function `run`"
    return None


def _broken(entry: EntryPoint, why: str) -> BrokenPlugin:
    package = f"package `{entry.dist.name}`" if entry.dist is not None else "a package"
    said = " ".join(f"{package}: the plugin `{entry.name} = {entry.value}` cannot be used: {why}".split())
    return BrokenPlugin(said)


@cache
def _plugins() -> dict[str, EntryPoint]:
    # Reading entry points costs more than all the rest of a small validation, so it is done late and once.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
