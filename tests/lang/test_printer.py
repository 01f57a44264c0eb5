"""Printing a changed tree: what nobody touched stays as it was, the rest says what the tree says."""

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from noetl.lang.printing.printer import render
from noetl.lang.reading import node as nodes
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, make, plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source

Change = Callable[[Any], Any]


def parse(text: str) -> Node | None:
    problems = Diagnostics(Source(text))
    root = read_yaml(text, problems)
    lost = any(found.code in ("yaml-syntax", "duplicate-key") for found in problems.collect())
    return None if lost else root


def printed(text: str, change: Change) -> str:
    """The text after a change of its tree, which must read back as the tree says."""
    text = textwrap.dedent(text)
    root = parse(text)
    assert root is not None
    replaced = change(root)
    root = replaced if isinstance(replaced, Scalar | MapNode | ListNode) else root
    out = render(root, Source(text))
    back = parse(out)
    assert back is not None, out
    assert plain_value(back) == plain_value(root), out
    return out


def at(root: Any, *path: str | int) -> Any:
    for step in path:
        root = root.items[step] if isinstance(step, int) else root.get(step)
    return root


def check(before: str, change: Change, after: str) -> None:
    assert printed(before, change) == textwrap.dedent(after)


# -- what stays


@pytest.mark.parametrize(
    "text", ["a: 1", "\ufeffa: 1\r\nb:   [ 2,3 ] \r\n", "# c\n---\na: 1\n...\n# d", "a: |+\n  x\n\n\n"]
)
def test_an_untouched_document_is_the_source(text: str) -> None:
    root = parse(text)
    assert root is not None
    assert render(root, Source(text)) == text


SAMPLE = """\
# licence

# top
apiVersion: noetl.io/v1   # version
metadata: { name: a,  x: 'y' }  # meta

workflow:   # wf
  # first step
  - step: start # st
    args:   {a: 1}   # args
    # the tool
    tool:
        kind: http
        url:   "http://x"   # eol
    # tail of the step

  -   step: end
      tool:
      - kind: python
        code: |
            def main():  # not a comment

                return 1
  # tail of the list
"""


def test_one_changed_scalar_changes_nothing_else() -> None:
    out = printed(SAMPLE, lambda root: at(root, "workflow", 0, "tool", "url").rewrite("http://z"))
    assert out == SAMPLE.replace("http://x", "http://z")


def test_a_renamed_key_changes_nothing_else() -> None:
    out = printed(SAMPLE, lambda root: at(root, "workflow", 0).rename("args", "input"))
    assert out == SAMPLE.replace("args:   ", "input:   ")


def test_a_change_in_a_flow_map_keeps_its_blanks() -> None:
    out = printed(SAMPLE, lambda root: at(root, "metadata", "x").rewrite("z"))
    assert out == SAMPLE.replace("'y'", "'z'")


def test_lines_of_a_windows_file_end_like_the_others() -> None:
    def change(root: Any) -> None:
        at(root, "a").rewrite("x\ny\n")
        root.put(entry("d", make({"e": [1, 2, 3, 4, 5]}, near=root)))

    assert printed("a: 1\r\nb: 2\r\n", change) == (
        "a: |\r\n  x\r\n  y\r\nb: 2\r\nd:\r\n  e:\r\n    - 1\r\n    - 2\r\n    - 3\r\n    - 4\r\n    - 5\r\n"
    )


def test_a_mark_of_the_byte_order_stays() -> None:
    assert printed("\ufeffa: 1\nb: 2\n", lambda root: at(root, "b").rewrite("x")) == "\ufeffa: 1\nb: x\n"


def test_a_missing_last_line_break_stays_missing() -> None:
    assert printed("a: 1\nb: 2", lambda root: at(root, "a").rewrite("x")) == "a: x\nb: 2"


# -- comments of what moves and of what goes


def test_comments_move_along() -> None:
    check(
        """\
        l:
          # of one
          - 1  # one

          # of two
          - k: 2  # two
            # in two
          # of all
        """,
        lambda root: (at(root, "l").items.reverse(), setattr(at(root, "l"), "changed", True)),
        """\
        l:
          # of two
          - k: 2  # two
            # in two
          # of one
          - 1  # one
          # of all
        """,
    )


def test_comments_of_a_removed_entry_stay_with_its_neighbours() -> None:
    check(
        """\
        a: 1
        # of b
        b:  # beside b
          # of c
          c: 1  # beside c
          # end of b
        d: 1
        """,
        lambda root: root.take("b"),
        """\
        a: 1
        # of b
        # beside b
        # of c
        # beside c
        # end of b
        d: 1
        """,
    )


def test_comments_of_the_last_entry_stay_below_what_is_left() -> None:
    check("a:\n  b: 1\n  # of c\n  c: 2\nd: 1\n", lambda r: at(r, "a").take("c"), "a:\n  b: 1\n  # of c\nd: 1\n")


def test_comments_of_an_emptied_map_go_above_it() -> None:
    check("a:\n  # of b\n  b: 1  # b\nd: 1\n", lambda root: at(root, "a").take("b"), "# of b\n# b\na: {}\nd: 1\n")


def test_a_subtree_takes_its_comments_to_another_map() -> None:
    check(
        """\
        a:
            # of b
            b:  # b
                c: 1  # c
        d:
          e: 1
        """,
        lambda root: at(root, "d").put(at(root, "a").take("b")),
        """\
        a: {}
        d:
          e: 1
          # of b
          b:  # b
              c: 1  # c
        """,
    )


def test_a_value_under_a_new_key_keeps_the_comments_of_its_entry() -> None:
    check(
        "a:\n  # of b\n  b: {x: 1}  # b\n  c: 2\n",
        lambda root: at(root, "a").put(entry("w", at(root, "a").take("b").value), at=0),
        "a:\n  # of b\n  w: {x: 1}  # b\n  c: 2\n",
    )


def test_a_scalar_that_becomes_a_map_leaves_its_comment_at_the_key() -> None:
    check(
        "a: 1  # one\nb: 2\n",
        lambda root: root.put(entry("a", make({"x": {"z": 1}}, near=at(root, "a")), near=root.entries[0].key)),
        "a:  # one\n  x: {z: 1}\nb: 2\n",
    )


def test_a_map_that_becomes_a_scalar_keeps_the_comment_of_its_key() -> None:
    check(
        "a:  # one\n  # two\n  x: 1  # three\nb: 2\n",
        lambda root: root.put(entry("a", make("new", near=at(root, "a")), near=root.entries[0].key)),
        "# two\n# three\na: new  # one\nb: 2\n",
    )


def test_a_scalar_that_becomes_a_literal_keeps_its_comment_behind_the_bar() -> None:
    check("a: 1  # one\nb: 2\n", lambda root: at(root, "a").rewrite("x\ny\n"), "a: |  # one\n  x\n  y\nb: 2\n")


# -- flow and block


def test_a_flow_list_takes_a_new_item_like_its_others() -> None:
    check(
        "a: [ 1,\n     2 ]\n",
        lambda root: (at(root, "a").items.append(make(3, near=root)), setattr(at(root, "a"), "changed", True)),
        "a: [ 1,\n     2,\n     3 ]\n",
    )


def test_comments_inside_a_flow_map_survive_its_change() -> None:
    check(
        "a: {\n  b: 1, # one\n  # two\n  c: 2 # three\n}\n",
        lambda root: at(root, "a", "c").rewrite("x"),
        "a: {\n  b: 1, # one\n  # two\n  c: x # three\n}\n",
    )
    check(
        "a: {\n  b: 1, # one\n  # two\n  c: 2 # three\n}\n",
        lambda root: at(root, "a").put(entry("d", make(3, near=root)), at=1),
        "a: {\n  b: 1, # one\n  d: 3,\n  # two\n  c: 2 # three\n}\n",
    )


@pytest.mark.parametrize(
    ("change", "rest"),
    [
        (lambda m: m.put(entry("w", make("x\ny\n", near=m))), "w: |\n        x\n        y"),
        (lambda m: m.entries[0].ask("look"), None),
        (lambda m: m.put(entry("w", make("x" * 100, near=m))), "w: " + "x" * 100),
    ],
)
def test_what_cannot_stand_in_a_flow_map_makes_it_a_block(change: Change, rest: str | None) -> None:
    todo = "" if rest else "      # TODO noetl: look\n"
    after = f"a:  # one\n  b:\n    c:\n{todo}      d: 1\n" + (f"      {rest}\n" if rest else "") + "    e: [2]\nf: 1\n"
    check("a: {b: {c: {d: 1}, e: [2]}}  # one\nf: 1\n", lambda root: change(at(root, "a", "b", "c")), after)


def test_a_block_that_lands_in_a_flow_map_makes_it_a_block() -> None:
    check(
        "a: {b: 1}\nc:\n  - 1 # one\n",
        lambda root: at(root, "a").put(root.take("c")),
        "a:\n  b: 1\n  c:\n    - 1 # one\n",
    )


def test_a_line_that_was_always_long_stays_a_line() -> None:
    long = "x" * 120
    check(f"a: {{b: {long}, c: 1}}\n", lambda root: at(root, "a", "c").rewrite("zz"), f"a:\n  b: {long}\n  c: zz\n")
    check(f"a: {{b: {long}, c: 10}}\n", lambda root: at(root, "a", "c").rewrite("zz"), f"a: {{b: {long}, c: zz}}\n")


def test_a_map_in_a_list_without_braces_gets_none() -> None:
    check("a: [b: 1, c]\n", lambda root: at(root, "a", 0, "b").rewrite("x"), "a: [b: x, c]\n")
    check("a: [b: 1, c]\n", lambda root: at(root, "a", 0).put(entry("d", make(2, near=root))), "a: [{b: 1, d: 2}, c]\n")


def test_plain_text_is_quoted_where_a_flow_list_would_misread_it() -> None:
    def change(root: Any) -> None:
        at(root, "l").items.append(root.take("a").value)
        at(root, "l").changed = True

    assert printed("a: b, c\nl: [1]\n", change) == 'l: [1, "b, c"]\n'


# -- new nodes


def test_new_nodes_are_written_short_where_they_are_short() -> None:
    new = {
        "then": {"do": "retry", "attempts": 3},
        "many": [1, 2, 3, 4, 5],
        "empty": [],
        "none": {},
        "deep": [{"a": [1]}],
    }
    check(
        "a: 1\n",
        lambda root: root.put(entry("spec", make(new, near=root))),
        """\
        a: 1
        spec:
          then: {do: retry, attempts: 3}
          many:
            - 1
            - 2
            - 3
            - 4
            - 5
          empty: []
          none: {}
          deep:
            - a: [1]
        """,
    )


def test_new_lists_stand_where_the_lists_of_the_file_stand() -> None:
    new = [{"a": {"b": {"c": 1}}}, "x" * 80]
    check(
        "l:\n- 1\n- 2\n",
        lambda root: root.put(entry("w", make(new, near=root))),
        f"l:\n- 1\n- 2\nw:\n- a:\n    b: {{c: 1}}\n- {'x' * 80}\n",
    )


def test_a_key_of_more_than_a_thousand_characters_is_marked() -> None:
    key = "k" * 1100
    out = printed(
        "a: {x: 1}\n",
        lambda root: (
            root.put(entry(key, make({"b": [1, {}]}, near=root))),
            at(root, "a").put(entry(key, make(1, near=root))),
        ),
    )
    assert out.count("? ") == 2


def test_a_todo_is_said_once() -> None:
    def change(root: Any) -> None:
        root.entries[1].todo += ("look\nhere", "and there")
        at(root, "c", 0).entries[0].ask("item")

    check(
        "a: 1\n# TODO noetl: look here\nb: 2\nc:\n  # TODO noetl: item\n  - d: 1\n    e: 2\n",
        change,
        "a: 1\n# TODO noetl: look here\n# TODO noetl: and there\nb: 2\nc:\n  # TODO noetl: item\n  - d: 1\n    e: 2\n",
    )


# -- anchors, aliases, merges

SHARED = "a: &x\n  b: 1  # b\nc: *x\nd:\n  <<: *x  # merged\n  e: 2\n"


def test_aliases_stay_where_nothing_of_them_changed() -> None:
    check(SHARED, lambda root: at(root, "d", "e").rewrite("z"), SHARED.replace("e: 2", "e: z"))


def test_a_changed_copy_is_written_out() -> None:
    out = SHARED.replace("c: *x", "c:\n  b: z")
    check(SHARED, lambda root: at(root, "c", "b").rewrite("z"), out)


def test_all_copies_are_written_out_when_the_anchored_node_changes() -> None:
    check(
        SHARED,
        lambda root: at(root, "a", "b").rewrite("z"),
        "a: &x\n  b: z  # b\nc:\n  b: 1\nd:\n  b: 1\n  # merged\n  e: 2\n",
    )


def test_a_merged_entry_that_changes_or_goes_replaces_the_merge() -> None:
    check(SHARED, lambda r: at(r, "d", "b").rewrite("z"), SHARED.replace("<<: *x  # merged", "b: z\n  # merged"))
    check(SHARED, lambda root: at(root, "d").take("b"), SHARED.replace("<<: *x  # merged", "# merged"))


def test_an_alias_is_written_out_when_its_anchor_is_gone_or_comes_later() -> None:
    check("a: &x 1\nb: *x\n", lambda root: root.take("a"), "b: 1\n")
    check("a: &x 1\nb: *x\n", lambda root: root.put(root.take("a")), "b: 1\na: &x 1\n")


def test_an_entry_that_overrides_a_merged_one_stays_where_it_stands() -> None:
    text = "a: &x {p: 1, q: 2}\nb:\n  k: 1\n  <<: *x\n  m: 1\n  q: 3\n"
    check(text, lambda root: at(root, "b", "k").rewrite("z"), text.replace("k: 1", "k: z"))


def test_an_alias_can_be_a_key() -> None:
    check("a: &x k\n*x : 1\n", lambda root: at(root, "k").rewrite("z"), "a: &x k\n*x : z\n")
    check("a: &x k\n*x : 1\n", lambda root: root.put(entry("b", make(1, near=root))), "a: &x k\n*x : 1\nb: 1\n")
    check("a: &x k\n*x : 1\n", lambda root: root.take("a"), "k : 1\n")


def test_a_comment_behind_an_anchor_stays() -> None:
    check("a: &x # c\n  1\nb: 2\n", lambda root: at(root, "a").rewrite("z"), "a: &x z # c\nb: 2\n")
    check(
        "a: {b: &x # c\n    1, d: 2}\n",
        lambda root: at(root, "a", "d").rewrite("z"),
        "a:\n  b: &x 1 # c\n  d: z\n",
    )
    check(
        "a: {\n  b: &x # c\n    1, d: 2}\n",
        lambda root: at(root, "a", "d").rewrite("z"),
        "a: {\n  # c\n  b: &x 1,\n  d: z\n}\n",
    )


def test_a_copy_comes_without_comments() -> None:
    check(
        "a: |  # c\n  x\nb:\n  - {d: 1}  # e\n",
        lambda root: [root.put(entry(f"{name}2", nodes.copy(at(root, name)))) for name in "ab"],
        "a: |  # c\n  x\nb:\n  - {d: 1}  # e\na2: |\n  x\nb2:\n  - {d: 1}\n",
    )


def test_comments_between_a_key_and_its_value_stay_between_them() -> None:
    check("a:  # c\n  # d\n  1\n", lambda root: at(root, "a").rewrite("z"), "a:  # c\n  # d\n  z\n")
    check("{a: # c\n  1, b: 2}\n", lambda root: at(root, "a").rewrite("z"), "{a: # c\n  z, b: 2}\n")
    check("a:  # c\n  # d\n  1\n", lambda root: at(root, "a").rewrite("x\ny"), "# c\na: |-  # d\n  x\n  y\n")


def test_keys_that_are_no_simple_text_are_written_as_such() -> None:
    check("? |\n  a\n  b\n: 1\nc: 2\n", lambda root: root.entries[0].value.rewrite("z"), '"a\\nb\\n": z\nc: 2\n')
    check("? a # c\n: 1\n", lambda root: at(root, "a").rewrite("z"), "a: z # c\n")


# -- block scalars at the edge


def test_a_literal_at_the_very_end_gains_no_line_break() -> None:
    check("a: 1\nb: |\n  x", lambda root: root.put(entry("c", make(1, near=root))), "a: 1\nb: |-\n  x\nc: 1")
    check("a: 1\nb: |\n  x", lambda root: at(root, "a").rewrite("z"), "a: z\nb: |\n  x")


def test_blank_lines_behind_a_literal_that_keeps_them_are_its_own() -> None:
    def swap(root: Any) -> None:
        root.entries.reverse()
        root.changed = True

    check("a: |+\n  x\n\nb: 1\n\n\n", swap, "b: 1\na: |+\n  x\n\n")
    check("a: 1\nb: |\n  x\n", lambda r: (swap(r), at(r, "a").rewrite("y\n\n")), "b: |\n  x\na: |+\n  y\n\n")


# -- the root


def test_a_root_can_be_wrapped_emptied_and_replaced() -> None:
    check(
        "# c\n\n# d\na: 1 # e\n# f\n",
        lambda root: make({"w": root}, near=root),
        "# c\n\nw:\n  # d\n  a: 1 # e\n  # f\n",
    )
    check("# c\na: 1 # e\n", lambda root: root.take("a"), "# c\n# e\n{}\n")
    check("---\na: 1 # e\n", lambda root: make("x", near=root), "---\n# e\nx\n")
    check("# c\n{a: 1} # e\n", lambda root: at(root, "a").rewrite("z"), "# c\n{a: z} # e\n")
    check(
        "--- [1, 2] # e\n",
        lambda root: make([root, {"b": {"c": {}}}], near=root),
        "---\n# e\n- [1, 2]\n- b:\n    c: {}\n",
    )


def test_the_time_to_print_grows_with_the_length_of_the_file() -> None:
    step = "  - step: s{}  # c\n    tool:\n      kind: http\n      # u\n      url: http://x\n    next: {{arcs: [{{step: z}}]}}\n"
    text = "workflow:\n" + "".join(step.format(n) for n in range(2000))
    out = printed(text, lambda root: at(root, "workflow", 1000, "tool", "url").rewrite("new"))
    assert len(out) == len(text) - len("http://x") + len("new")


def test_the_merged_part_of_a_moved_entry_is_forgotten() -> None:
    def change(root: Any) -> None:
        found: MapEntry = at(root, "b").take("p")
        root.put(found)

    check("a: &x {p: 1}\nb: {<<: *x, q: 2}\n", change, "a: &x {p: 1}\nb: {q: 2}\np: 1\n")
