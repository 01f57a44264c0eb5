"""The playbooks within reach of a file: those of its folder, by their path, their name, or a file's name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.lang import Loaded, load_bytes
from noetl.lru import TEXT, LruCache
from noetl.model.diagnostics import Diagnostics, Source
from noetl.model.kinds import ToolKind
from noetl.model.net import Net, PlanResult
from noetl.model.playbook import Synthesis
from noetl.ports import PlaybookSource

_SUFFIXES = (".yaml", ".yml")


class Catalog:
    """Reads playbooks, each once."""

    def __init__(self, kinds: Mapping[str, ToolKind]) -> None:
        self.kinds = kinds
        #: what was read before, by its content: whoever is called a thousand times is compiled once
        self._loaded: LruCache[tuple[str, bool], Loaded] = LruCache(TEXT)
        self._folders: dict[Path, dict[str, Path]] = {}

    def read(self, file: Path, data: bytes | None = None, *, legacy: bool = False) -> tuple[PlaybookSource, Loaded]:
        """A playbook's file, and what the language makes of it."""
        data = file.read_bytes() if data is None else data
        source = PlaybookSource(
            hashlib.sha256(data).hexdigest(), data.decode("utf-8-sig", "replace"), str(file), legacy
        )
        return source, self._load(source, data)

    def net(self, source: PlaybookSource) -> Net | None:
        """The net of a playbook that was run before, and was checked by the version that started it."""
        loaded = self._load(source, source.text.encode())
        return loaded.net if loaded.net is not None else loaded.compiled

    def runnable(self, source: PlaybookSource) -> Net | None:
        """The net of a playbook that is to be started; None: it has errors."""
        return self._load(source, source.text.encode()).net

    def _load(self, source: PlaybookSource, data: bytes) -> Loaded:
        known = self._loaded.get((source.hash, source.legacy))
        if known is None:
            known = load_bytes(data, self.kinds, name=source.file, legacy=source.legacy)
            self._loaded.put((source.hash, source.legacy), known, len(data))
        if known.source.name != source.file:  # the same text from another file
            return msgspec.structs.replace(known, source=Source(known.source.text, source.file))
        return known

    # --- steps that executions plan (`Planner`) ------------------------------------------------------------------------

    def plan(self, net: Net, step: str, wish: Synthesis, found: Any) -> PlanResult:
        """Judge what a step asks for."""
        from noetl.lang import build_plan

        return build_plan(net, step, wish, found, self.kinds)

    def extend_net(self, net: Net, plans: Sequence[dict[str, Any]]) -> Net:
        """The net with plans that were recorded."""
        from noetl.lang import extend_net

        return extend_net(net, plans, self.kinds) if plans else net

    def find(self, path: str, *, near: Path) -> Path | None:
        """The file of a playbook that another one calls by its path."""
        folder = near.parent
        direct = folder / path
        for candidate in (direct, *(direct.with_name(direct.name + suffix) for suffix in _SUFFIXES)):
            if candidate.suffix in _SUFFIXES and candidate.is_file():
                return candidate
        return self._names(folder).get(path)

    def _names(self, folder: Path) -> dict[str, Path]:
        known = self._folders.get(folder)
        if known is None:
            try:
                files = sorted(folder.iterdir())
            except OSError:  # it may have been moved since an execution began
                return {}
            known = self._folders[folder] = {}
            for file in files:
                if file.suffix in _SUFFIXES and file.is_file():
                    for name in names_of(file):
                        known.setdefault(name, file)
        return known


def names_of(file: Path) -> list[str]:
    """What a playbook is called, looked up without compiling it; a path comes before a name."""
    metadata = _read_metadata(file)
    return [str(metadata[key]) for key in ("path", "name") if isinstance(metadata.get(key), str)]


def path_of(file: Path) -> str | None:
    """The path of a playbook, which is its name where it has none; None: the file is no playbook that can be read."""
    return next(iter(names_of(file)), None)


def _read_metadata(file: Path) -> dict[str, Any]:
    from noetl.lang import MapNode, plain_value, read_yaml

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    root = read_yaml(text, Diagnostics(Source(text, str(file))))
    if not isinstance(root, MapNode):
        return {}
    # An older playbook says at its root what it is called.
    older = {key: plain_value(root.get(key)) for key in ("path", "name") if key in root}
    metadata = plain_value(root.get("metadata")) if "metadata" in root else None
    return {**older, **metadata} if isinstance(metadata, dict) else older
