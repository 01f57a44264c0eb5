"""SQL statements: that each is more than one template, which no database can bind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.expr import Template, compile_sql
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.grammar.document_walk import walk_document
from noetl.lang.reading.node import Scalar
from noetl.model.kinds import ToolKind
from noetl.model.playbook import Task

#: a template at the start of a statement; most statements start with a word, and need no closer look
_STARTS = re.compile(r"(?:\A|;|\*/|\n)\s*\{\{")


def check(subject: Subject) -> None:
    """Report statements that are nothing but a template: as a bound value they would be no statement."""
    if not any(_is_bare(text) for _step, task in all_tasks(subject.playbook) for text in _statements(subject, task)):
        return
    for node, _shape, kind in walk_document(subject.root, subject.kinds):
        for entry in node.entries if kind is not None else ():
            value = entry.value
            if kind is not None and entry.name in kind.sql and isinstance(value, Scalar) and _is_bare(value.value):
                _report(subject, value)


def _statements(subject: Subject, task: Task) -> Iterator[str]:
    kind = subject.kinds.get(task.kind)
    if kind is not None and kind.sql:
        for block in (task.config, task.input):
            for name, value in block.items() if isinstance(block, Mapping) else ():
                yield from _texts(getattr(value, "tree", value), name, kind)


def _texts(tree: Any, name: str, kind: ToolKind) -> Iterator[str]:
    """The templates under keys that hold SQL; a transfer has them in its source."""
    if isinstance(tree, Template):
        if name in kind.sql:
            yield tree.source
    elif isinstance(tree, Mapping):
        for inner, value in tree.items():
            yield from _texts(value, inner, kind)


def _is_bare(text: object) -> bool:
    return isinstance(text, str) and _STARTS.search(text) is not None and compile_sql(text).has_bare_statement


def _report(subject: Subject, node: Scalar) -> None:
    # No edit adds `| sql`: to splice a text into a statement is for its author to decide.
    subject.problems.error(
        "sql-statement",
        "a template is bound as a value, and a value alone is no statement",
        node.alias or (node.start, node.end),
        fix="write the statement here and keep templates for its values, or say that it is meant: `{{ … | sql }}`",
    )
