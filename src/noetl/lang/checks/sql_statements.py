"""SQL statements: that each is more than one template, which no database can bind."""

from __future__ import annotations

from noetl.expr import compile_sql, has_template
from noetl.lang.checks.subject import Subject
from noetl.lang.grammar.document_walk import walk_document
from noetl.lang.reading.node import Scalar


def check(subject: Subject) -> None:
    """Report statements that are nothing but a template: as a bound value they would be no statement."""
    used = {task.kind for step in subject.playbook.steps for task in step.tasks}
    used |= {task.kind for tasks in subject.playbook.workbook.values() for task in tasks}
    if not any((kind := subject.kinds.get(name)) is not None and kind.sql for name in used):
        return
    for node, _shape, kind in walk_document(subject.root, subject.kinds):
        for entry in node.entries if kind is not None else ():
            value = entry.value
            if kind is not None and entry.name in kind.sql and isinstance(value, Scalar) and _is_bare(value):
                _report(subject, value)


def _is_bare(node: Scalar) -> bool:
    return isinstance(node.value, str) and has_template(node.value) and compile_sql(node.value).has_bare_statement


def _report(subject: Subject, node: Scalar) -> None:
    # No edit adds `| sql`: to splice a text into a statement is for its author to decide.
    subject.problems.error(
        "sql-statement",
        "a template is bound as a value, and a value alone is no statement",
        node.alias or (node.start, node.end),
        fix="write the statement here and keep templates for its values, or say that it is meant: `{{ … | sql }}`",
    )
