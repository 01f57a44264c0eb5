"""Printing a changed tree: what nobody touched stays as it was, the rest says what the tree says."""

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from noetl.lang import node as nodes
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, entry, make, plain, scalar, walk
from noetl.lang.printer import print_tree, render
from noetl.lang.reader import read
from noetl.model.diagnostics import Diagnostics
from noetl.model.source import Source

CASES = Path("/work/shared/conformance/cases")
Change = Callable[[Any], Any]


def parse(text: str) -> Node | None:
    problems = Diagnostics(Source(text))
    root = read(text, problems)
    lost = any(found.code in ("yaml-syntax", "duplicate-key") for found in problems.found())
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
    assert plain(back) == plain(root), out
    return out


def at(root: Any, *path: str | int) -> Any:
    for step in path:
        root = root.items[step] if isinstance(step, int) else root.get(step)
    return root


def check(before: str, change: Change, after: str) -> None:
    assert printed(before, change) == textwrap.dedent(after)


# -- what stays


@pytest.mark.parametrize("text", ["a: 1", "\ufeffa: 1\r\nb:   [ 2,3 ] \r\n", "# c\n---\na: 1\n...\n# d", "a: |+\n  x\n\n\n"])
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
        (lambda m: m.entries[0].todo.append("look"), None),
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
    new = {"then": {"do": "retry", "attempts": 3}, "many": [1, 2, 3, 4, 5], "empty": [], "none": {}, "deep": [{"a": [1]}]}
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
    out = printed("a: {x: 1}\n", lambda root: (root.put(entry(key, make({"b": [1, {}]}, near=root))), at(root, "a").put(entry(key, make(1, near=root)))))
    assert out.count("? ") == 2


def test_a_todo_is_said_once() -> None:
    def change(root: Any) -> None:
        root.entries[1].todo += ["look\nhere", "and there"]
        at(root, "c", 0).entries[0].todo.append("item")

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
    check("# c\n\n# d\na: 1 # e\n# f\n", lambda root: make({"w": root}, near=root), "# c\n\nw:\n  # d\n  a: 1 # e\n  # f\n")
    check("# c\na: 1 # e\n", lambda root: root.take("a"), "# c\n# e\n{}\n")
    check("---\na: 1 # e\n", lambda root: make("x", near=root), "---\n# e\nx\n")
    check("# c\n{a: 1} # e\n", lambda root: at(root, "a").rewrite("z"), "# c\n{a: z} # e\n")
    check("--- [1, 2] # e\n", lambda root: make([root, {"b": {"c": {}}}], near=root), "---\n# e\n- [1, 2]\n- b:\n    c: {}\n")


# -- any document, any change

COMMENT = re.compile(r"#c\d+;")


class Draw:
    """Draws YAML documents with comments of which each is unlike all others."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        self.anchors: list[str] = []

    def chance(self, of_ten: float) -> bool:
        return self.random.random() < of_ten / 10

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self) -> int:
        self.count += 1
        return self.count

    def comment(self) -> str:
        return f"#c{self.number()};" + self.one("", " text", " a: b", "  - x", ' "q')

    def key(self) -> str:
        return self.one("k{}", "k{}", '"k{}"', "'k {}'", "k-{}.x").format(self.number())

    def scalar(self, col: int, *, one_line: bool = False) -> str:
        more = "\n" + " " * (col + 1 + self.random.randrange(3))
        if self.chance(1.5) and not one_line:
            return self.one(f"many{more}words", f'"quoted{more}more # no"')
        words = ("a", "b c", "12", "1.5", "true", "~", "http://x/y", "x#y", "a:b", "2001-01-01", "12:30", "no")
        return self.one(*words, '"{{ x }}"', '"a # no"', '"x\\ny"', '""', "'it''s # no'", "'{{ y }}'")

    def literal(self, col: int) -> str:
        pad = " " * (col + 1 + self.random.randrange(3))
        head = self.one("|", ">") + self.one("", "", "-", "+") + (f" {self.comment()}" if self.chance(1.5) else "")
        lines = [self.one(f"{pad}text # no", f"{pad}x: y", "", f"{pad}  deep") for _ in range(self.random.randrange(3))]
        return "\n".join([head, f"{pad}first", *lines, *[""] * self.random.choice([0, 0, 1, 2])])

    def gap(self, col: int, *, broken: bool) -> str:
        if not broken or self.chance(4):
            return self.one("", "", " ")
        line = "\n" + " " * (col + 1 + self.random.randrange(4))
        gap = f" {self.comment()}{line}" if self.chance(3) else line
        return gap + (self.comment() + line if self.chance(2) else "")

    def flow(self, col: int, depth: int) -> str:
        broken, is_list = self.chance(3.5), self.chance(5)
        out = ""
        for n in range(self.random.randrange(4)):
            value = self.scalar(col, one_line=not broken)
            if self.chance(2.5) and depth < 4:
                value = self.flow(col, depth + 1)
            elif self.chance(1) and self.anchors:
                value = f"*{self.one(*self.anchors)} "
            if not is_list or self.chance(0.8):
                value = self.key() if self.chance(1) else f"{self.key()}{self.one(': ', ':  ')}{value}"
            out += ("," if n else "") + self.gap(col, broken=broken) + value + self.one("", " ")
        out += self.gap(col, broken=broken)
        return f"[{out}]" if is_list else f"{{{out}}}"

    def side(self) -> str:
        return self.one("  ", " ", "   ", "\t") + self.comment() if self.chance(4) else self.one("", "", " ")

    def lines(self, col: int) -> str:
        out = ""
        while self.chance(3):
            off = max(0, col + self.random.choice([0, 0, 0, 1, 2, -1, -2]))
            out += self.one("", "   ", " " * col + self.comment(), " " * off + self.comment()) + "\n"
        return out

    def value(self, col: int, depth: int, *, item: bool) -> str:
        if self.chance(1) and self.anchors:
            return f" *{self.one(*self.anchors)}{self.side()}"
        anchor = f"a{self.number()}" if self.chance(1) else ""
        text = self.anchored(f" &{anchor}" if anchor else "", col, depth, item=item)
        self.anchors += [anchor] if anchor else []
        return text

    def anchored(self, anchor: str, col: int, depth: int, *, item: bool) -> str:
        roll = self.random.random()
        if roll < 0.4 and depth < 5:
            if item and not anchor and self.chance(7):
                off = self.random.choice([1, 1, 3])
                return " " * off + self.block(col + 1 + off, depth + 1).lstrip(" ")
            is_list = self.chance(5)
            below = col if is_list and not item and self.chance(4) else col + self.random.choice([2, 2, 4, 1])
            head = f"{anchor}{self.side()}\n{self.lines(below)}"
            return head + self.block(below, depth + 1, is_list=is_list)
        if roll < 0.55:
            return f"{anchor} {self.flow(col, depth)}{self.side()}"
        if roll < 0.65:
            return f"{anchor} {self.literal(col)}"
        if roll < 0.7:
            return anchor + self.side()
        if roll < 0.75:
            return f"{anchor}{self.side()}\n{self.lines(col + 1)}{' ' * (col + 2)}{self.scalar(col)}{self.side()}"
        return f"{anchor}{self.one(' ', '  ')}{self.scalar(col)}{self.side()}"

    def block(self, col: int, depth: int, *, is_list: bool | None = None) -> str:
        is_list = self.chance(4.5) if is_list is None else is_list
        pad, out = " " * col, ""
        for n in range(1 + self.random.randrange(4)):
            out += f"\n{self.lines(col)}" if n else ""
            if is_list:
                out += f"{pad}-{self.value(col, depth, item=True)}"
            elif n == 0 and self.anchors and self.chance(3):
                out += f"{pad}<<: *{self.one(*self.anchors)}{self.side()}"
            elif self.chance(0.5):
                out += f"{pad}? {self.key()}{self.side()}\n{pad}:{self.value(col, depth, item=False)}"
            else:
                out += f"{pad}{self.key()}:{self.value(col, depth, item=False)}"
        return out

    def document(self) -> str:
        text = (f"---{self.side()}\n" if self.chance(2) else "") + self.lines(0)
        text += self.flow(0, 0) + self.side() if self.chance(0.7) else self.block(0, 0)
        text += self.one("\n", "\n", "\n" + self.lines(0), "", "\n\n\n")
        return text.replace("\n", "\r\n") if self.chance(1) else text


class Mutate:
    """Changes a tree in the ways that lowerings change it."""

    TEXTS = ("new", "{{ a.b }}", '{{ a == "x" }}', "yes", "010", "a\nb\n", "a\n\n  b", "  lead\nx\n", "x\n\n", "tab\t.", "a: b")
    MORE = ("- x", "# no", "", "it's", "\"q\" 's'", "a, b", "~", "\x07", "end \n", "\u2028", "k:", "<<", "*a", "a\\b", "x #y")
    OTHERS = (None, True, 3, -1.5, 1e20)

    def __init__(self, random: Random, root: Node) -> None:
        self.random, self.root = random, root
        self.count = 0

    def text(self) -> str:
        return self.random.choice(self.TEXTS + self.MORE)

    def new(self, near: Node, depth: int = 0) -> Node:
        roll = self.random.random()
        if roll < 0.5 or depth > 2:
            return scalar(self.random.choice((*self.OTHERS, self.text(), self.text())), near=near)
        if roll < 0.75:
            return make({f"n{n}": self.new(near, depth + 1) for n in range(self.random.randrange(6))}, near=near)
        return make([self.new(near, depth + 1) for _ in range(self.random.randrange(6))], near=near)

    def pick(self, sort: type) -> Any:
        found = [node for node in walk(self.root) if isinstance(node, sort)]
        return self.random.choice(found) if found else None

    def entry(self) -> tuple[Any, Any]:
        owner = self.pick(MapNode)
        return owner, self.random.choice(owner.entries) if owner and owner.entries else None

    def outside(self, node: Node, sort: type) -> Any:
        inner = {id(below) for below in walk(node)}
        found = [other for other in walk(self.root) if isinstance(other, sort) and id(other) not in inner]
        return self.random.choice(found) if found else None

    def place(self, parts: list[Any]) -> int:
        return self.random.randrange(len(parts) + 1)

    def step(self) -> None:
        self.count += 1
        deed = self.random.choice([getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")])
        deed()

    def do_rewrite(self) -> None:
        if node := self.pick(Scalar):
            node.rewrite(self.text())

    def do_rename(self) -> None:
        owner, found = self.entry()
        if found:
            owner.rename(found.name, f"renamed{self.count}")

    def do_remove(self) -> None:
        owner, found = self.entry()
        if found:
            owner.take(found.name)

    def do_add(self) -> None:
        if owner := self.pick(MapNode):
            owner.put(entry(f"new{self.count}", self.new(owner)), at=self.place(owner.entries))

    def do_replace(self) -> None:
        owner, found = self.entry()
        if found:
            found.value = self.new(found.value)
            owner.changed = True

    def do_wrap(self) -> None:
        owner, found = self.entry()
        if found:
            found.value = make(self.random.choice([{"w": found.value}, [{"x": found.value}]]), near=found.value)
            owner.changed = True

    def do_change_list(self) -> None:
        if owner := self.pick(ListNode):
            if owner.items and self.random.random() < 0.5:
                owner.items.pop(self.random.randrange(len(owner.items)))
            else:
                owner.items.insert(self.place(owner.items), self.new(owner))
            owner.changed = True

    def do_shuffle(self) -> None:
        if owner := self.pick(MapNode) if self.random.random() < 0.5 else self.pick(ListNode):
            self.random.shuffle(owner.entries if isinstance(owner, MapNode) else owner.items)
            owner.changed = True

    def do_ask(self) -> None:
        _, found = self.entry()
        if found:
            found.todo.append("look\nhere")

    def do_move(self) -> None:
        owner, found = self.entry()
        target = self.outside(found.value, MapNode | ListNode) if found else None  # type: ignore[arg-type]
        if target is None:
            return
        owner.take(found.name)
        if isinstance(target, ListNode):
            target.items.insert(self.place(target.items), found.value)
            target.changed = True
        else:
            made = entry(f"moved{self.count}", found.value) if self.random.random() < 0.5 else found
            made.merged = False
            target.put(made, at=self.place(target.entries))

    def do_copy(self) -> None:
        _, found = self.entry()
        target = self.outside(found.value, MapNode) if found else None
        if target is not None:
            target.put(entry(f"copy{self.count}", nodes.copy(found.value)))

    def do_wrap_root(self) -> None:
        if self.random.random() < 0.2:
            self.root = make(self.random.choice([{"root": self.root}, [self.root]]), near=self.root)


def every_scalar(node: Node) -> Iterator[Scalar]:
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from every_scalar(item)
    else:
        for found in [*node.entries, *([node.merge] if node.merge else [])]:
            yield found.key
            yield from every_scalar(found.value)


def comments(text: str, root: Node) -> list[str]:
    """The comments of a document that lie outside of its scalars."""
    inside: set[int] = set()
    for node in every_scalar(root):
        start = node.start
        if node.style in ("|", ">"):
            start = text.find("\n", start, node.end)
        elif text[start : start + 1] == "&":
            continue
        inside.update(range(start, node.end))
    return sorted(found[0] for found in COMMENT.finditer(text) if found.start() not in inside)


#: drawing each choice with hypothesis would take most of the time, and such documents do not shrink well
RANDOMS = st.integers(0, 2**40).map(Random)
MANY = settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(RANDOMS)
def test_any_changed_document_says_what_its_tree_says_and_keeps_every_comment(random: Random) -> None:
    text = Draw(random).document()
    root = parse(text)
    assume(root is not None)
    assert root is not None
    source = Source(text)
    assert render(root, source) == text
    before = comments(text, root)
    mutate = Mutate(random, root)
    for _ in range(random.randint(1, 4)):
        mutate.step()
    out = render(mutate.root, source)
    back = parse(out)
    assert back is not None, out
    assert plain(back) == plain(mutate.root), out
    assert comments(out, back) == before, out


@MANY
@given(RANDOMS)
def test_one_new_word_in_any_document_changes_nothing_else(random: Random) -> None:
    text = Draw(random).document().replace("&", "").replace("<<: *", "m: ").replace("*", "").replace("? ", "")
    root = parse(text)
    assume(root is not None)
    assert root is not None
    words = [n for n in every_scalar(root) if n.style in ("", "'", '"') and n.end > n.start]
    words = [node for node in words if "\n" not in text[node.start : node.end]]
    assume(words)
    node = random.choice(words)
    quote = node.style
    node.rewrite("new")
    wanted = f"{text[: node.start]}{quote}new{quote}{text[node.end :]}"
    assume(max(map(len, wanted.splitlines())) <= 110)
    assert render(root, Source(text)) == wanted


@MANY
@given(RANDOMS)
def test_tidy_printing_keeps_data_and_comments_and_settles_at_once(random: Random) -> None:
    text = Draw(random).document().replace("\r", "")
    root = parse(text)
    assume(root is not None)
    assert root is not None
    out = print_tree(root, text, tidy=True)
    back = parse(out)
    assert back is not None, out
    assert plain(back) == plain(root), out
    assert comments(out, back) == comments(text, root), out
    assert print_tree(back, out, tidy=True) == out


PLAYBOOKS = [
    case["playbook"]
    for path in sorted(CASES.glob("**/*.yaml"))
    if isinstance(case := yaml.safe_load(path.read_text()), dict) and isinstance(case.get("playbook"), str)
]


@pytest.mark.skipif(not PLAYBOOKS, reason="the conformance cases are not here")
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), RANDOMS)
def test_any_changed_playbook_says_what_its_tree_says(data: st.DataObject, random: Random) -> None:
    text = data.draw(st.sampled_from(PLAYBOOKS))
    root = parse(text)
    assume(root is not None)
    assert root is not None
    mutate = Mutate(random, root)
    for _ in range(random.randint(1, 4)):
        mutate.step()
    out = render(mutate.root, Source(text))
    back = parse(out)
    assert back is not None, out
    assert plain(back) == plain(mutate.root), out


def test_the_time_to_print_grows_with_the_length_of_the_file() -> None:
    step = "  - step: s{}  # c\n    tool:\n      kind: http\n      # u\n      url: http://x\n    next: {{arcs: [{{step: z}}]}}\n"
    text = "workflow:\n" + "".join(step.format(n) for n in range(2000))
    out = printed(text, lambda root: at(root, "workflow", 1000, "tool", "url").rewrite("new"))
    assert len(out) == len(text) - len("http://x") + len("new")


def test_the_merged_part_of_a_moved_entry_is_forgotten() -> None:
    def change(root: Any) -> None:
        found: Entry = at(root, "b").take("p")
        root.put(found)

    check("a: &x {p: 1}\nb: {<<: *x, q: 2}\n", change, "a: &x {p: 1}\nb: {q: 2}\np: 1\n")
