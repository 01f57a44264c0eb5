"""The outline of a source, the division of its comments among its parts, and the plan for printing it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.lang.comments import (
    ALIAS,
    BLOCK_SCALAR,
    FLOW_LIST,
    FLOW_MAP,
    LIST,
    MAP,
    SCALAR,
    Lay,
    Outline,
    Plan,
    lay_out,
    own_column,
    touched,
)
from noetl.lang.node import MapNode, Node, Scalar, entry, make, walk
from noetl.lang.reader import read
from noetl.model.diagnostics import Diagnostics
from noetl.model.source import Source


def tree(text: str) -> Node:
    root = read(text, Diagnostics(Source(text)))
    assert root is not None
    return root


def lays(text: str, at: int = 0) -> tuple[list[Lay], str]:
    outline = Outline(text)
    found, span = lay_out(outline, at, own_column(outline, at))
    return found, text[slice(*span)]


TEXT = """\
a: &x   # one
  - {k: 1}
  - >
    folded
b: *x
? c
d: [1, e: 2]
"""


def test_the_outline_has_every_node_in_document_order() -> None:
    outline = Outline(TEXT)
    kinds = [MAP, SCALAR, LIST, FLOW_MAP, SCALAR, SCALAR, BLOCK_SCALAR, SCALAR, ALIAS, SCALAR, SCALAR]
    assert outline.kind == [*kinds, SCALAR, FLOW_LIST, SCALAR, FLOW_MAP, SCALAR, SCALAR]


def test_every_node_of_the_tree_is_found_in_the_outline() -> None:
    outline = Outline(TEXT)
    for node in walk(tree(TEXT)):
        assert outline.find(node) >= 0, (type(node), node.start, node.end)


def test_a_key_knows_its_value_and_a_value_its_key() -> None:
    outline = Outline(TEXT)
    for key in outline.children(0):
        value = outline.value(key)
        assert outline.is_key(key)
        assert not outline.is_key(value)
        assert outline.part[value] == key


def test_a_value_that_is_left_out_ends_with_its_key() -> None:
    outline = Outline("? c  # why\n# above d\nd: 1\n")
    assert outline.text[: outline.end[2]] == "? c"


def test_an_anchor_is_no_part_of_the_content() -> None:
    text = "a: &x # c\n  b: 1\nc: &y !!str\n  d\n"
    outline = Outline(text)
    assert text[outline.content(2) :].startswith("b: 1")
    assert text[outline.content(6) :].startswith("d\n")
    assert outline.properties(6) == ["&y", "!!str"]
    assert outline.properties(2) == ["&x"]


def test_lists_flush_with_their_keys_are_counted() -> None:
    assert Outline("a:\n- 1\nb:\n- 2\nc:\n  - 3\n").flush_lists
    assert not Outline("a:\n- 1\nb:\n  - 2\n").flush_lists


def test_other_line_breaks_count_too() -> None:
    outline = Outline("a: 1\rb: 2\r\n c")
    assert [outline.column(at) for at in (0, 5, 12)] == [0, 0, 1]


def test_comments_and_blank_lines_above_belong_to_the_next_part() -> None:
    found, tail = lays("a: 1  # side\n\n# above b\nb: 2\n# end\n")
    assert found[0].side is not None
    assert (found[0].side.gap, found[0].side.text) == ("  ", "# side")
    assert found[1].above == [(0, ""), (0, "# above b")]
    assert tail == "\n# end"


def test_a_comment_beside_the_key_of_a_block_is_its_header() -> None:
    found, _ = lays("a:  # head\n  # lead\n  b: 1\n")
    assert [comment.text for comment in found[0].header] == ["# head"]
    assert found[0].lead == [(2, "# lead")]
    assert found[0].comments() == ["# head", "# lead"]


def test_a_comment_indented_like_a_block_belongs_to_its_end() -> None:
    text = "a:\n  b: 1\n  # of a\n # of c\nc: 1\n"
    found, _ = lays(text)
    assert text[found[0].start : found[0].stop] == "a:\n  b: 1\n  # of a"
    assert found[1].above == [(1, "# of c")]
    inner, tail = lays(text, 2)
    assert (len(inner), tail) == (1, "\n  # of a")


def test_a_comment_in_the_column_of_a_flush_list_belongs_to_what_follows() -> None:
    found, _ = lays("a:\n- 1\n# of b\nb: 2\n")
    assert found[1].above == [(0, "# of b")]


def test_comments_between_question_mark_key_and_value_are_found() -> None:
    found, _ = lays("? # one\n  a # two\n# three\n: # four\n  b\n")
    assert [comment.text for comment in found[0].header] == ["# one", "# two", "# three", "# four"]


def test_comments_in_a_flow_collection_belong_to_its_parts() -> None:
    text = "{ # first\n a: 1, # side\n # above\n b: # head\n  2 # last\n # tail\n}"
    found, tail = lays(text)
    assert [lay.comments() for lay in found] == [["# first", "# side"], ["# above", "# head", "# last"]]
    assert tail == "\n # tail\n}"


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        ("|\n  x\n\n\n", "|\n  x"),
        ("|+\n  x\n\n\n", "|+\n  x\n\n"),
        ("|\n  x\n     \n", "|\n  x\n     "),
        ("|\n  x\n  \n", "|\n  x"),
        ("|2\n   x\n  \n", "|2\n   x\n  "),
        (">-  # c\n x", ">-  # c\n x"),
    ],
)
def test_a_block_scalar_ends_with_what_belongs_to_it(scalar: str, text: str) -> None:
    outline = Outline(f"a: {scalar}")
    assert outline.text[3 : outline.stop(2)] == text


def test_the_comment_beside_the_bar_of_a_literal_is_found() -> None:
    outline = Outline("a: |  # why\n  x # no\n")
    assert [comment.text for comment in outline.header_comment(2)] == ["# why"]
    assert outline.header_comment(1) == []


def test_comments_directly_above_the_document_go_with_its_first_entry() -> None:
    text = "# licence\n\n# of a\na: 1\n"
    outline = Outline(text)
    assert text[outline.head(text.index("a: 1")) :] == "# of a\na: 1\n"
    assert Outline("--- 1").head(4) == 4


@given(st.lists(st.sampled_from(["# c", "", "   ", "  # d"]), max_size=6))
def test_the_lines_between_two_parts_are_all_found(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in ["a: 1", *lines, "b: 2"])
    (_, second), _ = lays(text)
    assert [line for _, line in second.above] == [line.strip() for line in lines]


def test_nothing_is_touched_in_a_tree_as_it_was_read() -> None:
    root = tree("a: [1, {b: 2}]\n")
    assert not touched(root)
    assert isinstance(root, MapNode)
    root.entries[0].todo.append("look")
    assert touched(root)


def test_the_plan_opens_only_the_way_to_what_changed() -> None:
    root = tree("a:\n  b: 1\n  c: 2\nd:\n  e: 3\n")
    assert isinstance(root, MapNode)
    inner = root.get("a")
    assert isinstance(inner, MapNode)
    value = inner.get("b")
    assert isinstance(value, Scalar)
    value.rewrite("new")
    plan = Plan(Outline("a:\n  b: 1\n  c: 2\nd:\n  e: 3\n"), root, tidy=False)
    other = root.get("d")
    assert other is not None
    assert {id(root), id(inner), id(value)} == plan.dirty
    assert id(other) in plan.owner


def test_comments_of_a_removed_part_go_to_the_next_one() -> None:
    text = "a: 1  # one\n# two\nb: 2\nc: 3\n"
    root = tree(text)
    assert isinstance(root, MapNode)
    root.take("a")
    root.take("b")
    plan = Plan(Outline(text), root, tidy=False)
    assert plan.note(root.entries[0]).extra == ["# one", "# two"]


def test_what_was_given_away_can_be_taken_back() -> None:
    text = "a: 1\n# two\nb: 2\n# end\n"
    root = tree(text)
    assert isinstance(root, MapNode)
    root.put(entry("c", make(1, near=root)))
    plan = Plan(Outline(text), root, tidy=False)
    mark = plan.mark()
    assert plan.note(root.entries[1]).any()
    assert not plan.note(root.entries[1]).any()
    assert plan.tail(root) is not None
    assert plan.tail(root) is None
    plan.back(mark)
    assert plan.note(root.entries[1]).any()
    assert plan.tail(root) is not None
