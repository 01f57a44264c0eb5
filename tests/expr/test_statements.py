"""Statements mean what they mean in Jinja2."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from noetl.errors import TemplateError
from noetl.expr import template

JINJA = jinja2.Environment(keep_trailing_newline=True)
SCOPES: dict[str, Any] = {
    "rows": [{"id": 1, "t": "a"}, {"id": 2, "t": "b"}, {"id": 3, "t": "a"}],
    "tree": [{"n": 1, "kids": [{"n": 2, "kids": []}, {"n": 3, "kids": [{"n": 4, "kids": []}]}]}],
    "m": {"x": 1, "y": 2},
    "x": "outer",
}

SAME_AS_JINJA = [
    "{% for r in rows %}{{ loop.index }}/{{ loop.length }}:{{ r.id }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for r in rows if r.id > 1 %}{{ r.id }}-{{ loop.first }}-{{ loop.revindex }};{% endfor %}",
    "{% for r in [] %}{{ r }}{% else %}none{% endfor %}",
    "{% for r in rows if r.id > 9 %}{{ r }}{% else %}none{% endfor %}",
    "{% for k, v in m.items() %}{{ k }}={{ v }} {% endfor %}",
    "{% for k in m %}{{ k }}{% endfor %}",
    "{% for c in 'abc' %}{{ loop.cycle('x', 'y') }}{{ c }}{% endfor %}",
    "{% for r in rows %}{{ loop.changed(r.t) }} {% endfor %}",
    "{% for r in rows %}{{ loop.previtem.id if not loop.first else '' }}<{{ r.id }}>{{ loop.nextitem.id if not loop.last else 0 }} {% endfor %}",
    "{% for n in tree recursive %}{{ loop.depth }}.{{ n.n }}({{ loop(n.kids) }}){% endfor %}",
    "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }} {% endfor %}",
    "{% set x = 1 %}{{ x }}{% for a in [1, 2] %}{% set x = x + a %}{{ x }}{% endfor %}{{ x }}",
    "{% if true %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set t %}<{{ x }}>{% set x = 1 %}{% endset %}{{ t }}{{ x }}",
    "{% set t | upper | replace('O', '0') %}<{{ x }}>{% endset %}{{ t }}",
    "{% filter upper %}a{{ x }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}a{{ x }}{% endfilter %}",
    "{% with x = 1, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with %}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}",
    "{% set ns = namespace(n=0, s='') %}{% for r in rows %}{% set ns.n = ns.n + r.id %}{% set ns.s = ns.s ~ r.t %}{% endfor %}{{ ns.n }}{{ ns.s }}",
    "{% if rows | length > 5 %}a{% elif x == 'outer' %}b{% else %}c{% endif %}",
    "{% if nope %}a{% elif nope %}b{% else %}c{% endif %}",
    "a  {%- if true -%}  b  {%- endif %}  c\n",
    "{% raw %}{{ x }} {% if %}{% endraw %}",
    "{# a comment {{ x }} #}b",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}",
    "{% set j = joiner('|') %}{% for r in rows %}{{ j() }}{{ r.id }}{% endfor %}",
    "{% for g, items in rows | groupby('t') %}{{ g }}:{{ items | map(attribute='id') | join('+') }} {% endfor %}",
    "{% for g in rows | groupby('t') %}{{ g.grouper }}{{ g.list | length }} {% endfor %}",
    "{% print x, 1 %}",
    "{% for i in range(3) %}{{ i }}{% endfor %}{{ dict(a=1).a }}",
    "{{ '\\\\d' }}{% if 1 %}{% endif %}",
]


@pytest.mark.parametrize("text", SAME_AS_JINJA)
def test_a_template_with_statements_renders_as_in_jinja2(text: str) -> None:
    ours = template(text).evaluate(SCOPES)
    assert ours == JINJA.from_string(text).render(SCOPES).replace("True", "true").replace("False", "false")


def test_statements_yield_text_even_around_one_expression() -> None:
    assert template("{% if true %}{{ 1 }}{% endif %}").evaluate({}) == "1"


def test_a_loop_body_does_not_leak_its_names_after_an_error_in_another_evaluation() -> None:
    found = template("{{ x }}{% for x in [1, 0] %}{{ 1 / x }}{% endfor %}")
    with pytest.raises(TemplateError):
        found.evaluate({"x": "a"})
    assert template("{{ x }}{% for x in [1] %}{% endfor %}{{ x }}").evaluate({"x": "a"}) == "aa"


@pytest.mark.parametrize(
    "text",
    [
        "{% for x in 5 %}{% endfor %}",
        "{% for x in [1] %}{{ loop([1]) }}{% endfor %}",
        "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
        "{% set x.y = 1 %}",
        "{{ cycler() }}{% if 1 %}{% endif %}",
        "{% for x in [1] %}{{ loop.__init__ }}{% endfor %}",
        "{% set c = cycler(1) %}{{ c._values }}",
        "{% filter nope %}x{% endfilter %}",
    ],
)
def test_a_statement_that_cannot_be_carried_out_is_a_template_error(text: str) -> None:
    with pytest.raises(TemplateError):
        template(text).evaluate({"x": {}})
