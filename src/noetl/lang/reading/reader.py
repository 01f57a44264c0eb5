"""YAML text to nodes: YAML 1.2 core scalars, a place for every node, and limits that hold.

PyYAML's C parser makes the events; what they mean is decided here, so that no input costs more than the limits
allow and every refusal has its line and column.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from noetl.lang.reading.node import PLAIN, ListNode, MapEntry, MapNode, Node, NodeBase, Scalar, copy
from noetl.lang.reading.yaml_mistakes import report_syntax_error, template_slip
from noetl.model.diagnostics import Diagnostics
from noetl.model.nearest import nearest

MAX_BYTES = 8_000_000
MAX_DEPTH = 64
#: of a whole number; far fewer than those from which on Python refuses to convert it
_MOST_DIGITS = 3_000
MAX_LINES = 500_000
#: a value takes at most 280 bytes while a file is read, and about 450 in a playbook that is compiled
MAX_NODES = 1_500_000
MAX_ALIAS_NODES = 100_000

_SPLIT = "split it into playbooks that call each other with `kind: playbook`"
#: names that one without an anchor is compared with
_MOST_ANCHORS = 1_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Any] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_CAN_MEAN_MORE = frozenset("0123456789+-.~nNtTfF")


class _Stop(Exception):
    """The rest cannot be read; the reason is among the diagnostics."""


def decode_text(data: bytes, problems: Diagnostics) -> str | None:
    """Bytes of a file to text, or None with a diagnostic."""
    if len(data) > MAX_BYTES:
        problems.error("yaml-syntax", f"the file has more than {MAX_BYTES:,} bytes", (0, 0),
                       fix=_SPLIT)  # fmt: skip
        return None
    if data.count(b"\n") > MAX_LINES:
        problems.error("yaml-syntax", f"the file has more than {MAX_LINES:,} lines", (0, 0),
                       fix=_SPLIT)  # fmt: skip
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.source.text = data.decode("utf-8", "replace")
        at = len(data[: error.start].decode("utf-8"))
        problems.error("yaml-syntax", f"line {line} is not UTF-8 text (byte 0x{data[error.start]:02x})", (at, at + 1),
                       fix="save the file in the encoding UTF-8")  # fmt: skip
        return None


def read_yaml(text: str, problems: Diagnostics) -> Node | None:
    """Text to its root node; None when nothing can be made of it, with the reason among the problems."""
    if len(text) > MAX_BYTES:
        problems.error("yaml-syntax", f"the text has more than {MAX_BYTES:,} characters", (0, 0), fix=_SPLIT)
        return None
    if (nul := text.find("\0")) >= 0:
        problems.error("yaml-syntax", "there is a NUL character here", (nul, nul + 1), fix="remove it")
        return None
    try:
        return _Composer(text, problems).compose()
    except _Stop:
        return None
    except yaml.YAMLError as error:
        report_syntax_error(text, error, problems)
    except UnicodeEncodeError as error:
        problems.error("yaml-syntax", "there is a character here that no text may hold", (error.start, error.end),
                       fix="remove it")  # fmt: skip
    return None


class _OpenCollection:
    """A collection whose end has not come yet."""

    __slots__ = ("entries", "key", "node", "positions")

    def __init__(self, node: MapNode | ListNode) -> None:
        self.node = node
        self.key: Scalar | None = None
        #: of a map, its entries and where each key stands among them
        self.entries: list[MapEntry] | None = node.entries if isinstance(node, MapNode) else None
        self.positions: dict[str, int] = {}


class _Composer:
    """Builds the tree from the parser's events."""

    def __init__(self, text: str, problems: Diagnostics) -> None:
        self.text = text
        self.problems = problems
        self.root: Node | None = None
        self.stack: list[_OpenCollection] = []
        #: the innermost of the open collections
        self.inner: _OpenCollection | None = None
        #: where the text of the last value ended
        self.last_end = 0
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.open_anchors: dict[int, tuple[str, int]] = {}
        self.count = 0
        self.alias_count = 0
        self.documents = 0

    def compose(self) -> Node | None:
        handlers = {
            yaml.MappingStartEvent: self.on_map,
            yaml.SequenceStartEvent: self.on_list,
            yaml.MappingEndEvent: self.on_end,
            yaml.SequenceEndEvent: self.on_end,
            yaml.AliasEvent: self.on_alias,
            yaml.DocumentStartEvent: self.on_document,
        }
        loader = _LOADER(self.text)
        try:
            next_event, scalar_event, resolve = loader.get_event, yaml.ScalarEvent, self.resolve
            while (event := next_event()) is not None:
                kind = type(event)
                if kind is not scalar_event:
                    if kind in handlers:
                        handlers[kind](event)
                    continue
                # A scalar, by far the commonest event: what `add` does for a map is done here, without further calls.
                start, end, text, style = (
                    event.start_mark.index,
                    event.end_mark.index,
                    event.value,
                    event.style or PLAIN,
                )
                may_mean_more = style == PLAIN and (not text or text[0] in _CAN_MEAN_MORE)
                node = Scalar(resolve(text, start, end) if may_mean_more else text, text, style, start, end)
                inner = self.inner
                if inner is None or inner.entries is None or event.tag is not None or event.anchor is not None:
                    self.on_scalar(event, node)
                elif (key := inner.key) is None:
                    inner.key = node
                    self.count += 1
                elif (name := key.text) in inner.positions or name == "<<" or self.count >= MAX_NODES:
                    self.on_scalar(event, node)
                else:
                    inner.key = None
                    inner.positions[name] = len(inner.entries)
                    inner.entries.append(MapEntry(key, node))
                    self.count += 1
                    self.last_end = end
        finally:
            loader.dispose()
        return self.root

    def stop(self, message: str, at: tuple[int, int], fix: str | None = None) -> _Stop:
        self.problems.error("yaml-syntax", message, at, fix=fix)
        return _Stop()

    def on_document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            at = event.start_mark.index
            raise self.stop("a second document starts here", (at, at + 3), "one file holds one playbook")

    def on_scalar(self, event: Any, node: Scalar) -> None:
        """A scalar that is more than a key or a value of a map."""
        if event.tag is not None:
            self.refuse_tag(event.tag, node.start, node.end)
        if event.anchor is not None:
            self.add_anchor(event.anchor, node, self.count)
        self.last_end = node.end
        self.add(node)

    def resolve(self, text: str, start: int, end: int) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            digits = text.lower()
            if len(digits) > _MOST_DIGITS:
                self.problems.error("wrong-value", f"this number has more than {_MOST_DIGITS:,} digits", (start, end),
                                    fix="write it in quotes to keep it as text")  # fmt: skip
                return text
            return int(digits, 0) if digits.startswith(("0x", "0o")) else int(digits)
        if _FLOAT.fullmatch(text):
            value = float(text)
            if math.isfinite(value):
                return value
        elif not _NOT_FINITE.fullmatch(text):
            return text
        self.problems.error("wrong-value", f"{text} is not a number that data can carry", (start, end),
                            fix="write it in quotes to keep it as text")  # fmt: skip
        return text

    def refuse_tag(self, tag: str, start: int, end: int) -> None:
        self.problems.error("yaml-syntax", f"the YAML tag {tag} has no meaning in a playbook", (start, end),
                            fix="remove it; put text in quotes")  # fmt: skip

    def on_map(self, event: Any) -> None:
        self.open(MapNode([], event.start_mark.index, event.end_mark.index, flow=bool(event.flow_style)), event)

    def on_list(self, event: Any) -> None:
        self.open(ListNode([], event.start_mark.index, event.end_mark.index, flow=bool(event.flow_style)), event)

    def open(self, node: MapNode | ListNode, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep"
            raise self.stop(message, (node.start, node.start + 1), "take the inner part out, and name it")
        if event.tag is not None:
            self.refuse_tag(event.tag, node.start, node.end)
        if event.anchor is not None:
            self.open_anchors[id(node)] = (event.anchor, self.count)
            node.anchor = event.anchor
        self.inner = _OpenCollection(node)
        self.stack.append(self.inner)

    def on_end(self, event: Any) -> None:
        node = self.stack.pop().node
        self.inner = self.stack[-1] if self.stack else None
        # A block collection ends for YAML where the next thing starts; its own text ends with its last value.
        if node.flow:
            self.last_end = event.end_mark.index
        node.end = max(node.end, self.last_end)
        if node.anchor is not None:
            name, count_before = self.open_anchors.pop(id(node))
            self.add_anchor(name, node, count_before)
        self.add(node)

    def add_anchor(self, name: str, node: Node, count_before: int) -> None:
        node.anchor = name
        self.anchors[name] = (node, self.count - count_before + 1)

    def on_alias(self, event: Any) -> None:
        at = (event.start_mark.index, event.end_mark.index)
        name = event.anchor
        if any(name == open_name for open_name, _ in self.open_anchors.values()):
            raise self.stop(f"*{name} stands inside of what it stands for", at, "an alias cannot contain itself")
        if name not in self.anchors:
            near = nearest(name, list(self.anchors)[:_MOST_ANCHORS])
            fix = f"did you mean *{near}?" if near else f"put &{name} before the value that is meant, above this line"
            raise self.stop(f"nothing above is anchored as &{name}", at, fix)
        node, size = self.anchors[name]
        self.alias_count += size
        self.count += size - 1
        if self.alias_count > MAX_ALIAS_NODES:
            message = f"the aliases up to here stand for more than {MAX_ALIAS_NODES:,} values"
            raise self.stop(message, at, "put what is shared into the workbook, or into a playbook of its own")
        self.last_end = at[1]
        self.add(copy(node, alias=at))

    def add(self, node: Node) -> None:
        """Put a finished node where it belongs: into the open collection, or at the root."""
        self.count += 1
        if self.count > MAX_NODES:
            raise self.stop(f"the file holds more than {MAX_NODES:,} values", (node.start, node.start + 1), _SPLIT)
        inner = self.inner
        if inner is None:
            self.root = node
        elif isinstance(inner.node, ListNode):
            inner.node.items.append(node)
        elif inner.key is None:
            inner.key = self.as_key(node)
        else:
            key, inner.key = inner.key, None
            self.add_entry(inner.node, inner.positions, key, node)

    def as_key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        if node.flow and self.text.startswith("{{", max(0, node.start - 1)):
            raise self.template_error(node.start - 1)
        at = (node.start, node.start + 1)
        raise self.stop(
            "a key must be text, not a list or a map", at, "write text before the `:`; put templates in quotes"
        )

    def template_error(self, start: int) -> _Stop:
        line_end = self.text.find("\n", start)
        rest = self.text[start : line_end if line_end >= 0 else len(self.text)].split(" #")[0].rstrip()
        slip = template_slip(rest, start)
        self.problems.error("yaml-syntax", slip.message, (slip.start, slip.end), fix=slip.fix, edits=slip.edits)
        return _Stop()

    def add_entry(self, parent: MapNode, positions: dict[str, int], key: Scalar, value: Node) -> None:
        if key.style == PLAIN and key.text == "<<":
            if parent.merge is not None:
                self.problems.error("duplicate-key", "`<<` is already given in this map", (key.start, key.end),
                                    fix="write one `<<` with a list: `<<: [*a, *b]`")  # fmt: skip
            parent.merge = MapEntry(key, value)
            self.merge(parent, positions, value)
            return
        at = positions.setdefault(key.text, len(parent.entries))
        if at == len(parent.entries):
            parent.entries.append(MapEntry(key, value))
            return
        if not parent.entries[at].merged:
            line, _ = self.problems.source.place(parent.entries[at].key.start)
            self.problems.error("duplicate-key", f"`{key.text}` is already given on line {line}",
                                (key.start, key.end), fix="keep one of the two")  # fmt: skip
        parent.entries[at] = MapEntry(key, value)

    def merge(self, parent: MapNode, positions: dict[str, int], value: Node) -> None:
        """`<<`: what the merged maps say holds where this map says nothing; the first of several wins."""
        for source in value.items if isinstance(value, ListNode) else [value]:
            if not isinstance(source, MapNode):
                self.problems.error("yaml-syntax", "`<<` merges a map or a list of maps", _at(source),
                                    fix="write `<<: *name`, where `&name` stands before a map")  # fmt: skip
                continue
            for entry in source.entries:
                at = positions.setdefault(entry.key.text, len(parent.entries))
                if at == len(parent.entries):
                    parent.entries.append(MapEntry(entry.key, copy(entry.value, alias=entry.value.alias), merged=True))


def _at(node: NodeBase) -> tuple[int, int]:
    return node.alias or (node.start, node.end)
