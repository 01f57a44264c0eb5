"""Jinja2 templates, sandboxed and bounded: compiled once, evaluated many times, understood without running."""

from noetl.expr.budget import Budget as Budget
from noetl.expr.facts import Call as Call
from noetl.expr.facts import Facts as Facts
from noetl.expr.facts import Problem as Problem
from noetl.expr.facts import Read as Read
from noetl.expr.syntax.segments import has_template as has_template
from noetl.expr.template import Guard as Guard
from noetl.expr.template import Template as Template
from noetl.expr.template import guard as guard
from noetl.expr.template import template as template
from noetl.expr.value import Value as Value
from noetl.expr.value import value as value
