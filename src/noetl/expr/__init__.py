"""Jinja2 templates, sandboxed and bounded: compiled once, evaluated many times, understood without running."""

from noetl.expr.budget import Budget
from noetl.expr.facts import Call, Facts, Problem, Read
from noetl.expr.syntax.segments import has_template
from noetl.expr.template import Guard, Template, guard, template
from noetl.expr.value import Value, value

__all__ = [
    "Budget",
    "Call",
    "Facts",
    "Guard",
    "Problem",
    "Read",
    "Template",
    "Value",
    "guard",
    "has_template",
    "template",
    "value",
]
