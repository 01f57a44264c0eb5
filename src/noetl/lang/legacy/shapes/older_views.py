"""What older engines published for a result: by key, an expression over what is known of the result today.

A *fact* is something that a finished task is known by (its payload, the status of its response, the counts of its
loop). A *leaf* is a template around one fact. A *view* is a map of leaves and views, as older readers saw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PAYLOAD = "payload"
#: facts, as the templates of the step that has just ended read them
OWN_FACTS = {
    PAYLOAD: "output.data",
    "status": "output.http.status",
    "headers": "output.http.headers",
    "elapsed": "(output.meta.duration_ms / 1000)",
    "total": "output.loop.total",
    "succeeded": "output.loop.succeeded",
    "failed": "output.loop.failed",
    "child": "output.meta.execution_id",
    "rowcount": "output.pg.rowcount",
}
#: words that say no more than "the result"
WRAPPERS = ("data", "result", "output")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A template around one fact; without a fact, a constant."""

    fact: str | None
    text: str = "{}"
    #: another name for something that the view has already: only given to those who read it
    is_second: bool = field(default=False, compare=False)

    def fill(self, expression: str) -> str:
        """The expression of this leaf, where that of its fact is given."""
        return self.text.replace("{}", expression)

    @property
    def is_plain(self) -> bool:
        """Whether the leaf is its fact as it is, so that a path can follow it."""
        return self.text == "{}"


View = Mapping[str, "Leaf | View"]

_ROWS: dict[str, Leaf | View] = {
    "rows": Leaf(PAYLOAD),
    "row_count": Leaf(PAYLOAD, "{} | length"),
    "columns": Leaf(PAYLOAD, "{} | first | default(dict()) | list"),
}
HTTP_VIEW: View = {
    "status_code": Leaf("status"),
    "headers": Leaf("headers"),
    "url": Leaf("url"),
    "elapsed": Leaf("elapsed"),
    "data": Leaf(PAYLOAD),
    "body": Leaf(PAYLOAD, is_second=True),
}
LOOP_VIEW: View = {
    "results": Leaf(PAYLOAD),
    "stats": {
        "total": Leaf("total"),
        "success": Leaf("succeeded"),
        "succeeded": Leaf("succeeded", is_second=True),
        "failed": Leaf("failed"),
    },
    "count": Leaf("total", is_second=True),
    "total": Leaf("total", is_second=True),
}
PLAYBOOK_VIEW: View = {
    # Of a call that was never made there was none.
    "status": Leaf(PAYLOAD, "('completed' if {} is defined)"),
    "result": Leaf(PAYLOAD),
    "execution_id": Leaf("child"),
}


def query_view(*, statements: int, counts: str | None) -> View:
    """What a query was: its rows at the top, and by statement; `counts` is the fact that counts its rows."""
    rows = dict(_ROWS)
    if counts is None:
        del rows["row_count"]
    elif counts != PAYLOAD:
        rows["row_count"] = Leaf(counts)
    # Only the last statement's rows are known today.
    return {**rows, f"command_{statements - 1}": dict(rows)}


def pipeline_view(names: list[str]) -> View:
    """What a pipeline was: the results of its tasks, by name."""
    *before, last = names
    return {"results": {**{name: Leaf(task_fact(name)) for name in before}, last: Leaf(PAYLOAD)}}


def task_fact(name: str) -> str:
    """The fact that is the payload of one task of a pipeline."""
    return f"task:{name}"


def is_second_name(inner: Leaf | View) -> bool:
    """Whether a part of a view repeats another one."""
    return isinstance(inner, Leaf) and inner.is_second


def without_second_names(view: View) -> View:
    """A view as a whole: each of its facts once."""
    return {
        key: inner if isinstance(inner, Leaf) else without_second_names(inner)
        for key, inner in view.items()
        if not is_second_name(inner)
    }
