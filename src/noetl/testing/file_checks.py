"""Names in a test file that must exist in its playbook: steps, tasks, kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.lang import ListNode, MapEntry, MapNode, Node, Scalar, all_tasks, list_of, map_of, span
from noetl.model.diagnostics import Diagnostic, Diagnostics
from noetl.model.nearest import nearest
from noetl.model.net import Net
from noetl.testing.test_file import Suite


def check_names(suite: Suite, net: Net, kinds: Iterable[str]) -> tuple[Diagnostic, ...]:
    """What a test file names and its playbook does not have."""
    assert suite.root is not None
    check = _Check(net, kinds, Diagnostics(suite.source))
    cases = [case for case in _items(suite.root, "tests") if isinstance(case, MapNode)]
    for node in (suite.root, *cases):
        check.contradictions(node)
    if any(step.router.synthesize is not None for step in net.steps.values()):
        return check.problems.collect()  # steps and tasks may come up that nobody has written down
    check.settings(suite.root)
    for case in cases:
        check.case(case)
    return check.problems.collect()


class _Check:
    def __init__(self, net: Net, kinds: Iterable[str], problems: Diagnostics) -> None:
        self.problems = problems
        self.steps = dict.fromkeys(net.steps)
        self.kinds = list(kinds)
        self.tasks: dict[str, None] = {}
        #: what tasks may be called → which they are, by their most exact names
        self.called: dict[str, set[str]] = {}
        #: calls of the workbook → what they call
        self.workbook_calls: dict[str, str] = {}
        for step, task in all_tasks(net.playbook):
            self.tasks[task.name] = None
            exact = f"{step.name}.{task.name}" if step is not None else task.name
            for name in (exact, task.name):
                self.called.setdefault(name, set()).add(exact)
            if step is not None:
                self.tasks[f"{step.name}.{task.name}"] = None
            if step is not None and task.kind == "workbook":
                self.workbook_calls |= dict.fromkeys((task.name, f"{step.name}.{task.name}"), str(task.config["task"]))

    def settings(self, node: MapNode) -> None:
        for entry in _entries(node, "mocks"):
            self.task(entry.key, entry.name)
        for item in _items(node, "real"):
            if isinstance(item, Scalar):
                self.task(item, item.text, self.kinds)

    def contradictions(self, node: MapNode) -> None:
        """Tasks that have a mock and run for real, both by the same word; a kind is said of those without a mock."""
        mocked = {frozenset(self.called.get(entry.name, {entry.name})): entry.name for entry in _entries(node, "mocks")}
        for item in _items(node, "real"):
            if not isinstance(item, Scalar) or item.text in self.kinds:
                continue
            name = mocked.get(frozenset(self.called.get(item.text, {item.text})))
            if name is not None:
                also = f", there called `{name}`" if name != item.text else ""
                message = f"`{item.text}` is to run for real, and has a mock{also}: it can only do one"
                fix = "remove it from `real`, or its mock from `mocks`"
                self.problems.error("wrong-value", message, span(item), fix=fix)

    def case(self, node: MapNode) -> None:
        self.settings(node)
        for item in _items(node, "signals"):
            after = item.get("after") if isinstance(item, MapNode) else None
            if isinstance(after, Scalar):
                self.step(after, after.text)
        expect = map_of(node, "expect")
        if expect is not None:
            self.expectations(expect)

    def expectations(self, expect: MapNode) -> None:
        for entry in _entries(expect, "calls"):
            self.task(entry.key, entry.name)
            called = self.workbook_calls.get(entry.name)
            if called is not None:
                message = f"`{entry.name}` calls the workbook, and is not told of itself"
                fix = f"write the name of the workbook's task: `{called}`"
                self.problems.error("wrong-value", message, span(entry.key), fix=fix)
        for key in ("steps", "arcs"):
            for entry in _entries(expect, key):
                self.step(entry.key, entry.name)
        for key in ("route", "stalled", "unmatched"):
            for item in _items(expect, key):
                for one in item.items if isinstance(item, ListNode) else (item,):
                    if isinstance(one, Scalar):
                        self.step(one, one.text)

    def task(self, at: Scalar, name: str, more: Iterable[str] = ()) -> None:
        # Of a playbook that is called nobody knows the names before it is.
        if name in self.tasks or name in more or ":" in name:
            return
        # A task of a workbook may be named behind its call, as the log does.
        if name.partition(".")[0] in self.steps and name.rpartition(".")[2] in self.tasks:
            return
        self.unknown("unknown-task", "task", at, name, [*self.tasks, *more])

    def step(self, at: Scalar, name: str) -> None:
        if name not in self.steps:
            self.unknown("unknown-step", "step", at, name, list(self.steps))

    def unknown(self, code: str, what: str, at: Scalar, name: str, known: list[str]) -> None:
        meant = nearest(name, known)
        fix = f"did you mean `{meant}`?" if meant else f"it has: {', '.join(known[:20])}"
        self.problems.error(code, f"the playbook has no {what} `{name}`", span(at), fix=fix)


def _entries(node: MapNode, key: str) -> Iterator[MapEntry]:
    found = map_of(node, key)
    yield from found.entries if found is not None else ()


def _items(node: MapNode, key: str) -> Iterator[Node]:
    found = list_of(node, key)
    yield from found.items if found is not None else ()
