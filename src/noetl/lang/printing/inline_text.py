"""What stands in one piece, as YAML text: scalars, keys and flow collections, new or copied."""

from __future__ import annotations

from noetl.lang.printing.comments import PartLayout, shift
from noetl.lang.printing.copy_plan import PartComments, PrintPlan
from noetl.lang.printing.outline import BLOCK_SCALAR, BREAK, Comment, Outline
from noetl.lang.printing.plain_yaml import NO_FLOW_PLAIN, key_text, scalar_text, wants_lines
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar

#: an element of a collection with what is printed around it
Noted = tuple[MapEntry | Node, PartComments]
#: a flow collection of several lines is written in one where it has no comments and is no longer than this
FILLED_WIDTH = 80


class InlinePrinter:
    """Prints what stands in one piece: scalars, keys, flow collections."""

    def __init__(self, outline: Outline, plan: PrintPlan, *, tidy: bool) -> None:
        self.outline, self.plan, self.tidy = outline, plan, tidy
        self.text = outline.text
        found = BREAK.search(self.text)
        self.nl = found[0] if found and found[0] in ("\r\n", "\r") and not tidy else "\n"
        self.at = -1
        #: how the text printed so far ends: with a block scalar, with one that keeps blank lines, or otherwise
        self.ending = ""
        #: comments to print above the current line
        self.stray: list[str] = []
        #: how many copies without a place of their own (aliases, merged entries) are being printed
        self.foreign = 0
        #: what was copied last
        self.last = -1
        #: copies of a block scalar with which the file ends, without a line break: how many, and where it ends
        self.open_count = self.open_end = 0
        #: the column of the block collection around the flow collection that is being printed
        self.home = 0

    def can_copy(self, element: MapEntry | Node, lay: PartLayout | None, *, flow: bool = False) -> bool:
        """Whether a part can be copied from the source, with all that surrounds it."""
        if lay is None or self.tidy or self.foreign or self.outline.is_block(self.outline.parent[lay.part]) == flow:
            return False
        value = element.value if isinstance(element, MapEntry) else element
        if isinstance(element, MapEntry) != self.outline.is_key(lay.part):
            return False
        key = element.key if isinstance(element, MapEntry) else None
        if key and (key.changed or id(key) in self.plan.dirty or self.plan.where(key) != lay.part):
            return False
        owned = value.alias is not None or id(value) in self.plan.owner
        return owned and id(value) not in self.plan.dirty and self.plan.where(value) == lay.value

    def ends_with(self, value: int) -> None:
        """Remember what the copy of a value ends with."""
        outline = self.outline
        leaf = outline.after(value) - 1
        self.ending, self.last = "", value
        if outline.kind[leaf] == BLOCK_SCALAR:
            self.ending = "keep" if outline.keeps(leaf) else "block"
            if outline.end[leaf] == len(self.text) and outline.is_open(leaf):
                self.open_end = outline.end[leaf]
                self.open_count += 1

    def side(self, comments: list[Comment]) -> str:
        if self.tidy:
            return "".join((c.gap if len(c.gap) > 2 and "\t" not in c.gap else "  ") + c.text for c in comments)
        return "".join((c.gap or " ") + self.text[c.start : c.end] for c in comments)

    def joint(self, entry: MapEntry, lay: PartLayout | None) -> str:
        usual = " : " if entry.key.alias else ": "
        if lay is None or self.tidy or not self.outline.is_key(lay.part):
            return usual
        between = self.text[self.outline.end[lay.part] : self.outline.start[lay.value]]
        if "#" in between or BREAK.search(between) or ":" not in between:
            return usual
        return between if between[-1:] in (" ", "\t") else f"{between} "

    def key(self, key: Scalar, *, flow: bool) -> str:
        if key.alias and id(key) not in self.plan.dirty:
            return self.text[key.alias[0] : key.alias[1]]
        at = -1 if key.changed or key.alias else self.outline.find(key)
        if at >= 0 and self.outline.kind[at] != BLOCK_SCALAR:
            raw = self.join_head(self.head(key), self.text[self.outline.content(at) : self.outline.end[at]])
            if raw and not BREAK.search(raw) and (key.style or not flow or not NO_FLOW_PLAIN.search(raw)):
                return raw
        return key_text(key.value, key.text, key.style, flow=flow)

    def is_copied(self, node: Node) -> bool:
        """Whether a node is a copy of what stands elsewhere, comments and all."""
        return node.alias is not None or (id(node) not in self.plan.dirty and id(node) not in self.plan.owner)

    def head(self, node: Node) -> str:
        """The anchor of a node, and its tag if it is as it was."""
        at = -1 if self.foreign or node.changed else self.outline.find(node)
        words = self.outline.properties(at) if at >= 0 else [f"&{node.anchor}"]
        return " ".join(word for word in words if word[0] == "!" or id(node) in self.plan.anchored)

    def is_raw(self, node: Node) -> bool:
        """Whether a collection is copied from the source."""
        return id(node) in self.plan.owner and id(node) not in self.plan.dirty

    def join_head(self, head: str, text: str) -> str:
        return f"{head} {text}" if head and text else head or text

    def is_block_style(self, node: MapNode | ListNode) -> bool:
        """Whether the author wrote this collection in block style."""
        if node.flow:
            return False
        if self.foreign or id(node) not in self.plan.dirty:
            return self.outline.find(node) >= 0
        return id(node) in self.plan.owner

    def can_flow(self, node: Node) -> bool:
        """Whether a node can stand in a flow collection."""
        if node.alias and id(node) not in self.plan.dirty:
            return True
        if isinstance(node, Scalar):
            at = -1 if node.changed else self.outline.find(node)
            return not wants_lines(node.value, node.style) if at < 0 else self.outline.kind[at] != BLOCK_SCALAR
        elements = self.plan.elements(node)
        if not elements:
            return True
        if self.is_block_style(node):
            return False
        at = self.plan.owner.get(id(node), -1)
        if self.is_raw(node):
            return True
        free = at >= 0 and self.outline.is_multiline(at)
        return all(self.element_flows(element, free=free) for element in elements)

    def element_flows(self, element: MapEntry | Node, *, free: bool) -> bool:
        note = self.plan.notes.get(id(element))
        if note and not free and note.any():
            return False
        if isinstance(element, MapEntry):
            return not element.todo and self.can_flow(element.value)
        return self.can_flow(element)

    def flow(self, node: Node, col: int) -> str:
        """The text of a node inside of a flow collection; `col` is where a line of its own begins."""
        if node.alias and id(node) not in self.plan.dirty:
            return self.text[node.alias[0] : node.alias[1]]
        if isinstance(node, Scalar):
            self.foreign += node.alias is not None
            text = self.scalar(node, self.home, flow=True)
            self.foreign -= node.alias is not None
            return text
        at = self.plan.owner.get(id(node), -1)
        if self.is_raw(node):
            text = shift(self.text[self.outline.body(at) : self.outline.end[at]], self.home - self.outline.home(at))
            # `a: b` in a list is a map without its braces.
            return self.join_head(self.head(node), text if self.outline.is_bracketed(at) else f"{{{text}}}")
        copied = self.is_copied(node)
        self.foreign += copied
        text = self.join_head(self.head(node), self.flow_text(node, at, col))
        self.foreign -= copied
        return text

    def flow_text(self, node: MapNode | ListNode, at: int, col: int) -> str:
        elements: list[Noted] = [(element, self.plan.note(element)) for element in self.plan.elements(node)]
        tail = self.plan.tail(node)
        left_over = [text for _, text in tail.lines if text] + tail.extra if tail else []
        remarks = left_over or any(note.any() for _, note in elements)
        if at >= 0 and elements and not self.tidy and self.keeps_gaps(at, elements, remarks=bool(remarks)):
            return self.flow_with_gaps(at, elements, col)
        brackets = "[]" if isinstance(node, ListNode) else "{}"
        if at >= 0 and elements and self.outline.is_multiline(at):
            mark, stray = self.plan.mark(), list(self.stray)
            filled = self.tidy and not remarks and self.outline.is_filled(at)
            text = self.in_a_row(elements, col, brackets) if filled else "\n"
            if "\n" not in text and col + len(text) <= FILLED_WIDTH:
                return text
            self.plan.roll_back(mark)
            self.stray = stray
            return self.spread(elements, left_over, col, brackets)
        self.stray += left_over
        return self.in_a_row(elements, col, brackets)

    def in_a_row(self, elements: list[Noted], col: int, brackets: str) -> str:
        inside = ", ".join(self.flow_element(element, note, col, exact=False) for element, note in elements)
        return brackets[0] + inside + brackets[1]

    def keeps_gaps(self, at: int, elements: list[Noted], *, remarks: bool) -> bool:
        """Whether what the author put between the elements can stay."""
        outline = self.outline
        parts = list(outline.children(at))
        moved_in = any(note.extra or note.inner or note.below for _, note in elements)
        if not parts or not outline.is_bracketed(at) or moved_in:
            return False
        lays = [self.plan.lays[part] for part in parts]
        if any(lay.header and lay.header[-1].start > outline.start[lay.value] for lay in lays):
            return False
        if [note.lay.part if note.lay else -1 for _, note in elements] == parts:
            return True
        return not remarks and not any(lay.comments() for lay in lays)

    def flow_with_gaps(self, at: int, elements: list[Noted], col: int) -> str:
        """The elements with the commas, blanks and line breaks that the author put between them."""
        outline = self.outline
        lays = [self.plan.lays[part] for part in outline.children(at)]
        moved = self.home - outline.home(at)
        usual = self.text[lays[1].gap : lays[1].start] if len(lays) > 1 else ", "
        out = [self.text[outline.body(at)]]
        for n, (element, note) in enumerate(elements):
            lay = note.lay if note.lay and outline.parent[note.lay.part] == at else None
            if n == 0:
                gap = self.text[lays[0].gap : lays[0].start]
            else:
                gap = usual if lay is None or lay is lays[0] else self.text[lay.gap : lay.start]
            out += [shift(gap, moved), self.flow_element(element, note, col, exact=lay is not None)]
        out.append(shift(self.text[outline.end[lays[-1].value] : outline.end[at]], moved))
        return "".join(out)

    def spread(self, elements: list[Noted], left_over: list[str], col: int, brackets: str) -> str:
        """One element a line, between brackets that have their lines for themselves."""
        pad = self.nl + " " * (col + 2)
        out = []
        for n, (element, note) in enumerate(elements):
            text = self.flow_element(element, note, col + 2, exact=False)
            lay = note.lay
            side = [lay.side] if lay and lay.side else []
            header = [comment.text for comment in lay.header] if lay else []
            above = [*note.extra, *(line for _, line in (lay.above if lay else []) if line), *note.inner, *header]
            out += [pad + line for line in above]
            out.append(pad + text + ("," if n < len(elements) - 1 else "") + self.side(side))
            out += [pad + line for line in note.below]
        out += [pad + line for line in left_over]
        return brackets[0] + "".join(out) + self.nl + " " * col + brackets[1]

    def flow_element(self, element: MapEntry | Node, note: PartComments, col: int, *, exact: bool) -> str:
        lay = note.lay
        if exact and lay and self.can_copy(element, lay, flow=True):
            return shift(self.text[lay.start : self.outline.end[lay.value]], self.home - self.outline.home(lay.part))
        if not isinstance(element, MapEntry):
            text = self.flow(element, col)
            at = self.plan.owner.get(id(element), -1)
            lone = exact and at >= 0 and isinstance(element, MapNode) and not self.outline.is_bracketed(at)
            return text[1:-1] if lone and len(self.plan.elements(element)) == 1 else text
        self.foreign += element.merged
        key = self.key(element.key, flow=True)
        value = self.flow(element.value, col)
        self.foreign -= element.merged
        joint = self.joint(element, lay)
        if len(key) > 1000:
            key = f"? {key}"
        if exact and lay and lay.header:
            joint = self.text[self.outline.end[lay.part] : self.outline.start[lay.value]]
        left_out = value == "null" and not element.value.changed and not element.value.alias
        if exact and lay and left_out and self.plan.where(element.value) == lay.value:
            return key + self.text[self.outline.end[lay.part] : self.outline.end[lay.value]]
        return key + joint + value

    def scalar(self, node: Scalar, col: int, *, flow: bool) -> str:
        outline = self.outline
        self.at, self.ending, self.last = -1, "", -1
        at = -1 if node.changed else outline.find(node)
        if at < 0 or (flow and not self.flow_copy(node, at)):
            return self.new_scalar(node, col, flow=flow)
        if outline.end[at] == outline.content(at) and flow:
            return self.join_head(self.head(node), "null")
        self.ends_with(at)
        start = outline.content(at)
        text = self.text[start : outline.stop(at)]
        if id(node) not in self.plan.owner and (comment := outline.header_comment(at)):
            text = text.replace(comment[0].gap + comment[0].text, "", 1)
        least = col + 1 if outline.kind[at] != BLOCK_SCALAR else 0
        return self.join_head(self.head(node), shift(text, max(col, 0) - outline.home(at), least=least))

    def flow_copy(self, node: Scalar, at: int) -> bool:
        """Whether a scalar can be copied into a flow collection as it is."""
        parent = self.outline.parent[at]
        in_flow = parent >= 0 and not self.outline.is_block(parent)
        text = self.text[self.outline.content(at) : self.outline.end[at]]
        return in_flow or bool(node.style) or not NO_FLOW_PLAIN.search(text)

    def new_scalar(self, node: Scalar, col: int, *, flow: bool) -> str:
        text = scalar_text(node.value, node.style, col=col, flow=flow, nl=self.nl)
        if text[:1] == "|":
            self.ending = "keep" if "+" in text.split(self.nl, 1)[0] else "block"
        return self.join_head(self.head(node), text)
