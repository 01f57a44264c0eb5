"""What is said about a value that does not have its shape: messages, places and ways out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.lang.invariants import span
from noetl.lang.mistakes import slip_of
from noetl.lang.node import Base, Entry, ListNode, MapNode, Node, Scalar
from noetl.lang.sorts import in_seconds, kind_of_value, meant_value, way_out
from noetl.lang.strays import Strays, home_of, indenting, label_without_task, strays
from noetl.model.diagnostics import Diagnostics, Edit
from noetl.model.kinds import ToolKind
from noetl.model.nearest import Hints, alike
from noetl.model.shape import Record

_MANY = 200


class Complaints:
    """Reports for the check of shapes; each knows the usual slips behind it."""

    def __init__(self, problems: Diagnostics, kinds: Mapping[str, ToolKind], root: Record) -> None:
        self.problems = problems
        self.kinds = kinds
        self.root = root
        self.unknown = 0
        self.hints = Hints()
        #: unknown keys of which it has been told where they belong
        self.strayed: set[int] = set()

    def unknown_key(self, entry: Entry, node: MapNode, shape: Record) -> str:
        """Report a key that a map does not know; returns the one that was probably meant, or an empty text."""
        if id(entry) in self.strayed or (shape is self.root and entry.name.startswith("x-")):
            return ""
        special = (
            _SPECIAL.get((shape.title, entry.name)) or _ANYWHERE.get(entry.name)
            if "spec" in shape.title
            else (_SPECIAL.get((shape.title, entry.name)))
        )
        if special is not None:
            code, message, fix = special
            self.problems.error(code, message, span(entry.key), fix=fix)
            return ""
        if "policy" in shape.title and self.control_inside(entry.value):
            return ""
        message = f"{shape.title} has no key `{entry.name}`"
        self.unknown += 1
        if self.unknown >= _MANY:
            # Whoever has hundreds of unknown keys did not misspell them, and looking for each would take long.
            self.problems.error("unknown-key", message, span(entry.key), fix="remove it")
            return ""
        if (slip := slip_of(entry.key, self.problems.source.text)) is not None:
            fix = f"{slip.message}: {slip.fix}"
            self.problems.error("unknown-key", message, (slip.start, slip.end), fix=fix, edits=slip.edits)
            return entry.name.partition(":")[0].strip("\u00a0 -")
        known = [name for name, key in shape.keys.items() if not key.hidden]
        meant = self.hints.nearest(entry.name, known)
        there = node.entry(meant) if meant else None
        if there is not None:
            line, _ = self.problems.source.place(there.key.place)
            fix = f"did you mean `{meant}`? It is already there on line {line}: keep one of the two"
        else:
            fix = f"did you mean `{meant}`?" if meant else self.unlike_any(entry, node, shape, known)
        edits = self.replacing(entry.key, meant) if there is None else ()
        self.problems.error("unknown-key", message, span(entry.key), fix=fix, edits=edits)
        return meant or alike(entry.name, known) or ""

    def unlike_any(self, entry: Entry, node: MapNode, shape: Record, known: list[str]) -> str:
        """What to do about a key that is no slip of the finger."""
        home = home_of(entry, node, shape, self.kinds)
        if home is not None:
            return f"it belongs under `{home}`: indent it further"
        if label_without_task(entry, node):
            return f"write `name: {entry.name}`, or indent the lines below `{entry.name}:` further"
        meant = alike(entry.name, known)
        if meant is not None:
            return f"did you mean `{meant}`?"
        return f"it takes: {', '.join(known)}" if known else "remove it"

    def is_empty(self, entry: Entry, node: MapNode, shape: Record) -> bool:
        """Report a key without a value, if what belongs under it stands beside it, or if it needs one."""
        found = strays(entry, node, shape, self.kinds)
        if found is not None:
            self.left_outside(found, node)
        elif shape.keys[entry.name].required:
            self.says_nothing(entry, shape.title, shape.keys[entry.name].doc)
        else:
            return False
        return True

    def left_outside(self, found: Strays, node: MapNode) -> None:
        """Report keys that stand beside an empty one and belong under it."""
        home = found.home.name
        self.strayed.update(map(id, found.entries))
        names = [f"`{one.name}`" for one in found.entries]
        verb, them = ("stands", "it") if len(names) == 1 else ("stand", "them")
        self.problems.error(
            "unknown-key",
            f"{', '.join(names)} {verb} beside `{home}`, which is empty",
            span(found.entries[0].key),
            fix=f"put {them} under `{home}`: indent {them} by two more spaces",
            edits=indenting(found, node, self.problems.source.text),
        )

    def check_reserved(self, entry: Entry) -> None:
        """What is accepted without effect, unless somebody counts on an effect."""
        writes = entry.value.entry("set") if isinstance(entry.value, MapNode) and entry.name == "spec" else None
        if writes is not None:
            code, message, fix = _ANYWHERE["set"]
            self.problems.error(code, message, span(writes.key), fix=fix)
        elif not self.control_inside(entry.value):
            message = f"`{entry.name}` is accepted without effect"
            self.problems.warning("reserved", message, span(entry.key), fix="remove it")

    def control_inside(self, node: Node) -> bool:
        """Report control words in a policy that is not a task's; true if there was one."""
        found = False
        if isinstance(node, MapNode):
            for entry in node.entries:
                if entry.name == "do":
                    self.control_outside_task(entry)
                    found = True
                else:
                    found |= self.control_inside(entry.value)
        elif isinstance(node, ListNode):
            for item in node.items:
                found |= self.control_inside(item)
        return found

    def control_outside_task(self, entry: Entry) -> None:
        self.problems.error(
            "control-outside-task",
            f"`do: {entry.value.text if isinstance(entry.value, Scalar) else '…'}` steers tasks; it has no meaning here",
            span(entry.key),
            fix="move the rule to `spec.policy.rules` of a task",
        )

    def says_nothing(self, entry: Entry, title: str, doc: str) -> None:
        """A required key without a value is as good as missing."""
        message = f"{title} needs a value for `{entry.name}`{_hint(doc)}"
        self.problems.error("missing-key", message, span(entry.key), fix=f"write it behind `{entry.name}:`")

    def missing(self, node: MapNode, key: str, title: str, doc: str, *, warn: bool = False) -> None:
        quoted = key if key.startswith("`") else f"`{key}`"
        hint = _hint(doc)
        end = node.entries[0].key.end if node.entries else node.start + 1
        at = node.alias or (node.start, max(node.start, end))
        tell = self.problems.warning if warn else self.problems.error
        tell("missing-key", f"{title} needs {quoted}{hint}", at, fix=f"add {quoted}")

    def wrong_type(self, node: Node, name: str, wanted: str) -> None:
        what = kind_of_value(node)
        if wanted == "a whole number" and what == "a number" and isinstance(node, Scalar):
            what = node.text
        message = f"{name} must be {wanted}, not {what}"
        slip = slip_of(node, self.problems.source.text) if wanted != "text" else None
        if slip is not None:
            at, fix = (slip.start, slip.end), f"{slip.message}: {slip.fix}"
            self.problems.error("wrong-type", message, at, fix=fix, edits=slip.edits)
            return
        seconds = in_seconds(node, name, wanted)
        meant = meant_value(node, wanted) or seconds
        edits = [Edit(node.start, node.end, meant)] if meant and not node.alias and not node.changed else ()
        fix = f"write {meant}" if meant else way_out(node, wanted)
        fix = f"write seconds, a number: {seconds}" if seconds else fix
        self.problems.error("wrong-type", message, span(node), fix=fix, edits=edits)

    def replacing(self, node: Scalar | Base, text: str | None) -> Iterable[Edit]:
        """The edit that puts another word in the place of a plain one."""
        if text is None or node.alias or not isinstance(node, Scalar):
            return ()
        return [Edit(node.start, node.end, text)] if node.style == "" and not node.changed else ()

    def glued(self, node: MapNode, key: str) -> bool:
        """Report `{kind:python}`, a key without a value; true if it is there."""
        for entry in node.entries:
            slip = slip_of(entry.key, self.problems.source.text) if entry.name.startswith(f"{key}:") else None
            if slip is not None:
                self.problems.error("missing-key", slip.message, (slip.start, slip.end), fix=slip.fix, edits=slip.edits)
                return True
        return False


def _hint(doc: str) -> str:
    return f" ({doc.rstrip('.')[0].lower()}{doc.rstrip('.')[1:]})" if doc else ""


_MOVE_SET = "`set` stands beside `tool`, on a task, in `then` or on an arc"
_ANYWHERE = {"set": ("set-under-spec", "`set` cannot stand under `spec`", _MOVE_SET)}
_SPECIAL = {
    ("an arc", "input"): (
        "arc-payload",
        "an arc carries no `input`",
        "write the values with the arc's `set` into `ctx.*` and read them in the next step's `input`",
    ),
    ("`then`", "do"): (
        "control-outside-task",
        "`do` steers tasks; admission knows only `allow`",
        "move the rule to `spec.policy.rules` of a task",
    ),
}
