"""Reading YAML: what scalars mean, where nodes stand, and that every refusal says where and what to do."""

from typing import Any

import pytest

from noetl.lang.loader import load_bytes
from noetl.lang.reading.node import MapNode, Node, Scalar, plain_value
from noetl.lang.reading.reader import MAX_ALIAS_NODES, MAX_BYTES, MAX_DEPTH, MAX_NODES, decode_text, read_yaml
from noetl.model.diagnostics import Diagnostic, Diagnostics, Source
from noetl.tools.registry import ToolKinds


def reading(text: str) -> tuple[Node | None, tuple[Diagnostic, ...]]:
    problems = Diagnostics(Source(text))
    return read_yaml(text, problems), problems.collect()


def value_of(text: str) -> Any:
    root, found = reading(f"a: {text}\n")
    assert found == ()
    return plain_value(root)["a"]


def problem(text: str) -> Diagnostic:
    _, found = reading(text)
    assert len(found) == 1, found
    return found[0]


def place(found: Diagnostic) -> tuple[int, int]:
    assert found.span is not None
    return found.span.line, found.span.column


def edited(text: str, found: Diagnostic) -> str:
    for edit in sorted(found.edits, key=lambda one: -one.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


# --- scalars ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "y", "12:30:45", "2024-01-01", "1_000", "0b11", "0o8", "0xG", "1e", "+", "."]
)
def test_what_only_yaml_1_1_took_for_more_is_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10), ("0o17", 15), ("0x1F", 31), ("+7", 7), ("-0", 0), ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5E-2", -0.015),
        ("~", None), ("null", None), ("Null", None), ("", None), ("True", True), ("FALSE", False),
    ],
)  # fmt: skip
def test_plain_scalars_mean_what_the_core_schema_of_yaml_1_2_says(text: str, value: object) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["nULL", "tRUE", "nil", "none"])
def test_words_in_a_case_the_core_schema_does_not_list_are_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize("text", ['"7"', "'true'", '"~"'])
def test_quotes_make_text_of_anything(text: str) -> None:
    assert value_of(text) == text[1:-1]


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 3000, "0x10000000000000000"])
def test_a_whole_number_of_any_size_is_kept_exactly(text: str) -> None:
    assert value_of(text) == int(text, 0)


@pytest.mark.parametrize("text", ["9" * 3001, "9" * 5000, "-" + "9" * 5000, "0x1" + "0" * 5000])
def test_a_number_of_more_digits_than_values_may_have_is_refused_and_kept_as_text(text: str) -> None:
    root, found = reading(f"a: {text}")
    assert [(one.code, place(one), one.fix) for one in found] == [
        ("wrong-value", (1, 4), "write it in quotes to keep it as text")
    ]
    assert "3,000 digits" in found[0].message
    assert plain_value(root) == {"a": text}


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", "1e999"])
def test_a_number_json_cannot_carry_is_refused(text: str) -> None:
    found = problem(f"a: {text}")
    assert (found.code, place(found)) == ("wrong-value", (1, 4))
    assert text in found.message


def test_block_scalars_are_folded_or_kept() -> None:
    root, found = reading("a: |\n  x\n  y\nb: >-\n  c\n  d\n")
    assert found == ()
    assert plain_value(root) == {"a": "x\ny\n", "b": "c d"}


def test_keys_are_their_text_whatever_they_would_mean_as_values() -> None:
    root, found = reading("1: a\nnull: b\ntrue: c\n")
    assert found == ()
    assert plain_value(root) == {"1": "a", "null": "b", "true": "c"}


# --- places ----------------------------------------------------------------------------------------------------


def test_every_node_knows_its_stretch_of_text() -> None:
    text = "a: {b: [1, 'two']}\nc:\n  - d: three\n# end\n"
    root, _ = reading(text)
    assert isinstance(root, MapNode)
    flow, block = root.entries[0].value, root.entries[1].value
    assert text[flow.start : flow.end] == "{b: [1, 'two']}"
    assert text[block.start : block.end] == "- d: three"
    assert text[root.start : root.end] == text.removesuffix("\n# end\n")


def test_an_alias_stands_where_it_is_written_and_says_what_its_anchor_says() -> None:
    text = "a: &x [1]\nb: *x\n"
    root, _ = reading(text)
    assert isinstance(root, MapNode)
    copy = root.get("b")
    assert copy is not None
    assert (plain_value(copy), text[copy.place :]) == ([1], "*x\n")
    assert copy is not root.get("a")


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    found = load_bytes(b"\xef\xbb\xbfapiVersion: x\n", ToolKinds()).diagnostics
    assert ("wrong-value", (1, 13)) in [(one.code, place(one)) for one in found]


def test_windows_line_ends_count_as_one() -> None:
    found = problem("a: 1\r\nb: 2\r\na: 3\r\n")
    assert (found.code, place(found)) == ("duplicate-key", (3, 1))


# --- keys ------------------------------------------------------------------------------------------------------


def test_a_duplicate_key_names_the_line_of_the_first_and_the_last_one_counts() -> None:
    root, found = reading("x:\n  a: 1\n  b: 2\n  'a': 3\n")
    assert [(one.code, place(one), one.message, one.fix) for one in found] == [
        ("duplicate-key", (4, 3), "`a` is already given on line 2", "keep one of the two")
    ]
    assert plain_value(root) == {"x": {"a": 3, "b": 2}}


def test_a_key_given_three_times_is_told_twice() -> None:
    _, found = reading("a: 1\na: 2\na: 3\n")
    assert [(one.code, place(one)) for one in found] == [("duplicate-key", (2, 1)), ("duplicate-key", (3, 1))]


@pytest.mark.parametrize("text", ["[a, b]: 1", "{a: 1}: 2", "? [x]\n: 1", "&k [a]: 1"])
def test_a_key_that_is_no_scalar_is_refused(text: str) -> None:
    found = problem(text)
    assert (found.code, found.message) == ("yaml-syntax", "a key must be text, not a list or a map")


# --- merges ----------------------------------------------------------------------------------------------------

BASE = "base: &x {p: 1, q: 2}\nother: &y {q: 9, r: 3}\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c:\n  <<: *x\n  q: 3\n", {"p": 1, "q": 3}),
        ("c:\n  q: 3\n  <<: *x\n", {"q": 3, "p": 1}),
        ("c: {<<: [*x, *y]}\n", {"p": 1, "q": 2, "r": 3}),
        ("c: {<<: [*y, *x]}\n", {"q": 9, "r": 3, "p": 1}),
        ("c: {<<: {z: 1}}\n", {"z": 1}),
        ("c: {'<<': 1}\n", {"<<": 1}),
    ],
    ids=["own key behind", "own key before", "first of a list", "order of a list", "a map in place", "quoted is a key"],
)  # fmt: skip
def test_a_merge_holds_where_the_map_says_nothing(text: str, value: dict[str, object]) -> None:
    root, found = reading(BASE + text)
    assert found == ()
    assert list(plain_value(root)["c"].items()) == list(value.items())


@pytest.mark.parametrize("text", ["c: {<<: 5}", "c: {<<: [1]}", "c: {<<: text}"])
def test_only_maps_can_be_merged(text: str) -> None:
    found = problem(text)
    assert (found.code, found.message) == ("yaml-syntax", "`<<` merges a map or a list of maps")


def test_a_merged_map_merges_what_it_merged_itself() -> None:
    root, found = reading(BASE + "c: &z {<<: *x, s: 4}\nd: {<<: *z}\n")
    assert found == ()
    assert plain_value(root)["d"] == {"p": 1, "q": 2, "s": 4}


def test_a_second_merge_in_one_map_is_a_duplicate_key() -> None:
    assert [one.code for one in reading(BASE + "c:\n  <<: *x\n  <<: *y\n")[1]] == ["duplicate-key"]


# --- aliases and limits ----------------------------------------------------------------------------------------


def test_an_alias_without_an_anchor_is_refused() -> None:
    found = problem("a: *nope")
    assert (found.message, place(found)) == ("nothing above is anchored as &nope", (1, 4))


@pytest.mark.parametrize("text", ["a: &a [*a]", "&r\na: {b: *r}"])
def test_an_alias_inside_of_its_anchor_is_refused(text: str) -> None:
    assert "stands inside of what it stands for" in problem(text).message


def test_the_last_anchor_of_a_name_counts() -> None:
    assert plain_value(reading("a: &x 1\nb: &x 2\nc: *x\n")[0]) == {"a": 1, "b": 2, "c": 2}


def test_aliases_of_aliases_are_stopped_before_they_grow() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    found = problem("\n".join(lines))
    assert f"{MAX_ALIAS_NODES:,}" in found.message
    assert place(found)[0] <= 6


def test_depth_is_limited_where_it_is_exceeded() -> None:
    assert reading("[" * MAX_DEPTH + "]" * MAX_DEPTH)[1] == ()
    found = problem("[" * 5000)
    assert (found.message, place(found)) == (f"this is nested more than {MAX_DEPTH} levels deep", (1, MAX_DEPTH + 1))


def test_the_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.lang.reading.reader.MAX_NODES", 5)
    assert reading("[1, 2, 3, 4]")[1] == ()
    found = problem("[1, 2, 3, 4, 5, 6]")
    assert (found.message, place(found)) == ("the file holds more than 5 values", (1, 17))


def test_a_file_that_is_too_large_is_not_read() -> None:
    problems = Diagnostics(Source(""))
    assert decode_text(b" " * (MAX_BYTES + 1), problems) is None
    assert problems.collect()[0].message == "the file has more than 8,000,000 bytes"
    assert "kind: playbook" in (problems.collect()[0].fix or "")


# --- what is no YAML -------------------------------------------------------------------------------------------


def test_a_tab_is_called_a_tab() -> None:
    found = problem("a:\n\tb: 1")
    assert (found.code, place(found), found.fix) == ("yaml-syntax", (2, 1), "use spaces")
    assert "a tab cannot indent YAML" in found.message


def test_a_colon_inside_of_plain_text_is_pointed_at() -> None:
    found = problem("a: 1\nb: c: d\n")
    assert (place(found), found.message) == ((2, 5), "mapping values are not allowed in this context")
    assert "quotes" in (found.fix or "")


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("a: {{ x }}\n", 'a: "{{ x }}"\n'),
        ("a: {{ x }} and {{ y }}\n", 'a: "{{ x }} and {{ y }}"\n'),
        ("a: {{ x }}/{{ y }}  # why\n", 'a: "{{ x }}/{{ y }}"  # why\n'),
        ('a: {{ "t" }}\n', "a: '{{ \"t\" }}'\n"),
        ("- {{ x.y }}\n", '- "{{ x.y }}"\n'),
    ],
)
def test_an_unquoted_template_is_put_in_quotes(text: str, mended: str) -> None:
    found = problem(text)
    assert (found.code, found.message) == ("yaml-syntax", "a template must stand in quotes")
    assert edited(text, found) == mended
    assert (found.fix or "").removeprefix("write ") in mended
    assert reading(mended)[1] == ()


@pytest.mark.parametrize("text", ["a: {{ x }\n", 'a: {{ "it\'s" }}\n', 'a: {{ "\\n" }} \'\n'])
def test_where_quoting_is_not_certain_there_is_no_edit(text: str) -> None:
    found = problem(text)
    assert (found.message, found.fix, found.edits) == (
        "a template must stand in quotes", "put the whole text in quotes", ())  # fmt: skip


def test_quoting_a_template_inside_of_a_flow_map_leaves_the_map_closed() -> None:
    text = "a: {b: {{ x }}}\n"
    assert edited(text, problem(text)) in ('a: {b: "{{ x }}"}\n', text)


@pytest.mark.parametrize("text", ["a: {{ x['k'] }}\n", "a: {{ x[0] }}\n", "a: {{ f('b', 'c') }}\n"])
def test_an_unquoted_template_is_told_whatever_stands_inside(text: str) -> None:
    assert problem(text).message == "a template must stand in quotes"


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("a: 1\n  b: 2\n", (2, 3), "indented by 2 spaces, which fits nothing above it"),
        ("a:\n  - b\n c: 1", (3, 2), "indented by 1 space, which fits nothing above it"),
        ("a: @x", (1, 4), "cannot start any token"),
        ("--- \na: 1\n---\nb: 2", (3, 1), "a second document starts here"),
        ("a: \0", (1, 4), "a NUL character"),
        ("a: \ud800", (1, 4), "no text may hold"),
        ("a: \x07", (1, 4), "control characters"),
        ("a: !!str 5", (1, 4), "the YAML tag tag:yaml.org,2002:str has no meaning"),
        ("a: !ruby/object {b: 1}", (1, 4), "the YAML tag !ruby/object"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, where: tuple[int, int], said: str) -> None:
    found = problem(text)
    assert (found.code, place(found)) == ("yaml-syntax", where)
    assert said in found.message


@pytest.mark.parametrize(
    ("data", "where", "byte"),
    [
        ("ä: 1\nb: ".encode() + b"\xff", (2, 4), "0xff"),
        (b"a: 1\r\n\xe9", (2, 1), "0xe9"),
        (b"\xff\xfea\0", (1, 1), "0xff"),
    ],
)
def test_bytes_that_are_no_text_are_told_by_line_and_column(data: bytes, where: tuple[int, int], byte: str) -> None:
    loaded = load_bytes(data, ToolKinds())
    (found,) = loaded.diagnostics
    assert (loaded.net, found.code, place(found)) == (None, "yaml-syntax", where)
    assert byte in found.message
    assert "UTF-8" in (found.fix or "")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "- a\n", "just text\n", "---\n"])
def test_a_text_that_is_no_map_is_no_playbook(text: str) -> None:
    loaded = load_bytes(text.encode(), ToolKinds())
    (found,) = loaded.diagnostics
    assert (loaded.net, found.code, place(found)) == (None, "wrong-type", (1, 1))
    assert "noetl init" in (found.fix or "")


def test_the_text_of_a_scalar_has_its_quotes_undone() -> None:
    root, _ = reading("a: \"x\\ty\"\nb: 'it''s'\n")
    assert isinstance(root, MapNode)
    texts = [(one.value.text, one.value.style) for one in root if isinstance(one.value, Scalar)]
    assert texts == [("x\ty", '"'), ("it's", "'")]


def test_a_file_of_too_many_lines_is_not_read() -> None:
    (found,) = load_bytes(b"\n" * 600_000, ToolKinds()).diagnostics
    assert found.message == "the file has more than 500,000 lines"


def test_of_very_many_problems_the_first_are_told_and_that_there_are_more() -> None:
    loaded = load_bytes(b"".join(b"k%d: 1\n" % n for n in range(6_000)), ToolKinds())
    assert not loaded.ok
    assert len(loaded.diagnostics) == 5_000
    assert sum("there are more problems" in one.message for one in loaded.diagnostics) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * 65,
        "a: *b\n",
        "a: &abc 1\nb: *abd\n",
        "a0: &a0 [" + "x," * 1000 + "]\n" + "".join(f"b{n}: *a0\n" for n in range(101)),
        "a: [" + "1," * (MAX_NODES + 1) + "]\n",
        "? [a]\n: 1\n",
        "a:\n  <<: 1\n",
        "a: \ud800\n",
        "a: 1\n---\nb: 1\n",
        "a: \0\n",
        "a: !x 1\n",
        "a" * 8_000_001,
    ],
    ids=str.__len__,
)
def test_every_refusal_of_the_reader_says_what_to_do(text: str) -> None:
    problems = Diagnostics(Source(text))
    read_yaml(text, problems)
    assert [one.fix for one in problems.collect() if not one.fix] == []
    assert problems.has_errors
