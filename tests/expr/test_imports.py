"""jinja2 is imported only when it is really needed: it takes longer than all the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

USUAL = """
from noetl.expr import guard, template, value
from noetl.expr.embedded.sql_template import compile_sql
from noetl.expr.embedded.shell_template import compile_command
scopes = {"a": {"b": [1, 2]}, "now": lambda: "t"}
assert template("x/{{ a.b | length }}/{{ a.c | default('-') }}{{ now() }}").evaluate(scopes) == "x/2/-t"
assert template("{{ {'k': a.b} | to_json }}").evaluate(scopes) == '{"k": [1, 2]}'
assert guard("{{ 1 in a.b and a.c != 3 }}").evaluate(scopes) is False
assert template("{{ a | nope }}").problems
compile_sql("SELECT {{ a.b }}").render(scopes, "$1")
compile_command("echo {{ a.b }}").render(scopes)
"""


def loaded(code: str, module: str) -> bool:
    check = f"{code}\nimport sys\nprint({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


@pytest.mark.parametrize("module", ["jinja2", "jsonpath", "asyncio", "socket", "logging"])
def test_usual_templates_need_no_heavy_module(module: str) -> None:
    assert not loaded(USUAL, module)


@pytest.mark.parametrize("text", ["{{ 1 + }}", "{% if true %}{% endif %}", "{{ a | batch(2) }}"])
def test_what_needs_jinja2_gets_it(text: str) -> None:
    code = f"from noetl.expr import template\nfound = template({text!r})\nfound.problems\n"
    assert loaded(code + "try:\n    found.evaluate({'a': []})\nexcept Exception:\n    pass", "jinja2")
