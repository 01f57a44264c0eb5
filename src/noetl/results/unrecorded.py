"""Payloads that were stored and never recorded: whoever stored them was killed before it could say so.

Nobody will ever ask for them, for nothing leads there. That can be told of an execution that is over: its log says
nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.errors import NoetlError
from noetl.results.garbage import Removable
from noetl.results.store import PayloadStore


def find_unrecorded(
    store: PayloadStore, execution_id: str, lying: Iterable[Removable], log: Iterable[bytes]
) -> list[Removable]:
    """Which of the things of an execution neither its log, given as text, leads to, nor a list that the log leads to."""
    waiting = _file_names(execution_id, log)
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        known.add(name)
        try:
            parts = store.parts_of(f"{execution_id}/{name}")
        except NoetlError:
            return []  # what a list leads to cannot be told any more
        waiting |= _file_names(execution_id, parts) - known
    return [one for one in lying if one.name not in known]


def _file_names(execution_id: str, texts: Iterable[bytes]) -> set[str]:
    """The files that texts name; one too many does no harm."""
    name = re.compile(re.escape(execution_id).encode() + rb"/([0-9a-f]{32}[.\w]*)")
    return {found.decode() for text in texts for found in name.findall(text)}
