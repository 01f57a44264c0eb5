"""Nodes back to text: unchanged ones as their author wrote them, the others printed again, every comment kept."""

from __future__ import annotations

from noetl.lang.printing.comments import PartLayout, add_lines, collapse_blanks, drop_blanks, shift, todos
from noetl.lang.printing.copy_plan import PartComments, PrintPlan, is_touched
from noetl.lang.printing.inline_text import InlinePrinter
from noetl.lang.printing.outline import BREAK, LIST, Comment, Line, Outline
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, walk_nodes
from noetl.model.diagnostics import Source

WIDTH = 110
#: a new collection of so few scalars, and so short, is written in one line
FLOW_WIDTH, FLOW_CHILDREN = 72, 4


def render(root: Node, source: Source) -> str:
    """The text of a tree that was read from `source` and changed since."""
    if not is_touched(root):
        return source.text
    return print_tree(root, source.text, tidy=False)


def print_tree(root: Node, text: str, *, tidy: bool) -> str:
    """The text of a tree; `tidy` also lays out anew what was not changed."""
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    outline = Outline(text[len(bom) :])
    printed = Printer(outline, PrintPlan(outline, root, tidy=tidy), tidy=tidy)
    result = printed.document(root)
    still_open = printed.at == len(outline.text) and printed.ending and not tidy
    if printed.open_count > 1 or (printed.open_count and not still_open):
        # The file ended within a block scalar; what follows it now would give it a line break.
        cut = [node for node in walk_nodes(root) if node.end == printed.open_end and not node.changed]
        cut = [node for node in cut if isinstance(node, Scalar)]
        for node in cut:
            node.changed = True
        result = Printer(outline, PrintPlan(outline, root, tidy=tidy), tidy=tidy).document(root)
        for node in cut:
            node.changed = False
    return bom + result


class ValueText:
    """The text of a value, and whether it starts below its key."""

    __slots__ = ("above", "block", "col", "head", "text")

    def __init__(self, text: str, *, block: bool = False, col: int = 0) -> None:
        self.text, self.block, self.col = text, block, col
        #: what stands beside the key: the anchor of a block collection
        self.head = ""
        #: lines above the first of a block collection
        self.above: list[Line] = []


class Printer(InlinePrinter):
    """Prints one document. `at` is where in the source the text printed so far ends, if it is a copy, else -1."""

    # -- the document

    def document(self, root: Node) -> str:
        outline, plan = self.outline, self.plan
        if plan.owner.get(id(root)) == 0 and outline.is_block(0) and plan.elements(root):
            return self.block_document(root)
        value = self.value(root, -1, left=0)
        beside = [plan.root_side] if plan.root_side else []
        above: list[Line] = [(0, text) for text in (*plan.loose, *self.stray)]
        above += [(0, comment.text) for comment in beside if value.block] + value.above
        before = self.text[: plan.head if outline.is_block(0) else outline.start[0]]
        if above or value.block or self.tidy:
            # What is to come needs a line of its own; `---` may stand in this one.
            before = self.front(before.rstrip(" ") + ("" if before.rstrip(" ")[-1:] in ("", "\n", "\r") else self.nl))
        head = value.head + self.nl if value.head else ""
        side = "" if value.block else self.side(beside)
        return before + self.lines(above) + head + value.text + side + self.end(plan.root_stop)

    def block_document(self, root: Node) -> str:
        outline = self.outline
        gap = self.plan.head
        col = 0 if self.tidy else outline.column(outline.body(0))
        above, body = self.block(root, col)
        old = self.text[gap : outline.line_start(outline.body(0))]
        same = not self.tidy and outline.between(gap, gap + len(old)) == above
        lines = old if same else self.lines(above)
        return self.front(self.text[:gap]) + lines + " " * col + body + self.end(self.plan.root_stop)

    def front(self, text: str) -> str:
        """What stands in front of the document."""
        if not self.tidy or not text:
            return text
        lines = collapse_blanks([(0, line.strip()) for line in text.splitlines()])
        return self.lines(lines if any(line for _, line in lines) else [])

    def end(self, stop: int) -> str:
        """What stands behind the document."""
        rest = self.text[stop:]
        if self.tidy:
            kept = "\n".join(line.rstrip() for line in rest.strip().splitlines())
            return f"\n{kept}\n" if kept else "\n"
        if self.at != stop and self.ending:
            # Blank lines would become part of a scalar that keeps them, blanks in them part of any block scalar.
            bare = rest.lstrip(" \t\r\n\x85\u2028\u2029")
            blank = rest[: len(rest) - len(bare)].replace(" ", "").replace("\t", "")
            rest = (self.nl if self.ending == "keep" or not blank else blank) + bare
        return rest

    def lines(self, lines: list[Line]) -> str:
        return "".join((" " * max(col, 0) + text if text else "") + self.nl for col, text in lines)

    # -- block collections

    def block(self, node: Node, col: int) -> tuple[list[Line], str]:
        """The lines to put above a block collection, and its text from the first key or dash on."""
        out: list[str] = []
        top: list[Line] = []
        for element in self.plan.elements(node):
            note = self.plan.note(element)
            at, ending, self.stray, outer = self.at, self.ending, [], self.stray
            text = self.entry(element, col, note) if isinstance(element, MapEntry) else self.item(element, col, note)
            more: list[str] = [*note.inner, *self.stray, *todos(element)]
            self.stray = outer
            if out:
                out.append(self.separator(note, col, more, (at, ending)))
            else:
                top = drop_blanks(self.above(note, col, more))
            out.append(text)
            out.extend(self.nl + " " * col + comment for comment in note.below)
            if note.below:
                self.at = -1
        out.append(self.tail(node, col))
        return top, "".join(out)

    def separator(self, note: PartComments, col: int, more: list[str], before: tuple[int, str]) -> str:
        lay = note.lay
        at, ending = before
        if lay and at == lay.gap and not note.extra and not self.tidy and self.stays(lay, col):
            start = self.outline.line_start(lay.start)
            lines = add_lines(lay.above, col, more)[len(lay.above) :]
            return self.text[lay.gap : start] + self.lines(lines) + " " * col
        lines = self.above(note, col, more)
        if ending:
            lines = self.behind_scalar(lines, col, ending)
        return self.nl + self.lines(lines) + " " * col

    def behind_scalar(self, lines: list[Line], col: int, ending: str) -> list[Line]:
        """Lines that do not become part of the block scalar above them."""
        blank = next((n for n, line in enumerate(lines) if line[1]), len(lines))
        comments = [(min(lines[blank][0], col), lines[blank][1]), *lines[blank + 1 :]] if blank < len(lines) else []
        return comments if ending == "keep" else lines[:blank] + comments

    def above(self, note: PartComments, col: int, more: list[str]) -> list[Line]:
        lines: list[Line] = [(col, text) for text in note.extra]
        if note.lay:
            moved = self.column_shift(note.lay, col)
            lines += [(col if at < 0 or self.tidy else max(at + moved, 0), text) for at, text in note.lay.above]
        lines = add_lines(lines, col, more)
        return collapse_blanks(lines) if self.tidy else lines

    def stays(self, lay: PartLayout, col: int) -> bool:
        """Whether a part of a block collection is printed in its old column."""
        return self.outline.is_block(self.outline.parent[lay.part]) and self.column_shift(lay, col) == 0

    def column_shift(self, lay: PartLayout, col: int) -> int:
        """By how many columns a part is moved to the right."""
        holder = self.outline.parent[lay.part]
        return col - self.outline.column(self.outline.body(holder)) if self.outline.is_block(holder) else 0

    def tail(self, node: Node, col: int) -> str:
        tail = self.plan.tail(node)
        if tail is None:
            return ""
        start, end = tail.span
        if start == self.at and not tail.extra and not self.tidy and tail.col == col:
            self.at = end
            return self.text[start:end]
        moved = 0 if self.tidy or tail.col < 0 else col - tail.col
        lines = [(col if at < 0 or self.tidy else max(at + moved, 0), text) for at, text in tail.lines]
        lines += [(col, text) for text in tail.extra]
        lines = collapse_blanks(lines) if self.tidy else lines
        if self.ending:
            lines = self.behind_scalar(lines, col, self.ending)
        if lines:
            self.at, self.ending = -1, ""
        elif end > start:
            self.at = -1
        return "".join(self.nl + (" " * at + text if text else "") for at, text in lines)

    # -- entries and items

    def copy(self, lay: PartLayout, col: int) -> str:
        self.ends_with(lay.value)
        moved = self.column_shift(lay, col)
        self.at = -1 if moved else lay.stop
        return shift(self.text[lay.start : lay.stop], moved)

    def entry(self, entry: MapEntry, col: int, note: PartComments) -> str:
        if self.can_copy(entry, note.lay) and note.lay:
            return self.copy(note.lay, col)
        self.foreign += entry.merged
        key = self.key(entry.key, flow=False)
        if len(key) > 1000:
            key = f"? {key}{self.nl}{' ' * col}"
        joint = self.joint(entry, note.lay)
        left = col + len(key) + len(joint)
        value = self.value(entry.value, col, left=left)
        self.foreign -= entry.merged
        return key + self.beside(value, note, joint, col, entry.value)

    def item(self, node: Node, col: int, note: PartComments) -> str:
        if self.can_copy(node, note.lay) and note.lay:
            return self.copy(note.lay, col)
        value = self.value(node, col, left=col + 2, item=True)
        head = f" {value.head}" if value.head else ""
        stays = self.in_place(value, note.lay, node, item=True) or self.starts_below(node, note.lay)
        if value.block and not head and not stays and value.col > col + 1:
            # `- ` and the first key stand in one line; comments go above it.
            lead = note.lay.lead if note.lay and not note.lay.handed else []
            side = [note.lay.side.text] if note.lay and note.lay.side else []
            self.stray = [text for _, text in (*lead, *value.above) if text] + side + self.stray
            gap = " " * (value.col - col - 1)
            return f"-{gap}{value.text}"
        joint = "-" + (" " if value.text and not value.block else "")
        return self.beside(value, note, joint, col, node)

    def starts_below(self, node: Node, lay: PartLayout | None) -> bool:
        """Whether the author left the dash of this item alone in its line, or with a comment."""
        if lay is None or lay.header:
            return lay is not None
        if self.tidy or self.outline.is_key(lay.part) or self.plan.owner.get(id(node)) != lay.value:
            return False
        return self.outline.line_start(self.outline.body(lay.value)) > lay.start

    def in_place(self, value: ValueText, lay: PartLayout | None, node: Node, *, item: bool) -> bool:
        """Whether a block collection still stands below its own key, in its old column."""
        if lay is None or self.tidy or self.foreign or self.plan.owner.get(id(node)) != lay.value:
            return False
        if self.outline.is_key(lay.part) == item or value.above != (drop_blanks(lay.lead) if lay.handed else []):
            return False
        return self.outline.is_block(lay.value) and self.outline.column(self.outline.body(lay.value)) == value.col

    def beside(self, value: ValueText, note: PartComments, joint: str, col: int, node: Node) -> str:
        """A value with what connects it to its key or dash and with the comment beside it."""
        lay = note.lay
        comments = [*lay.header, *([lay.side] if lay.side else [])] if lay else []
        if value.block:
            stays = lay and self.stays(lay, col) and not lay.is_explicit(self.outline)
            if lay and stays and self.in_place(value, lay, node, item=":" not in joint):
                behind = self.outline.end[lay.part] if ":" in joint else lay.start
                return self.text[behind : self.outline.body(lay.value)] + value.text
            lead = self.lead(lay, value, node)
            head = f" {value.head}" if value.head else ""
            self.stray = [comment.text for comment in comments[1:]] + self.stray
            side = self.side(comments[:1])
            # A tab behind a dash is no indentation.
            start = joint.rstrip() + head + (side if ":" in joint else side.replace("\t", " ")) + self.nl
            return start + self.lines([*lead, *value.above]) + " " * value.col + value.text
        old = self.old_joint(lay, col, item=":" not in joint) if value.text and not self.ending else ""
        if lay and old:
            return old + self.with_side(value.text, [lay.side] if lay.side else [], lay, col)
        if lay and not lay.handed:
            self.stray = [text for _, text in lay.lead if text] + self.stray
        self.stray = [comment.text for comment in comments[:-1]] + self.stray
        if not value.text:
            joint = joint.rstrip()
            if joint == "-" and comments:
                return joint + self.with_side("", comments[-1:], lay, col).replace("\t", " ")
        return joint + self.with_side(value.text, comments[-1:], lay, col)

    def old_joint(self, lay: PartLayout | None, col: int, *, item: bool) -> str:
        """What the author put between the key (or from the dash on) and the value, if it can stay."""
        outline = self.outline
        if lay is None or self.tidy or not self.stays(lay, col) or outline.is_key(lay.part) == item:
            return ""
        start = outline.start[lay.value]
        if lay.is_explicit(outline) or outline.is_block(lay.value) or start > outline.end[lay.value]:
            return ""
        if lay.header and lay.header[-1].start > start:
            return ""
        between = self.text[lay.start if item else outline.end[lay.part] : start]
        return between if between[-1:].isspace() else f"{between} "

    def with_side(self, text: str, comments: list[Comment], lay: PartLayout | None, col: int) -> str:
        if self.ending:
            # Nothing can stand behind a block scalar; its first line has room.
            self.at = lay.stop if lay and self.last == lay.value and self.stays(lay, col) else -1
            first, line_break, rest = text.partition(self.nl)
            if "#" in first:
                self.stray = [comment.text for comment in comments] + self.stray
                return text
            return first + self.side(comments) + line_break + rest
        self.at = lay.stop if lay and self.stays(lay, col) else -1
        if lay and not comments and self.at >= 0 and not self.tidy:
            rest = self.text[self.outline.end[lay.value] : lay.stop]
            return text + rest if rest.isspace() and not BREAK.search(rest) else text
        return text + self.side(comments)

    def lead(self, lay: PartLayout | None, value: ValueText, node: Node) -> list[Line]:
        if lay is None or lay.handed:
            return []
        if self.plan.owner.get(id(node)) != lay.value or self.tidy:
            return [(value.col, text) for _, text in lay.lead]
        moved = value.col - self.outline.column(self.outline.body(lay.value))
        return [(max(at + moved, 0), text) for at, text in lay.lead]

    # -- values

    def value(self, node: Node, col: int, *, left: int, item: bool = False) -> ValueText:
        """A value that stands in a block collection at `col`, its text beginning in column `left`."""
        if node.alias and id(node) not in self.plan.dirty:
            self.at, self.ending = -1, ""
            return ValueText(self.text[node.alias[0] : node.alias[1]])
        if isinstance(node, Scalar):
            self.foreign += node.alias is not None
            text = self.scalar(node, col, flow=False)
            self.foreign -= node.alias is not None
            return ValueText(text)
        copied = self.is_copied(node)
        self.foreign += copied
        value = self.collection(node, col, left, item=item)
        self.foreign -= copied
        return value

    def collection(self, node: MapNode | ListNode, col: int, left: int, *, item: bool) -> ValueText:
        inline = self.inline(node, col, left, item=item)
        if inline is not None:
            return inline
        below = self.child_column(node, col, item=item)
        value = ValueText("", block=True, col=below)
        value.head = self.head(node)
        at = self.plan.owner.get(id(node), -1)
        if self.is_raw(node) and self.outline.is_block(at):
            moved = below - self.outline.column(self.outline.body(at))
            stop = self.plan.lays[self.outline.part[at]].stop
            self.ends_with(at)
            self.at = -1 if moved else stop
            value.text = shift(self.text[self.outline.body(at) : stop], moved)
            return value
        self.at, self.ending = -1, ""
        value.above, value.text = self.block(node, below)
        return value

    def child_column(self, node: Node, col: int, *, item: bool) -> int:
        outline = self.outline
        at = self.plan.owner.get(id(node), -1)
        if at > 0 and outline.is_block(at) and not self.tidy:
            parent = outline.parent[at]
            if outline.is_block(parent) and (outline.kind[parent] == LIST) == item:
                return col + outline.column(outline.body(at)) - outline.column(outline.body(parent))
        if col < 0:
            return 0
        flush = isinstance(node, ListNode) and not item and self.outline.flush_lists and not self.tidy
        return col if flush else col + 2

    def inline(self, node: MapNode | ListNode, col: int, left: int, *, item: bool) -> ValueText | None:
        """The collection in one piece behind its key, if that is its style and if it can be."""
        if not self.plan.elements(node) and not self.is_raw(node):
            tail = self.plan.tail(node)
            if tail:
                self.stray += [text for _, text in tail.lines if text] + tail.extra
            self.at, self.ending = -1, ""
            return ValueText(self.join_head(self.head(node), "[]" if isinstance(node, ListNode) else "{}"))
        is_new = not node.flow and not self.is_block_style(node)
        if not (node.flow or is_new) or not self.can_flow(node):
            return None
        if is_new and (len(self.plan.elements(node)) > FLOW_CHILDREN or not self.of_scalars(node) or col < 0):
            return None
        mark, stray, self.home = self.plan.mark(), self.stray, max(col, 0)
        self.stray = list(stray)
        text = self.flow(node, col + 2 if item else max(col, 0))
        if (is_new and len(text) > FLOW_WIDTH) or not self.fits(node, text, left):
            self.plan.roll_back(mark)
            self.stray = stray
            return None
        self.at, self.ending = -1, ""
        return ValueText(text)

    def of_scalars(self, node: MapNode | ListNode) -> bool:
        values = [e.value if isinstance(e, MapEntry) else e for e in self.plan.elements(node)]
        return all(isinstance(value, Scalar) for value in values)

    def fits(self, node: Node, text: str, left: int) -> bool:
        if self.tidy:
            return True
        first, *others = BREAK.split(text)
        width = max([left + len(first), *map(len, others)])
        at = self.plan.owner.get(id(node), -1)
        return width <= WIDTH or (at >= 0 and width <= self.outline.width(at))
