"""The outline of a source, the plan for printing it, and that no comment is lost whatever is changed."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from suite import PLAYBOOKS

from noetl.lang.printing.comments import PartLayout, lay_out, own_column, shift
from noetl.lang.printing.copy_plan import PrintPlan, is_touched
from noetl.lang.printing.outline import ALIAS, BLOCK_SCALAR, FLOW_LIST, FLOW_MAP, LIST, MAP, SCALAR, Outline
from noetl.lang.printing.printer import print_tree, render
from noetl.lang.reading import node as nodes
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, entry, make, plain_value, scalar, walk_nodes
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source


def tree(text: str) -> Node:
    root = read_yaml(text, Diagnostics(Source(text)))
    assert root is not None
    return root


def parse(text: str) -> Node | None:
    problems = Diagnostics(Source(text))
    root = read_yaml(text, problems)
    lost = any(found.code in ("yaml-syntax", "duplicate-key") for found in problems.collect())
    return None if lost else root


def lays(text: str, at: int = 0) -> tuple[list[PartLayout], str]:
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
    for node in walk_nodes(tree(TEXT)):
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


@given(st.lists(st.sampled_from(["# c", "", "   ", "  # d"]), max_size=6))
def test_the_lines_between_two_parts_are_all_found(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in ["a: 1", *lines, "b: 2"])
    (_, second), _ = lays(text)
    assert [line for _, line in second.above] == [line.strip() for line in lines]


def test_nothing_is_touched_in_a_tree_as_it_was_read() -> None:
    root = tree("a: [1, {b: 2}]\n")
    assert not is_touched(root)
    assert isinstance(root, MapNode)
    root.entries[0].ask("look")
    assert is_touched(root)


def test_the_plan_opens_only_the_way_to_what_changed() -> None:
    root = tree("a:\n  b: 1\n  c: 2\nd:\n  e: 3\n")
    assert isinstance(root, MapNode)
    inner = root.get("a")
    assert isinstance(inner, MapNode)
    value = inner.get("b")
    assert isinstance(value, Scalar)
    value.rewrite("new")
    plan = PrintPlan(Outline("a:\n  b: 1\n  c: 2\nd:\n  e: 3\n"), root, tidy=False)
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
    plan = PrintPlan(Outline(text), root, tidy=False)
    assert plan.note(root.entries[0]).extra == ["# one", "# two"]


def test_what_was_given_away_can_be_taken_back() -> None:
    text = "a: 1\n# two\nb: 2\n# end\n"
    root = tree(text)
    assert isinstance(root, MapNode)
    root.put(entry("c", make(1, near=root)))
    plan = PrintPlan(Outline(text), root, tidy=False)
    mark = plan.mark()
    assert plan.note(root.entries[1]).any()
    assert not plan.note(root.entries[1]).any()
    assert plan.tail(root) is not None
    assert plan.tail(root) is None
    plan.roll_back(mark)
    assert plan.note(root.entries[1]).any()
    assert plan.tail(root) is not None


def test_lines_are_shifted_but_the_first_and_the_empty_ones() -> None:
    assert shift("a\n  b\n\n c", 2) == "a\n    b\n\n   c"
    assert shift("a\r\n  b\r\n c", -2) == "a\r\nb\r\nc"
    assert shift("a\nb", 0, least=3) == "a\n   b"
    assert shift("a b", 4) == "a b"
    assert not re.search(r"\S", shift("\n  \n", 1))


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

    TEXTS = (
        "new",
        "{{ a.b }}",
        '{{ a == "x" }}',
        "yes",
        "010",
        "a\nb\n",
        "a\n\n  b",
        "  lead\nx\n",
        "x\n\n",
        "tab\t.",
        "a: b",
    )
    MORE = (
        "- x",
        "# no",
        "",
        "it's",
        "\"q\" 's'",
        "a, b",
        "~",
        "\x07",
        "end \n",
        "\u2028",
        "k:",
        "<<",
        "*a",
        "a\\b",
        "x #y",
    )
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
        found = [node for node in walk_nodes(self.root) if isinstance(node, sort)]
        return self.random.choice(found) if found else None

    def entry(self) -> tuple[Any, Any]:
        owner = self.pick(MapNode)
        return owner, self.random.choice(owner.entries) if owner and owner.entries else None

    def outside(self, node: Node, sort: type) -> Any:
        inner = {id(below) for below in walk_nodes(node)}
        found = [other for other in walk_nodes(self.root) if isinstance(other, sort) and id(other) not in inner]
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
            found.ask("look\nhere")

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
MANY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


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
    assert plain_value(back) == plain_value(mutate.root), out
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
    assert plain_value(back) == plain_value(root), out
    assert comments(out, back) == comments(text, root), out
    assert print_tree(back, out, tidy=True) == out


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
    assert plain_value(back) == plain_value(mutate.root), out
