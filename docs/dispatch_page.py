"""The page about dispatch, from the two tables of transitions and their docstrings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from inspect import getdoc

from noetl.dispatch import table, worker_queue

#: from, what happened, to
Edge = tuple[StrEnum, StrEnum, StrEnum]


def dispatch_page() -> str:
    """The theory, a diagram and the transitions, of servers and of workers."""
    servers = [(state, happened, to) for (state, happened), one in table.TABLE.items() for to in one.to]
    workers = [(state, happened, to) for (state, happened), one in worker_queue.WORKER_TABLE.items() for to in one.to]
    parts = ["# Dispatch", getdoc(table) or "", *_machine(servers)]
    parts += ["## At the worker", getdoc(worker_queue) or "", *_machine(workers)]
    return "\n\n".join(parts)


def _machine(edges: list[Edge]) -> Iterator[str]:
    yield "```mermaid\n" + "\n".join(_diagram(edges)) + "\n```"
    yield "| state | input | leads to |\n|---|---|---|\n" + "\n".join(_rows(edges))


def _diagram(edges: list[Edge]) -> Iterator[str]:
    """Inputs that change the state, by the states they lead between; `new` and the last state are the ends."""
    yield "stateDiagram-v2"
    first, last = edges[0][0], {to for _, _, to in edges} - {state for state, _, _ in edges}
    labels: dict[tuple[str, str], list[str]] = {}
    for state, happened, to in edges:
        if state is not to:
            ends = "[*]" if state is first else state.value, "[*]" if to in last else to.value
            labels.setdefault(ends, []).append(happened.value)
    for (state, to), inputs in labels.items():
        if (state, to) != ("[*]", "[*]"):
            yield f"    {state} --> {to}: {', '.join(inputs)}"


def _rows(edges: Iterable[Edge]) -> Iterator[str]:
    found: dict[tuple[StrEnum, StrEnum], list[str]] = {}
    for state, happened, to in edges:
        found.setdefault((state, happened), []).append(to.value)
    for (state, happened), to in found.items():
        yield f"| {state.value} | {happened.value} | {' or '.join(to)} |"
