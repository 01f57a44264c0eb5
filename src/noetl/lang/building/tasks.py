"""Nodes to pipelines: tasks in their three shapes, their rules, and the sugar that compiles into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl.expr import EvaluationPoint, LateValue
from noetl.lang.building.effective_spec import Layer, effective_spec
from noetl.lang.building.template_sites import SitePlace, Sites
from noetl.lang.grammar.document_shape import SUGAR, TASK_KEYS
from noetl.lang.grammar.value_types import is_labelled, is_template
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, plain_value
from noetl.model.diagnostics import Source, Span
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.playbook import Assignment, Directive, Policy, Rule, Task


class TaskBuilder:
    """Makes the ordered, named tasks of a step or a workbook entry."""

    def __init__(self, sites: Sites, kinds: Mapping[str, ToolKind], source: Source) -> None:
        self.sites = sites
        self.kinds = kinds
        self.source = source
        #: `executor.spec.policy.defaults.timeouts`, by kind
        self.timeouts: Mapping[str, Any] = {}

    def pipeline(self, node: Node, place: SitePlace, layers: list[Layer], owner: str) -> tuple[Task, ...]:
        """The tasks under `tool`: one map is one task, named after its owner; a list is a list of tasks."""
        if isinstance(node, MapNode):
            made = self.task(node, self.single_name(node, owner), place, layers, single=True)
            return (made,) if made is not None else ()
        if isinstance(node, ListNode):
            return tuple(self.items(node.items, place, layers, ""))
        return ()

    def hooks(self, node: Node | None, word: str, place: SitePlace, layers: list[Layer]) -> tuple[Task, ...]:
        """The tasks of `before`, `after` or `finally`; unnamed ones are named after the word."""
        return tuple(self.items(node.items, place, layers, "", word)) if isinstance(node, ListNode) else ()

    def single_name(self, node: MapNode, owner: str) -> str:
        named = node.get("name")
        kind = self.kind(plain_value(node.get("kind")))
        return named.text if isinstance(named, Scalar) and not (kind and kind.name_means) else owner

    def items(
        self, nodes: list[Node], place: SitePlace, layers: list[Layer], prefix: str, word: str = "task"
    ) -> list[Task]:
        made: list[Task] = []
        above = prefix if word == "task" else f"{prefix}{word}_"
        for position, node in enumerate(nodes, 1):
            if not isinstance(node, MapNode):
                continue
            sugar = next((entry for entry in node.entries if entry.name in SUGAR), None)
            if sugar is not None and "kind" not in node:
                named = node.get("name")
                label = named.text if isinstance(named, Scalar) else f"{above}{sugar.name}_{position}"
                made.extend(self.sugar(sugar.name, sugar.value, label, place, layers))
                continue
            if is_labelled(node):
                name, body = node.entries[0].name, node.entries[0].value
            else:
                named = node.get("name")
                name, body = named.text if isinstance(named, Scalar) else f"{prefix}{word}_{position}", node
            task = self.task(body, name, place, layers)
            if task is not None:
                made.append(task)
        return made

    def task(
        self, node: Node, name: str, place: SitePlace, layers: list[Layer], *, single: bool = False
    ) -> Task | None:
        if not isinstance(node, MapNode):
            return None
        kind_name = plain_value(node.get("kind"))
        kind = self.kind(kind_name)
        if kind is None:
            kind_name = str(kind_name or "")

        def at(boundary: EvaluationPoint) -> SitePlace:
            return SitePlace(boundary, place.step, name, place.in_loop, place.workbook)

        block = node.get("input")
        spec = node.get("spec")
        own: dict[str, Any] = {}
        if isinstance(spec, MapNode):
            own = {e.name: self.setting(e.value, at(EvaluationPoint.SPEC)) for e in spec.entries if e.name != "policy"}
        return Task(
            name=name,
            kind=kind.name if kind is not None else str(kind_name),
            at=self.source.span(node.place, max(node.place, node.end)),
            desc=_text(node.get("desc")),
            config=self.config(node, kind, at(EvaluationPoint.TASK_CONFIG), single=single),
            input=_with_late(self.sites.values(block, at(self.input_boundary(kind))), kind),
            auth=self.sites.value(node.get("auth"), at(EvaluationPoint.TASK_CONFIG)),
            auth_at=self.span(auth) if (auth := node.get("auth")) is not None else None,
            input_at={e.name: self.span(e.key) for e in block.entries} if isinstance(block, MapNode) else {},
            code_at=self.code_at(node, kind),
            output=self.sites.value(node.get("output"), at(EvaluationPoint.TASK_OUTPUT)),
            set=self.assignments(node.get("set"), at(EvaluationPoint.TASK_SET)),
            policy=self.policy(spec.get("policy") if isinstance(spec, MapNode) else None, at(EvaluationPoint.RULE)),
            spec=effective_spec([*self.outer_layers(kind, layers), ("task.spec", own)]),
        )

    def code_at(self, node: MapNode, kind: ToolKind | None) -> Span | None:
        code = node.get("code") if kind is not None and "code" in kind.literal else None
        return self.span(code) if isinstance(code, Scalar) and isinstance(code.value, str) else None

    def set_timeouts(self, timeouts: Mapping[str, Any]) -> None:
        """Take `executor.spec.policy.defaults.timeouts`, in which a kind may have any of its names."""
        self.timeouts = {(kind.name if (kind := self.kind(name)) else name): one for name, one in timeouts.items()}

    def input_boundary(self, kind: ToolKind | None) -> EvaluationPoint:
        # Where `input` configures the tool, its keys see what the same keys beside `kind` see.
        configures = kind is not None and kind.input is InputRole.CONFIGURES
        return EvaluationPoint.TASK_CONFIG if configures else EvaluationPoint.TASK_INPUT

    def kind(self, name: object) -> ToolKind | None:
        if not isinstance(name, str):
            return None
        try:
            return self.kinds[name]
        except KeyError:
            return None

    def outer_layers(self, kind: ToolKind | None, layers: list[Layer]) -> list[Layer]:
        """What a task inherits. Of the executor's two timeouts the one for its kind is the inner one."""
        if kind is None:
            return layers
        own: list[Layer] = [("kind default", kind.defaults)] if kind.defaults else []
        if kind.name not in self.timeouts:
            return [*own, *layers] if own else layers
        origin = f"executor.spec.policy.defaults.timeouts.{kind.name}"
        return [*own, layers[0], (origin, {"timeout": self.timeouts[kind.name]}), *layers[1:]]

    def config(self, node: MapNode, kind: ToolKind | None, place: SitePlace, *, single: bool) -> dict[str, Any]:
        """The kind's own keys."""
        config: dict[str, Any] = {}
        literal = kind.literal if kind is not None else frozenset[str]()
        for entry in node.entries:
            if entry.name in TASK_KEYS or (kind is not None and entry.name not in kind.keys):
                continue
            config[entry.name] = (
                plain_value(entry.value) if entry.name in literal else self.sites.value(entry.value, place)
            )
        if single and kind is not None and kind.name_means and "name" in node:
            config.setdefault(kind.name_means, plain_value(node.get("name")))
        made: dict[str, Any] = _with_late(config, kind)
        return made

    def setting(self, node: Node, place: SitePlace) -> Any:
        """A value of a spec: plain data in which templates are compiled."""
        if isinstance(node, MapNode):
            return {entry.name: self.setting(entry.value, place) for entry in node.entries}
        if isinstance(node, Scalar) and is_template(node.value):
            return self.sites.value(node, place)
        return plain_value(node)

    # --- policy ------------------------------------------------------------------------------------------------

    def policy(self, node: Node | None, place: SitePlace) -> Policy | None:
        if not isinstance(node, MapNode):
            return None
        rules = node.get("rules")
        items = rules.items if isinstance(rules, ListNode) else []
        made = [self.rule(item, place) for item in items if isinstance(item, MapNode)]
        return Policy(rules=tuple(made), on_unmatched=_text(node.get("on_unmatched")) or "continue")

    def rule(self, node: MapNode, place: SitePlace) -> Rule:
        otherwise = node.get("else")
        then = otherwise.get("then") if isinstance(otherwise, MapNode) else node.get("then")
        when = None if otherwise is not None else self.sites.condition(node.get("when"), place)
        then_at = self.span(then) if then is not None else None
        return Rule(when=when, then=self.directive(then, place), at=self.span(node), then_at=then_at)

    def directive(self, node: Node | None, place: SitePlace) -> Directive:
        if not isinstance(node, MapNode):
            return Directive()
        sites, to = self.sites, node.get("to")
        return Directive(
            do=_text(node.get("do")) or "continue",
            attempts=sites.number(node.get("attempts"), place, 3),
            backoff=_text(node.get("backoff")) or "fixed",
            delay=sites.number(node.get("delay"), place, 1.0),
            max_delay=sites.number(node.get("max_delay"), place, 300.0),
            jitter=plain_value(node.get("jitter")) is True,
            to=_text(to),
            to_at=self.span(to) if to is not None else None,
            message=sites.value(node.get("message"), place),
            set=self.assignments(node.get("set"), place),
        )

    def assignments(self, node: Node | None, place: SitePlace) -> tuple[Assignment, ...]:
        """A `set`, flat: `ctx: {a: 1}` is `ctx.a: 1`."""
        made: list[Assignment] = []
        for entry in node.entries if isinstance(node, MapNode) else []:
            scope, _, rest = entry.name.partition(".")
            if not rest and isinstance(entry.value, MapNode):
                made.extend(
                    Assignment(scope, tuple(e.name.split(".")), self.sites.value(e.value, place), self.span(e.key))
                    for e in entry.value.entries
                )
            else:
                path = tuple(rest.split(".")) if rest else ()
                made.append(Assignment(scope, path, self.sites.value(entry.value, place), self.span(entry.key)))
        return tuple(made)

    # --- sugar -------------------------------------------------------------------------------------------------

    def sugar(self, word: str, node: Node, label: str, place: SitePlace, layers: list[Layer]) -> list[Task]:
        """choose, while and until as labelled tasks with one merge point behind them."""
        end = f"{label}_end"
        if word == "choose" and isinstance(node, ListNode):
            return self.choose(node, label, end, place, layers)
        if not isinstance(node, MapNode):
            return []
        body_node = node.get("do")
        body = self.items(body_node.items if isinstance(body_node, ListNode) else [], place, layers, f"{label}_")
        rule_place = replace(place, boundary=EvaluationPoint.RULE)
        when = self.sites.condition(node.get("when"), rule_place)
        at = self.span(node)
        if word == "while":
            check = [Rule(when, Directive(do="continue"), at), Rule(None, Directive(do="jump", to=end), at)]
            again = [Rule(None, Directive(do="jump", to=label), at)]
            return [_silent(label, at, check), *body, _silent(f"{label}_next", at, again), _silent(end, at, [])]
        first = body[0].name if body else end
        check = [Rule(when, Directive(do="continue"), at), Rule(None, Directive(do="jump", to=first), at)]
        return [*body, _silent(f"{label}_check", at, check), _silent(end, at, [])]

    def choose(self, node: ListNode, label: str, end: str, place: SitePlace, layers: list[Layer]) -> list[Task]:
        rules: list[Rule] = []
        bodies: list[Task] = []
        at = self.span(node)
        rule_place = replace(place, boundary=EvaluationPoint.RULE)
        for position, branch in enumerate(node.items, 1):
            if not isinstance(branch, MapNode):
                continue
            otherwise = branch.get("else")
            tasks_node = otherwise if otherwise is not None else branch.get("then")
            items = tasks_node.items if isinstance(tasks_node, ListNode) else []
            body = self.items(items, place, layers, f"{label}_{position}_")
            to = body[0].name if body else end
            when = None if otherwise is not None else self.sites.condition(branch.get("when"), rule_place)
            rules.append(Rule(when, Directive(do="jump", to=to), self.span(branch)))
            leave = [Rule(None, Directive(do="jump", to=end), at)]
            bodies += [*body, _silent(f"{label}_{position}_end", at, leave)] if body else []
        if not rules or rules[-1].when is not None:
            rules.append(Rule(None, Directive(do="jump", to=end), at))
        return [_silent(label, at, rules), *bodies, _silent(end, at, [])]

    def span(self, node: Node) -> Any:
        return self.source.span(node.place, max(node.place, node.end))


def _with_late(values: Any, kind: ToolKind | None) -> Any:
    """A map of compiled values, of which the kind itself fills in some."""
    if kind is None or not kind.late or not isinstance(values, dict):
        return values
    return {name: LateValue(one.tree, kind.sql) if name in kind.late else one for name, one in values.items()}


def _silent(name: str, at: Any, rules: list[Rule]) -> Task:
    return Task(name=name, kind="noop", at=at, policy=Policy(tuple(rules)) if rules else None, silent=True)


def _text(node: Node | None) -> str | None:
    return node.text if isinstance(node, Scalar) and node.value is not None else None
