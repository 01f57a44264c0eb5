"""Statements with their values, as DuckDB takes them."""

from __future__ import annotations

from typing import Any

from noetl.expr.embedded.sqlquery import Query
from noetl.rows.duck import bindable, literal

#: statements by their first word in which DuckDB takes parameters anywhere; in others values become literals
_BINDS = frozenset(
    "SELECT WITH FROM VALUES TABLE INSERT UPDATE DELETE MERGE COPY CALL EXPLAIN DESCRIBE SUMMARIZE EXECUTE".split()  # noqa: SIM905
)


def rendered(query: Query) -> tuple[str, list[Any]]:
    """The text of one statement and its parameters."""
    if all(verb in _BINDS for verb in query.verbs):
        text, params = query.render("$1")
        return text, [bindable(value) for value in params]
    text, params = query.render("$1", literal)
    return text, params
