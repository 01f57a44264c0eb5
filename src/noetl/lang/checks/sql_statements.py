"""SQL statements: that each is more than one template, which no database can bind."""

from __future__ import annotations

from noetl.expr import compile_sql, has_template
from noetl.lang.checks.subject import Subject
from noetl.lang.grammar.document_walk import walk_document
from noetl.lang.reading.node import DOUBLE, PLAIN, SINGLE, Scalar
from noetl.model.diagnostics import Edit


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
    whole = node.text.strip()
    lone = whole.startswith("{{") and whole.endswith("}}") and whole.count("{{") == 1 and node.style in _INLINE
    at = subject.problems.source.text.find("}}", node.start, node.end) if lone and not node.alias else -1
    before = subject.problems.source.text[at - 1 : at] if at > 0 else ""
    subject.problems.error(
        "sql-statement",
        "a template is bound as a value, and a value alone is no statement",
        node.alias or (node.start, node.end),
        fix="write the statement here and keep templates for its values, or say that it is meant: `{{ … | sql }}`",
        edits=[Edit(at, at, "| sql " if before == " " else " | sql ")] if at > 0 and not node.changed else (),
    )


_INLINE = (PLAIN, SINGLE, DOUBLE)
