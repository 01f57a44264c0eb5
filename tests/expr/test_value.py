"""Value: a tree with templates in it, rendered many times."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import UndefinedValue
from noetl.expr import Template, is_larger, template, value
from noetl.expr.values import LateValue


def test_templates_are_rendered_in_nested_values_and_not_in_keys() -> None:
    tree = {"deep": [{"list": [template("{{ v }}"), [template("{{ v }}!")]]}, 3], "{{ k }}": template("{{ v }}")}
    assert value(tree).evaluate({"v": "x"}) == {"deep": [{"list": ["x", ["x!"]]}, 3], "{{ k }}": "x"}


def test_a_tree_without_templates_is_constant_and_yet_new_each_time() -> None:
    found = value({"a": [1, "{{ not a Template }}"], "b": template("text")})
    assert found.constant
    one, other = found.evaluate({}), found.evaluate({})
    assert one == other == {"a": [1, "{{ not a Template }}"], "b": "text"}
    assert one["a"] is not other["a"]


def test_facts_of_all_templates_are_gathered() -> None:
    found = value([template("{{ a.b }}"), {"x": template("{{ done('s') | nope }}")}, 1])
    assert not found.constant
    assert [read.path for read in found.facts.reads] == [("a", "b")]
    assert [call.name for call in found.facts.calls] == ["done"]
    assert [problem.code for problem in found.facts.problems] == ["unknown-filter"]
    assert len(found.templates) == 2


def test_an_undefined_anywhere_inside_is_an_error() -> None:
    with pytest.raises(UndefinedValue, match="nope"):
        value({"a": [template("{{ ctx.nope }}")]}).evaluate({"ctx": {}})


@pytest.mark.parametrize("scalar", [None, True, 1, 2.5, "text"])
def test_a_scalar_is_itself(scalar: Any) -> None:
    assert value(scalar).evaluate({}) is scalar


def test_a_late_value_keeps_what_speaks_of_rows_and_what_it_is_told_to_keep() -> None:
    row, query = template("{{ row.a }}"), template("SELECT {{ x }}")
    tree = {"query": query, "list": [template("{{ x }}"), row, template("{{ chunk.index }}/{{ x }}")], "n": 1}
    found = LateValue(tree, frozenset({"query"})).evaluate({"x": 5})
    assert found["query"] is query
    assert found["list"][0] == 5
    assert found["list"][1] is row
    assert found["list"][2].source == "{{ chunk.index }}/{{ x }}"
    assert found["n"] == 1
    assert isinstance(LateValue(tree, frozenset({"query"})).with_tree({"query": row}).evaluate({})["query"], Template)


@pytest.mark.parametrize("digits", [9, 99, 100, 102, 5_000])
def test_a_whole_number_counts_as_large_by_its_digits(digits: int) -> None:
    assert is_larger(10**digits, 100) is (digits + 1 > 100)
