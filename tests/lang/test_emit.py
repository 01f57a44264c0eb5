"""The text of single values: read back it is the same, to readers of YAML 1.2 and of YAML 1.1 alike."""

from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from noetl.lang.printing.plain_yaml import is_plain, key_text, scalar_text
from noetl.lang.reading.node import DOUBLE, FOLDED, LITERAL, PLAIN, SINGLE, plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source

STYLES = (PLAIN, SINGLE, DOUBLE, LITERAL, FOLDED)
#: pieces that make trouble in YAML, in any order
PIECES = [
    "a",
    "b",
    ":",
    "#",
    "'",
    '"',
    "\\",
    "[",
    "]",
    "{",
    "}",
    ",",
    "-",
    "?",
    "&",
    "*",
    "!",
    "|",
    ">",
    "%",
    "@",
    "`",
    "0",
    "1",
    ".",
    "_",
    "e",
    "x",
    "yes",
    "null",
    "~",
    "=",
    "<<",
    "é",
    "😀",
    "2001-01-01",
    "---",
    "...",
]
BLANKS = (" ", "  ", "\n", "\t", ": ", " #", "- ", "{{ x }}", "\r", "\x85", "\u2028", "\x07", "\0", "\ufeff")
AWKWARD = st.lists(st.sampled_from([*PIECES, *BLANKS]), max_size=7).map("".join)
MISREAD = "yes No ON off y N null ~ True 010 0x1F 0o17 0b11 1_000 1,000 12:30 1:20:30.5 2001-01-01 1e5 12e03 .5 1. +1"


def read_back(text: str) -> Any:
    problems = Diagnostics(Source(text))
    root = read_yaml(text, problems)
    assert not problems.collect(), (text, problems.collect())
    return plain_value(root)


@given(AWKWARD, st.sampled_from(STYLES), st.booleans())
def test_any_text_in_any_style_is_read_back_as_the_same_text(value: str, style: str, in_flow: bool) -> None:
    text = scalar_text(value, style, col=0, flow=in_flow)
    document = f"k: [{text}, z]\n" if in_flow else f"k: {text}\nz: 1\n"
    got = read_back(document)["k"]
    assert (got[0] if in_flow else got) == value


@given(AWKWARD, st.sampled_from(STYLES), st.integers(0, 6))
def test_a_literal_fits_into_any_column(value: str, style: str, depth: int) -> None:
    head = "".join(f"{'  ' * n}k:\n" for n in range(depth))
    text = scalar_text(value, style, col=2 * depth)
    got = read_back(f"{head}{'  ' * depth}k: {text}\n{'  ' * depth}z: 1\n")
    for _ in range(depth + 1):
        got = got["k"]
    assert got == value


@given(AWKWARD, st.sampled_from(STYLES), st.booleans())
def test_any_text_can_be_a_key(value: str, style: str, in_flow: bool) -> None:
    text = key_text(value, value, style, flow=in_flow)
    assert read_back(f"{{{text}: 1}}\n" if in_flow else f"{text}: 1\n") == {value: 1}


@given(AWKWARD)
def test_text_without_quotes_is_text_to_yaml_1_1_too(value: str) -> None:
    if is_plain(value, flow=False):
        assert yaml.safe_load(f"k: {value}\n") == {"k": value}


@pytest.mark.parametrize("value", [*MISREAD.split(), "2001-1-1 10:00:00", "-.inf", ".NaN", "=", "<<", ""])
def test_what_some_reader_would_take_for_something_else_gets_quotes(value: str) -> None:
    assert scalar_text(value, PLAIN, col=0) == f'"{value}"'


@pytest.mark.parametrize(
    "value", ["fetch", "a b", "http://x/y?z=1", "a:b", "x#y", "-x", "10.0.0.1a", "v1.2", "naïve", "$.a"]
)
def test_text_that_means_itself_stays_without_quotes(value: str) -> None:
    assert scalar_text(value, PLAIN, col=0) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (-7, "-7"),
        (1.5, "1.5"),
        (1e20, "1.0e+20"),
        (1e-9, "1.0e-09"),
        (float("inf"), ".inf"),
        (float("-inf"), "-.inf"),
        (float("nan"), ".nan"),
        ((1, 2), '"(1, 2)"'),
    ],
)
def test_other_values_are_written_as_both_versions_read_them(value: Any, text: str) -> None:
    assert scalar_text(value, PLAIN, col=0) == text


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1), st.booleans()))
def test_numbers_are_read_back_as_the_same_numbers(value: float) -> None:
    text = scalar_text(value, PLAIN, col=0)
    got = read_back(f"k: {text}\n")["k"]
    assert (got, type(got)) == (value, type(value))
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{{ a.b }}", '"{{ a.b }}"'),
        ('{{ a == "x" }}', "'{{ a == \"x\" }}'"),
        ("{{ a | replace('\\\\', '') }}", "\"{{ a | replace('\\\\\\\\', '') }}\""),
        ("{{ \"a\" ~ 'b' }}", '"{{ \\"a\\" ~ \'b\' }}"'),
        ("{{ a\\b }}", "'{{ a\\b }}'"),
    ],
)
def test_templates_stand_in_the_quotes_that_need_no_escapes(value: str, text: str) -> None:
    assert scalar_text(value, PLAIN, col=0) == text


@pytest.mark.parametrize(
    ("value", "style", "text"),
    [
        ("b", SINGLE, "'b'"),
        ("it's", SINGLE, "'it''s'"),
        ("b", DOUBLE, '"b"'),
        ('say "x"', DOUBLE, "'say \"x\"'"),
        ("\"x\" and 'y'", DOUBLE, '"\\"x\\" and \'y\'"'),
        ("a\nb", DOUBLE, '"a\\nb"'),
        ("a\nb\n", SINGLE, "|\n  a\n  b"),
        ("SELECT 1", LITERAL, "|-\n  SELECT 1"),
        ("SELECT 1\n", FOLDED, "|\n  SELECT 1"),
    ],
)
def test_the_quotes_of_the_author_stay_where_the_new_text_allows(value: str, style: str, text: str) -> None:
    assert scalar_text(value, style, col=0) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\nb\n\n", "|+\n  a\n  b\n"),
        ("a\n\nb\n", "|\n  a\n\n  b"),
        ("  a\nb\n", "|2\n    a\n  b"),
        ("\n a\n", "|2\n\n   a"),
        ("\n\n", '"\\n\\n"'),
        ("a\n  ", '"a\\n  "'),
        ("a\r\nb", '"a\\r\\nb"'),
        ("a\x07\nb", '"a\\x07\\nb"'),
    ],
)
def test_lines_are_a_literal_where_one_can_hold_them(value: str, text: str) -> None:
    assert scalar_text(value, PLAIN, col=0) == text


def test_what_cannot_be_printed_is_escaped() -> None:
    assert scalar_text("\x1b\u2028\ufeff", PLAIN, col=0) == '"\\x1b\\u2028\\ufeff"'


def test_a_key_that_was_no_text_is_written_as_it_was() -> None:
    assert key_text(1, "1", PLAIN, flow=False) == "1"
    assert key_text(None, "", PLAIN, flow=False) == '""'
    assert key_text("1", "1", PLAIN, flow=False) == '"1"'
