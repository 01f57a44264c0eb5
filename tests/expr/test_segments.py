"""Text is cut at exactly the braces where Jinja2 would cut it."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import given, settings, strategies as st
from jinja2 import nodes

from noetl.expr import template
from noetl.expr.embedded.shell_template import compile_command
from noetl.expr.syntax.segments import Hole, has_template, split

JINJA = jinja2.Environment(keep_trailing_newline=True)


def shown(text: str) -> list[str] | None:
    found = split(text)
    return None if found is None else [s if isinstance(s, str) else f"<{s.source.strip()}>" for s in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{{ b }}c", ["a", "<b>", "c"]),
        ("{{ '}}' }}", ["<'}}'>"]),
        ("{{ {'a': {'b': 1}} }}", ["<{'a': {'b': 1}}>"]),
        ("{{ {'a': {}}}}", ["<{'a': {}}>"]),
        ('{{ "a\\"}}" }}x', ['<"a\\"}}">', "x"]),
        ("{{ a }}}", ["<a>", "}"]),
        ("{ {{ a }} }", ["{ ", "<a>", " }"]),
        ("x {{- a -}} y", ["x", "<a>", "y"]),
        ("{{+a}}", ["<a>"]),
        ("{{ [1, (2)] }}", ["<[1, (2)]>"]),
        ("{{ '{% x %}' }}", ["<'{% x %}'>"]),
        ("{% if a %}", None),
        ("{# a #}", None),
        ("{{ a", None),
        ("{{ 'a }}", None),
        ("{{ {(} }}", None),
    ],
)
def test_segments(text: str, expected: list[str] | None) -> None:
    assert shown(text) == expected


def test_a_hole_knows_where_its_source_starts() -> None:
    text = "ab {{- c.d }} {{ e }}"
    assert [text[s.offset :][: len(s.source)] for s in split(text) or [] if isinstance(s, Hole)] == [" c.d ", " e "]


pieces = st.lists(
    st.sampled_from(["{{", "}}", "{", "}", "'", '"', "\\", "(", ")", "[", "]", "-", " ", "a", "1", ":", ",", "x\n"]),
    max_size=14,
).map("".join)


@settings(max_examples=600, deadline=None)
@given(pieces)
def test_where_jinja2_reads_text_and_expressions_so_do_we(text: str) -> None:
    try:
        body = JINJA.parse(text).body
    except jinja2.TemplateSyntaxError:
        return
    found = split(text) if has_template(text) else [text]
    assert found is not None
    parts = [part for node in body if isinstance(node, nodes.Output) for part in node.nodes]
    theirs = [part.data if isinstance(part, nodes.TemplateData) else None for part in parts]
    assert theirs == [s if isinstance(s, str) else None for s in found if s]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain {text}", False),
        ("{{ a }}", True),
        ("{% if a %}{% endif %}", True),
        ("{# note #}", True),
        ("echo ${#NAME}", False),
        ("echo ${#NAME} ${PATH##*#}", False),
        ("echo ${#NAME} # {{ a }}", True),
    ],
)
def test_a_text_is_a_template_where_something_would_be_rendered(text: str, expected: bool) -> None:
    assert has_template(text) is expected
    assert template(text).is_constant is not expected
    assert not template(text).problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${#X}", "${#X}"),
        ("${#X} {{ a }}", "${#X} 1"),
        ("{{ a }} ${#X} ${Y##*#}", "1 ${#X} ${Y##*#}"),
        ("{% if a %}${#X}{% endif %}{{ '${#' }}", "${#X}${#"),
        ("{# note #}${#X}{{ a }}", "${#X}1"),
    ],
)
def test_no_comment_begins_at_the_length_of_a_shell_variable(text: str, expected: str) -> None:
    assert template(text).problems == ()
    assert template(text).evaluate({"a": 1}) == expected


def test_a_command_may_ask_for_the_length_of_a_variable() -> None:
    command = compile_command('for x in {{ a }}; do echo "${#x}"; done')
    assert command.problems == ()
    assert command.render({"a": "b c"}) == "for x in 'b c'; do echo \"${#x}\"; done"
