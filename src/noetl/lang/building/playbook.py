"""Nodes to the typed playbook: the document, its steps, admission, loops and arcs.

Building is forgiving: what does not have the right shape has been reported already and is left out, so that the
checks that follow still see the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl.expr import EvaluationPoint
from noetl.lang.building.effective_spec import OWN_TO_A_SCOPE, Layer, effective_spec
from noetl.lang.building.tasks import TaskBuilder
from noetl.lang.building.template_sites import SitePlace, Sites, literal
from noetl.lang.reading.node import ListNode, MapNode, Node, Scalar, map_of, plain_value, text_of
from noetl.model.diagnostics import Source
from noetl.model.kinds import ToolKind
from noetl.model.net import Incoming, Net
from noetl.model.playbook import (
    COMPENSATION,
    Admission,
    AdmitRule,
    Arc,
    Assignment,
    Credential,
    FailureWebhook,
    Join,
    Loop,
    Playbook,
    Router,
    Step,
    Synthesis,
    Task,
)

# The typed playbook to its net: steps by name, the start, and who leads to whom.


def compile_net(playbook: Playbook) -> Net:
    """Index a playbook. It must have a step; arcs to steps that do not exist are left out of `incoming`."""
    steps: dict[str, Step] = {}
    for step in playbook.steps:
        steps.setdefault(step.name, step)
    incoming: dict[str, list[Incoming]] = {name: [] for name in steps}
    for step in steps.values():
        for arc in step.router.arcs:
            if arc.step in incoming:
                incoming[arc.step].append(Incoming(step.name, arc))
    # The step that runs last is never the first, unless there is no other, which the checks report.
    first = next((step.name for step in playbook.steps if step.name != playbook.final_step), playbook.steps[0].name)
    return Net(
        playbook=playbook,
        start="start" if "start" in steps else first,
        steps=steps,
        incoming={name: tuple(arcs) for name, arcs in incoming.items()},
    )


def build(root: MapNode, kinds: Mapping[str, ToolKind], source: Source) -> tuple[Playbook, Sites]:
    """The playbook a document describes, and every template in it."""
    builder = _PlaybookBuilder(kinds, source)
    return builder.playbook(root), builder.sites


class _PlaybookBuilder:
    def __init__(self, kinds: Mapping[str, ToolKind], source: Source) -> None:
        self.source = source
        self.sites = Sites()
        self.tasks = TaskBuilder(self.sites, kinds, source)

    def playbook(self, root: MapNode) -> Playbook:
        metadata = literal(root.get("metadata"))
        name = str(metadata.get("name") or "")
        executor = map_of(root, "executor")
        executor_spec = map_of(executor, "spec")
        self.executor_spec = self.spec(executor_spec, SitePlace(EvaluationPoint.SPEC))
        defaults = at_path(literal(executor_spec), "policy", "defaults", "timeouts")
        self.tasks.set_timeouts(defaults if isinstance(defaults, Mapping) else {})
        workflow = root.get("workflow")
        items = workflow.items if isinstance(workflow, ListNode) else []
        return Playbook(
            name=name,
            path=str(metadata.get("path") or name),
            steps=tuple(step for item in items if (step := self.step(item)) is not None),
            metadata=metadata,
            keychain=tuple(self.credentials(root.get("keychain"))),
            executor=literal(executor),
            workload=literal(root.get("workload")),
            workbook=self.workbook(root.get("workbook")),
            on_failure=self.notice(map_of(map_of(root, "metadata"), "on_failure")),
            final_step_at=self.at(final) if (final := self.final_step(executor_spec)) is not None else None,
            reads_args=self.sites.reads("args"),
        )

    def final_step(self, executor_spec: MapNode | None) -> Node | None:
        found = map_of(map_of(executor_spec, "policy"), "finally")
        return found.get("step") if found is not None else None

    def notice(self, node: MapNode | None) -> FailureWebhook | None:
        place = SitePlace(EvaluationPoint.NOTICE)
        webhook = self.sites.value(node.get("webhook"), place) if node is not None else None
        if node is None or webhook is None:
            return None
        return FailureWebhook(webhook, self.sites.value(node.get("headers"), place))

    def credentials(self, node: Node | None) -> list[Credential]:
        place = SitePlace(EvaluationPoint.KEYCHAIN)
        made = []
        for item in node.items if isinstance(node, ListNode) else []:
            if not isinstance(item, MapNode):
                continue
            settings = {
                e.name: self.sites.value(e.value, place) for e in item if e.name not in ("name", "kind", "from")
            }
            settings["from"] = plain_value(item.get("from"))
            made.append(Credential(text_of(item, "name"), text_of(item, "kind"), settings, self.at(item)))
        return made

    def workbook(self, node: Node | None) -> dict[str, tuple[Task, ...]]:
        if not isinstance(node, MapNode):
            return {}
        layers: list[Layer] = [("executor.spec", self.executor_spec)]
        return {
            entry.name: self.tasks.pipeline(
                entry.value, SitePlace(EvaluationPoint.TASK_INPUT, workbook=True), layers, entry.name
            )
            for entry in node.entries
        }

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self, node: Node) -> Step | None:
        if not isinstance(node, MapNode) or not isinstance(node.get("step"), Scalar):
            return None
        name = text_of(node, "step")
        loop_node = map_of(node, "loop")
        place = SitePlace(EvaluationPoint.STEP_INPUT, step=name, in_loop=loop_node is not None)
        spec_node = map_of(node, "spec")
        spec = self.spec(spec_node, replace(place, boundary=EvaluationPoint.SPEC))
        # A schema is of the boundary at which it stands: those of a step are not for each of its tasks.
        inherited = {key: value for key, value in spec.items() if key != "validate"}
        above = {key: value for key, value in self.executor_spec.items() if key != "validate"}
        layers: list[Layer] = [("executor.spec", self.executor_spec), ("step.spec", inherited)]
        around = loop_node
        while around is not None:
            layers.append(
                ("loop.spec", self.spec(map_of(around, "spec"), replace(place, boundary=EvaluationPoint.SPEC)))
            )
            around = map_of(around, "loop")
        policy = map_of(spec_node, "policy")
        lifecycle = map_of(policy, "lifecycle")
        failure = map_of(policy, "failure")
        outside = SitePlace(EvaluationPoint.SPEC, step=name)
        tool = node.get("tool")
        around_body = self.hooks(policy, replace(place, in_loop=False), layers[:2])
        undo = policy.get("compensation") if policy is not None else None
        compensation = self.tasks.pipeline(undo, place, layers, COMPENSATION) if isinstance(undo, MapNode) else ()
        return Step(
            name=name,
            at=self.at(node.get("step") or node),
            desc=text_of(node, "desc") or None,
            input=self.sites.values(node.get("input"), place),
            admission=self.admission(map_of(policy, "admit"), SitePlace(EvaluationPoint.ADMIT, step=name)),
            timeout=self.sites.number(lifecycle.get("timeout_s") if lifecycle else None, outside),
            deadline=self.sites.number(lifecycle.get("deadline_s") if lifecycle else None, outside),
            failure_mode=text_of(failure, "mode") or "fail_fast",
            max_jumps=whole_number(policy, "max_jumps", 100_000),
            loop=self.loop(loop_node, name),
            tasks=self.tasks.pipeline(tool, place, layers, name) if tool is not None else (),
            before=around_body["before"],
            after=around_body["after"],
            cleanup=around_body["finally"],
            compensation=compensation[0] if compensation else None,
            output=self.sites.value(node.get("output"), replace(place, boundary=EvaluationPoint.STEP_OUTPUT)),
            set=self.assignments(node.get("set"), SitePlace(EvaluationPoint.STEP_SET, step=name)),
            router=self.router(node.get("next"), name),
            spec=effective_spec([("executor.spec", above), ("step.spec", spec)]),
        )

    def hooks(self, policy: MapNode | None, place: SitePlace, layers: list[Layer]) -> dict[str, tuple[Task, ...]]:
        """The tasks around a step's body. They run once per step run, so those of a loop see no iteration."""
        words = ("before", "after", "finally")
        return {word: self.tasks.hooks(policy.get(word) if policy else None, word, place, layers) for word in words}

    def spec(self, node: MapNode | None, place: SitePlace) -> dict[str, Any]:
        """A spec as data whose templates are compiled; policies are built elsewhere."""
        if node is None:
            return {}
        return {e.name: self.tasks.setting(e.value, place) for e in node.entries if e.name not in OWN_TO_A_SCOPE}

    def admission(self, node: MapNode | None, place: SitePlace) -> Admission:
        if node is None:
            return Admission()
        rules_node = node.get("rules")
        rules = None
        if isinstance(rules_node, ListNode):
            rules = tuple(rule for item in rules_node if (rule := self.admit_rule(item, place)) is not None)
        return Admission(rules=rules, fire=text_of(node, "fire") or "each", join=self.join(map_of(node, "join"), place))

    def admit_rule(self, node: Node, place: SitePlace) -> AdmitRule | None:
        if not isinstance(node, MapNode):
            return None
        otherwise = map_of(node, "else")
        then = map_of(otherwise if otherwise is not None else node, "then")
        allow = plain_value(then.get("allow")) if then is not None else None
        when = None if otherwise is not None else self.sites.condition(node.get("when"), place)
        return AdmitRule(when=when, allow=allow is True, at=self.at(node))

    def join(self, node: MapNode | None, place: SitePlace) -> Join | None:
        if node is None:
            return None
        source = node.get("from")
        places: dict[str, Any] = {}
        if isinstance(source, ListNode):
            places = {item.text: 1 for item in source.items if isinstance(item, Scalar)}
        elif isinstance(source, MapNode):
            places = {entry.name: self.sites.number(entry.value, place, 1) for entry in source.entries}
        need = plain_value(node.get("need"))
        return Join(
            places=places,
            need=need if isinstance(need, int) else None,
            rest=text_of(node, "rest") or "keep",
            at=self.at(source if source is not None else node),
        )

    def loop(self, node: MapNode | None, step: str, depth: int = 0) -> Loop | None:
        if node is None:
            return None
        spec = map_of(node, "spec")
        policy = map_of(spec, "policy")
        # The items of an inner loop may speak of the iteration around it.
        outside = SitePlace(EvaluationPoint.LOOP_IN, step=step, in_loop=depth > 0)
        inside = SitePlace(EvaluationPoint.LOOP_UNTIL, step=step, in_loop=True)
        limit = first_value(spec, policy, "max_in_flight")
        reduce = plain_value(policy.get("reduce")) if policy is not None else None
        items = node.get("in")
        return Loop(
            items=self.sites.value(items, outside),
            items_at=self.at(items) if items is not None else None,
            iterator=text_of(node, "iterator"),
            at=self.at(node),
            mode=text_of(spec, "mode") or text_of(policy, "mode") or "sequential",
            max_in_flight=self.sites.number(limit, replace(outside, boundary=EvaluationPoint.SPEC), 16),
            until=self.sites.condition(spec.get("until") if spec else None, inside),
            complete_when=self.sites.condition(
                spec.get("complete_when") if spec else None, replace(inside, boundary=EvaluationPoint.LOOP_COMPLETE)
            ),
            complete_rest=text_of(spec, "complete_rest") or "cancel",
            exec=text_of(policy, "exec") or None,
            reduce=reduce if isinstance(reduce, dict) else {},
            inner=self.loop(map_of(node, "loop"), step, depth + 1),
        )

    # --- routing -----------------------------------------------------------------------------------------------

    def router(self, node: Node | None, step: str) -> Router:
        if not isinstance(node, MapNode):
            return Router()
        spec = map_of(node, "spec")
        arcs = node.get("arcs")
        items = arcs.items if isinstance(arcs, ListNode) else []
        wish = map_of(spec, "synthesize")
        synthesize = None
        if wish is not None:
            kinds = plain_value(wish.get("allow_kinds"))
            synthesize = Synthesis(
                plan=self.sites.value(wish.get("from"), SitePlace(EvaluationPoint.SYNTHESIZE, step=step)),
                max_steps=whole_number(wish, "max_steps", 20),
                allow_kinds=tuple(map(str, kinds)) if isinstance(kinds, list) else None,
            )
        return Router(
            mode=text_of(spec, "mode") or "exclusive",
            arcs=tuple(self.arc(item, step) for item in items if isinstance(item, MapNode)),
            synthesize=synthesize,
            on_no_match=text_of(spec, "on_no_match") or None,
        )

    def arc(self, node: MapNode, step: str) -> Arc:
        cancel = node.get("cancel")
        place = SitePlace(EvaluationPoint.ARC_SET, step=step)
        target = node.get("step")
        return Arc(
            step=target.text if isinstance(target, Scalar) and target.value is not None else None,
            at=self.at(target if target is not None else node),
            when=self.sites.condition(node.get("when"), SitePlace(EvaluationPoint.ARC_WHEN, step=step)),
            set=self.assignments(node.get("set"), place),
            cancel=tuple(n.text for n in cancel.items if isinstance(n, Scalar)) if isinstance(cancel, ListNode) else (),
            cancel_at=self.at(cancel) if cancel is not None else None,
            terminate=text_of(node, "terminate") or None,
            args=self.sites.value(node.get("args"), place),
        )

    def assignments(self, node: Node | None, place: SitePlace) -> tuple[Assignment, ...]:
        return self.tasks.assignments(node, place)

    def at(self, node: Node) -> Any:
        return self.source.span(node.place, max(node.place, node.alias[1] if node.alias else node.end))


# --- looking into nodes ----------------------------------------------------------------------------------------


def whole_number(node: MapNode | None, name: str, default: int) -> int:
    """The whole number under a key, or the default."""
    found = plain_value(node.get(name)) if node is not None else None
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def first_value(one: MapNode | None, other: MapNode | None, name: str) -> Node | None:
    """What the first of two maps says under a key, or the other."""
    found = one.get(name) if one is not None else None
    return found if found is not None or other is None else other.get(name)


def at_path(data: Any, *path: str) -> Any:
    """What lies at a path of nested maps, or None."""
    for part in path:
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
