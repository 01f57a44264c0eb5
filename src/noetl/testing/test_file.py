"""A test file read as a suite of cases, with every problem of the file reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from noetl.expr import FUNCTIONS, EvaluationPoint
from noetl.lang import (
    ListNode,
    MapNode,
    Node,
    Scalar,
    SitePlace,
    Sites,
    Subject,
    check_shape,
    check_site,
    decode_text,
    is_template,
    list_of,
    map_of,
    plain_value,
    read_yaml,
    span,
    text_of,
    walk_nodes,
)
from noetl.model.diagnostics import Diagnostic, Diagnostics, Source, Span, TooManyErrors
from noetl.model.playbook import Playbook
from noetl.model.scope import merge_maps
from noetl.testing.file_grammar import COUNTED, NAMED, TEST_FILE
from noetl.testing.mocks import Mock

#: how test files are called
ENDINGS = (".test.yaml", ".test.yml")
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
LIMIT = 60.0
_EVERYWHERE = frozenset({"workload", "ctx", "execution_id", "now", "uuid"})
#: what templates of mocks see
MOCK_NAMES = _EVERYWHERE | {
    "step",
    "steps",
    "iter",
    "input",
    "output",
    "call",
    "_prev",
    "_task",
    "_attempt",
    "task_key",
}
#: what expectations see
EXPECT_NAMES = frozenset({"it", "workload", "ctx", "output", "execution_id"})


class SignalSpec(msgspec.Struct, frozen=True):
    """A signal that a case sends."""

    name: str
    data: Any
    span: Span
    at: float | None = None
    after: str | None = None


class TaskSettings(msgspec.Struct, frozen=True):
    """What a case says of tasks by itself, or the file for all of its cases."""

    mocks: Mapping[str, Mock] = {}
    real: frozenset[str] = frozenset()


class TaskMode(msgspec.Struct, frozen=True):
    """What becomes of a task: it yields what its mock says, or else runs for real."""

    #: what the case or the file calls it, where it has a mock
    name: str = ""
    mock: Mock | None = None


class Case(msgspec.Struct, frozen=True):
    """One case of a test file."""

    name: str
    span: Span
    payload: dict[str, Any]
    #: the case's own before the file's
    tasks: tuple[TaskSettings, ...]
    signals: tuple[SignalSpec, ...]
    now: float
    limit: float
    #: what is expected, as nodes: they know their places
    expect: MapNode | None
    #: None: it runs; else why it does not
    skip: str | None = None
    payload_at: Span | None = None

    def find_mode(self, kind: str, names: Sequence[str]) -> TaskMode | None:
        """What is said of a task that goes by these names, the most exact first; None: nothing. Its kind says least of all."""
        for said in self.tasks:
            for name in names:
                if name in said.mocks:
                    return TaskMode(name, said.mocks[name])
                if name in said.real:
                    return TaskMode()
            if kind in said.real:
                return TaskMode()
        return None


class Suite(msgspec.Struct, frozen=True):
    """A test file."""

    file: Path
    source: Source
    diagnostics: tuple[Diagnostic, ...]
    #: the playbook's file, None where the test file does not even say that much
    playbook: Path | None
    cases: tuple[Case, ...] = ()
    legacy: bool = False
    root: MapNode | None = None


def load_suite(data: bytes, file: Path, name: str) -> Suite:
    """A test file and all that is wrong with it by itself; whether its names exist is for the playbook to say."""
    problems = Diagnostics(Source("", name), stops=True)
    text = decode_text(data, problems)
    if text is None:
        return Suite(file, problems.source, problems.collect(), None)
    problems.source.text = text
    try:
        root = read_yaml(text, problems)
        if isinstance(root, MapNode):
            check_shape(root, TEST_FILE, NAMED, problems)
            return _SuiteBuilder(root, problems).suite(file)
        if not problems.has_errors:
            fix = "write `playbook:` and `tests:`"
            problems.error("wrong-type", "a test file is a map with `playbook` and `tests`", (0, 0), fix=fix)
    except TooManyErrors:
        pass
    return Suite(file, problems.source, problems.collect(), None)


class _SuiteBuilder:
    def __init__(self, root: MapNode, problems: Diagnostics) -> None:
        self.root = root
        self.problems = problems
        self.mock_sites, self.expect_sites = Sites(), Sites()

    def suite(self, file: Path) -> Suite:
        common = self.settings(self.root)
        tests = list_of(self.root, "tests")
        found: dict[str, Case] = {}
        for node in tests.items if tests is not None else ():
            if isinstance(node, MapNode):
                case = self.case(node, common)
                if case.name in found:
                    at = span(node.get("name") or node)
                    message = f"two cases are called `{case.name}`"
                    self.problems.error("duplicate-key", message, at, fix="give each a name of its own")
                found[case.name] = case
        self.check_templates()
        named = text_of(self.root, "playbook") or _same_name(file)
        return Suite(
            file,
            self.problems.source,
            self.problems.collect(),
            file.parent / named,
            tuple(found.values()) if not self.problems.has_errors else (),
            plain_value(self.root.get("legacy")) is True,
            self.root,
        )

    def settings(self, node: MapNode) -> dict[str, Any]:
        """What a file says for all of its cases, or a case for itself; only what it says."""
        mocks, real = map_of(node, "mocks"), list_of(node, "real")
        tasks = TaskSettings(
            {entry.name: self.mock(entry.value) for entry in mocks or ()},
            frozenset(item.text for item in real or () if isinstance(item, Scalar)),
        )
        made: dict[str, Any] = {"tasks": tasks}
        payload = plain_value(node.get("payload"))
        if isinstance(payload, dict):
            made |= {"payload": payload, "payload_at": self.at(node.get("payload"))}
        if "now" in node:
            made["now"] = self.moment(node.get("now"))
        limit = plain_value(node.get("limit"))
        if isinstance(limit, int | float):
            made["limit"] = float(limit)
        return made

    def case(self, node: MapNode, common: Mapping[str, Any]) -> Case:
        own = self.settings(node)
        expect = map_of(node, "expect")
        if expect is not None:
            for found in walk_nodes(expect):
                if isinstance(found, Scalar) and is_template(found.value):
                    self.expect_sites.text(found, SitePlace(EvaluationPoint.SPEC))
        return Case(
            name=text_of(node, "name"),
            span=self.at(node.get("name") or node),
            payload=merge_maps(common.get("payload", {}), own.get("payload", {})),
            tasks=(own["tasks"], common["tasks"]),
            signals=self.signals(list_of(node, "signals")),
            now=own.get("now", common.get("now", NOW)),
            limit=own.get("limit", common.get("limit", LIMIT)),
            expect=expect,
            skip=text_of(node, "skip") or None,
            payload_at=own.get("payload_at", common.get("payload_at")),
        )

    def signals(self, node: ListNode | None) -> tuple[SignalSpec, ...]:
        made = []
        for item in node.items if node is not None else ():
            if not isinstance(item, MapNode):
                continue
            at, after = plain_value(item.get("at")), plain_value(item.get("after"))
            if at is not None and after is not None:
                where = span(item.get("after") or item)
                self.problems.error("wrong-value", "`at` and `after` exclude each other", where, fix="keep one")
            name = item.get("name") or item
            at = float(at) if isinstance(at, int | float) else None
            made.append(SignalSpec(text_of(item, "name"), plain_value(item.get("data")), self.at(name), at, after))
        return tuple(made)

    def moment(self, node: Node | None) -> float:
        text = plain_value(node)
        try:
            found = datetime.fromisoformat(str(text))
        except ValueError:
            if node is not None:
                message, fix = f"`now` is `{text}`, which is no time", "write it as 2026-01-31T12:00:00Z"
                self.problems.error("wrong-value", message, span(node), fix=fix)
            return NOW
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    # --- mocks -------------------------------------------------------------------------------------------------------

    def mock(self, node: Node) -> Mock:
        if isinstance(node, ListNode):
            return Mock(self.at(node), counted="calls", parts=tuple(map(self.mock, node.items)))
        if not isinstance(node, MapNode):
            return Mock(self.at(node))
        ways = [entry for entry in node if entry.name in (*COUNTED, "choose")]
        others = [entry for entry in node if entry not in ways]
        for entry in [*ways[1:], *(others if ways else ())]:
            message = f"`{ways[0].name}` says all of it: `{entry.name}` cannot stand beside it"
            fix = f"move it into the items of `{ways[0].name}`"
            self.problems.error("wrong-value", message, span(entry.key), fix=fix)
        if not ways:
            return self.read_fixed(node)
        if ways[0].name == "choose":
            return Mock(self.at(node), choose=self.branches(ways[0].value))
        items = ways[0].value.items if isinstance(ways[0].value, ListNode) else []
        return Mock(self.at(node), counted=ways[0].name, parts=tuple(map(self.mock, items)))

    def read_fixed(self, node: MapNode) -> Mock:
        if not node.entries:
            fix = "write `data`, `error` or one of the other keys; `{data: null}` yields nothing"
            self.problems.error("missing-key", "a mock says what the task yields", span(node), fix=fix)
        if "data" in node and "error" in node:
            at = span(node.entry("error").key)  # type: ignore[union-attr]  # it is there
            self.problems.error("wrong-value", "a task yields `data` or an `error`, not both", at, fix="keep one")
        place = SitePlace(EvaluationPoint.SPEC)
        return Mock(self.at(node), {entry.name: self.mock_sites.value(entry.value, place) for entry in node})

    def branches(self, node: Node) -> tuple[tuple[Any, Mock], ...]:
        made: list[tuple[Any, Mock]] = []
        items = node.items if isinstance(node, ListNode) else []
        for item in items:
            if not isinstance(item, MapNode):
                continue
            otherwise, then = item.get("else"), item.get("then")
            if otherwise is not None:
                if item is not items[-1] or "when" in item or then is not None:
                    message = "`else` closes the list, and stands alone"
                    self.problems.error("else-not-last", message, span(otherwise), fix="make it the last branch")
                made.append((None, self.mock(otherwise)))
            elif then is None or "when" not in item:
                fix = "write `when` and `then`, or `else`"
                self.problems.error("missing-key", "a branch has `when` and `then`, or `else`", span(item), fix=fix)
            else:
                when = self.mock_sites.condition(item.get("when"), SitePlace(EvaluationPoint.SPEC))
                made.append((when, self.mock(then)))
        return tuple(made)

    def check_templates(self) -> None:
        nothing = Playbook(name="", path="", steps=())
        for sites, names in ((self.mock_sites, MOCK_NAMES), (self.expect_sites, EXPECT_NAMES)):
            subject = Subject(self.root, nothing, sites, {}, self.problems)
            for site in sites.all:
                check_site(subject, site, names | FUNCTIONS)

    def at(self, node: Node | None) -> Span:
        return self.problems.source.span(*span(node if node is not None else self.root))


def _same_name(file: Path) -> str:
    for ending in ENDINGS:
        if file.name.endswith(ending):
            return file.name.removesuffix(ending) + ".yaml"
    return file.name
