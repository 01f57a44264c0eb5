"""Where tokens go: `next` lists and words, `next_mode`, `case`, step `when`, what arcs write."""

from __future__ import annotations

import re

from noetl.lang.legacy.lowered_document import Lowering, ensure_map, task_items, writes_of
from noetl.lang.legacy.workflow.retries import retry_rule
from noetl.lang.legacy.workflow.rules_and_writes import lower_bare_targets, writes
from noetl.lang.legacy.workflow.task_keys import add_rule
from noetl.lang.reading.node import (
    ListNode,
    MapEntry,
    MapNode,
    Node,
    Scalar,
    entry,
    list_of,
    make,
    map_of,
    scalar,
    text_of,
)

_HALF_TEMPLATE = re.compile(r"^\s*\{\{\s*(?P<left>[^{}]+?)\s*\}\}\s*(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>[^{}]+?)\s*$")


def lower(doc: Lowering) -> None:
    """Bring every step's routing into `next: {spec, arcs}` and its `when` into admission."""
    for step in doc.steps():
        _when(doc, step)
        _next(doc, step)
        _mode(doc, step)
        _case(doc, step)
        _arcs(doc, step)


# --- admission -------------------------------------------------------------------------------------------------


def _when(doc: Lowering, step: MapNode) -> None:
    found = step.entry("when")
    if found is None:
        return
    doc.report_older("step-when", "`when` of a step", "`spec.policy.admit.rules`", found.key)
    step.take("when")
    admit = ensure_map(ensure_map(ensure_map(step, "spec", found.key), "policy", found.key), "admit", found.key)
    if "rules" in admit:
        doc.todo(
            admit.entry("rules"),
            f"the step also had `when: {found.value.text if isinstance(found.value, Scalar) else '…'}`",
            found.key,
        )
        return
    admit.put(entry("rules", make([{"when": found.value, "then": {"allow": True}}], near=found.key), near=found.key))
    if doc.is_000:
        admit.put(entry("fire", make("once", near=found.key), near=found.key))


# --- next ------------------------------------------------------------------------------------------------------


def _next(doc: Lowering, step: MapNode) -> None:
    found = step.entry("next")
    if found is None or (isinstance(found.value, MapNode) and ("arcs" in found.value or "spec" in found.value)):
        return
    arcs = _as_arcs(found.value)
    if arcs is None:
        return
    doc.report_older("next-list", f"`next` as {_form(found.value)}", "`next: {arcs: […]}`", found.key)
    listed = found.value if isinstance(found.value, ListNode) and arcs == found.value.items else None
    arc_list = listed or ListNode(arcs, found.value.start, found.value.end)
    arc_list.changed = True
    block = MapNode([entry("arcs", arc_list, near=found.key)], found.value.start, found.value.end)
    block.changed = True
    maps = [arc for arc in arcs if isinstance(arc, MapNode)]
    if len(maps) > 1 and not any("when" in arc or "cond" in arc for arc in maps):
        block.put(entry("spec", make({"mode": "inclusive"}, near=found.key), near=found.key), at=0)
    elif listed is None:
        _fan_out(doc, block, maps, found)
    found.value = block
    step.changed = True


def _form(node: Node) -> str:
    return "a list" if isinstance(node, ListNode) else "a word" if isinstance(node, Scalar) else "one arc"


def _as_arcs(node: Node) -> list[Node] | None:
    if isinstance(node, Scalar):
        return [make({"step": node.value}, near=node)] if isinstance(node.value, str) else None
    if isinstance(node, MapNode):
        return [node] if "step" in node or "then" in node or "else" in node else None
    arcs: list[Node] = []
    for item in node.items:
        if isinstance(item, Scalar) and isinstance(item.value, str):
            arcs.append(make({"step": item.value}, near=item))
        elif isinstance(item, MapNode) and ("then" in item or "else" in item):
            arcs.extend(_branches(item))
        else:
            arcs.append(item)
    return arcs


def _branches(item: MapNode) -> list[Node]:
    """v1: `{when, then: [{step}], else: [{step}]}`."""
    condition = item.get("when")
    made: list[Node] = []
    for word in ("then", "else"):
        targets = item.get(word)
        if isinstance(targets, MapNode) and "next" in targets:
            targets = targets.get("next")
        for target in _as_arcs(targets) or [] if targets is not None else []:
            if word == "then" and condition is not None and isinstance(target, MapNode) and "when" not in target:
                target.put(entry("when", condition))
            made.append(target)
    return made


def _mode(doc: Lowering, step: MapNode) -> None:
    spec = map_of(step, "spec")
    for holder, name in ((spec, "next_mode"), (step, "next_mode")):
        found = holder.entry(name) if holder is not None else None
        if found is None or holder is None:
            continue
        doc.report_older("next-mode", "`next_mode`", "`next.spec.mode`", found.key)
        holder.take(name)
        if spec is not None and not spec.entries:
            step.take("spec")
        router = map_of(step, "next")
        if router is not None:
            if "spec" not in router:
                router.put(entry("spec", make({}, near=found.key), near=found.key), at=0)
            doc.keep(ensure_map(router, "spec", found.key), entry("mode", found.value, near=found.key), "`next_mode`")
    router = map_of(step, "next")
    mode = router.entry("mode") if router is not None else None
    if router is not None and mode is not None:
        doc.report_older("habit", "`mode` beside `arcs`", "`next.spec.mode`", mode.key)
        router.take("mode")
        doc.keep(ensure_map(router, "spec", mode.key), mode, "`next`")


def _arcs(doc: Lowering, step: MapNode) -> None:
    arcs = list_of(map_of(step, "next"), "arcs")
    for arc in arcs.items if arcs is not None else []:
        if not isinstance(arc, MapNode):
            continue
        for word in ("cond", "condition", "if"):
            found = arc.entry(word)
            if found is not None and "when" not in arc:
                doc.report_older("habit", f"`{word}` of an arc", "`when`", found.key)
                arc.rename(word, "when")
        for word in ("with", "data", "payload"):
            found = arc.entry(word)
            if found is None or not isinstance(found.value, MapNode) or not isinstance(arc.get("args"), MapNode | None):
                continue
            doc.report_older("habit", f"`{word}` of an arc", "`set` into `ctx.*`", found.key)
            block = map_of(arc, "args")
            if block is None:
                arc.rename(word, "args")
                continue
            arc.take(word)
            for one in found.value:
                doc.keep(block, one, f"`{word}`")
        writes(doc, arc, "ctx")
        fix_condition(doc, arc)


def fix_condition(doc: Lowering, holder: MapNode) -> None:
    """`{{ a }} == text` compared as text: one expression."""
    when = holder.get("when")
    if not isinstance(when, Scalar) or not isinstance(when.value, str):
        return
    match = _HALF_TEMPLATE.match(when.value)
    if match is None:
        return
    right = match["right"].strip("'\"")
    left = match["left"] if re.fullmatch(r"[\w.\[\]'\"]+", match["left"]) else f"({match['left']})"
    if right.lower() in ("true", "false"):
        mended = f"{{{{ {left} | string | lower {match['op']} '{right.lower()}' }}}}"
    elif re.fullmatch(r"-?\d+(\.\d+)?", right):
        mended = f"{{{{ {left} | float {match['op']} {right} }}}}"
    elif "'" in right:
        return
    else:
        mended = f"{{{{ {left} {match['op']} '{right}' }}}}"
    doc.report_older("habit", "a template and text in one `when`", f"`{mended}`", when)
    when.rewrite(mended)


# --- case ------------------------------------------------------------------------------------------------------


def _case(doc: Lowering, step: MapNode) -> None:
    """`case: [{when, then: {next, set, retry, …}}]`: arcs, with the arcs' own writes."""
    found = step.entry("case")
    if found is None or not isinstance(found.value, ListNode):
        return
    left = _find_unsupported_keys(found.value)
    if left:
        said = ", ".join(f"`{name}`" for name in left)
        doc.refuse("case", step, found, f"`case` says {said}: write this as tasks, rules and arcs")
        return
    doc.report_older("case", "`case`", "arcs under `next`, or rules of a task", found.key)
    arcs: list[Node] = []
    for item in found.value.items:
        if isinstance(item, MapNode):
            arcs.extend(_case_arcs(doc, step, item))
    step.take("case")
    router = map_of(step, "next")
    old = list_of(router, "arcs")
    fallback = old.items if old is not None else []
    kept = router.entry("spec") if router is not None else None
    step.take("next")
    if arcs or fallback:
        block = make({"arcs": [*arcs, *fallback]}, near=found.key)
        if kept is not None and isinstance(block, MapNode):
            block.put(kept, at=0)
        step.put(entry("next", block, near=found.key))
        if isinstance(block, MapNode) and "spec" not in block:
            _fan_out(doc, block, [arc for arc in arcs if isinstance(arc, MapNode)], step.entry("next"))


def _fan_out(doc: Lowering, router: MapNode, arcs: list[MapNode], holder: MapEntry | None) -> None:
    """A branch with several targets takes them all: `inclusive`, which no longer stops at the first match."""
    conditions = [text_of(arc, "when") for arc in arcs]
    if len(set(conditions)) == len(conditions):
        return
    router.put(entry("spec", make({"mode": "inclusive"}, near=router), near=router), at=0)
    if len(set(conditions)) > 1 and not _part(arcs):
        doc.todo(holder, "every arc whose `when` holds is taken: make sure that only one branch can hold", router)


_EXPRESSION = re.compile(r"\s*\{\{-?\s*((?:(?!\{\{|\}\}).)+?)\s*-?\}\}\s*", re.DOTALL)
_OPPOSITES = ({"==", "!="}, {"<", ">="}, {">", "<="})
_COMPARISON = re.compile(r"(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+)", re.DOTALL)


def _part(arcs: list[MapNode]) -> bool:
    """Let each branch exclude those before it, as the first that held was the only one; False: it cannot be said."""
    before: list[str] = []
    for arc in arcs:
        when = arc.get("when")
        found = _EXPRESSION.fullmatch(when.text) if isinstance(when, Scalar) else None
        if when is not None and found is None:
            return False
        own = found[1] if found is not None else ""
        if own in before:
            others = before[: before.index(own)]
        else:
            others = list(before)
            before.append(own)
        others = [one for one in others if not _exclude(one, own)]
        if others and not all(others):
            return False
        if others:
            # An arc without a condition is for successes only.
            terms = [f"({own})" if own else "event.status == 'success'", *[f"not ({one})" for one in others]]
            arc.take("when")
            arc.put(entry("when", make("{{ " + " and ".join(terms) + " }}", near=arc), near=arc))
    return True


def _exclude(one: str, other: str) -> bool:
    """Whether two conditions can never hold together."""
    return any(_are_opposite(a, b) for a in _terms(one) for b in _terms(other))


def _terms(condition: str) -> list[str]:
    """What all has to hold, where the condition is no more than that."""
    if re.search(r"\bor\b|\bif\b|[(]", condition):
        return [condition]
    return [term.strip() for term in re.split(r"\band\b", condition)]


def _are_opposite(one: str, other: str) -> bool:
    if one in (f"not {other}", f"not ({other})") or other in (f"not {one}", f"not ({one})"):
        return True
    first, second = _COMPARISON.fullmatch(one), _COMPARISON.fullmatch(other)
    if first is None or second is None or first[1] != second[1]:
        return False
    constants = all(re.fullmatch(r"'[^']*'|\"[^\"]*\"|-?[\d.]+|true|false", found[3]) for found in (first, second))
    if first[2] == second[2] == "==" and constants:
        return first[3] != second[3]
    return first[3] == second[3] and {first[2], second[2]} in _OPPOSITES


#: conditions of a `case` that say no more than: at the end, after an error
_AT_THE_END = re.compile(
    r"(?:\{\{\s*event\.(?:name|type)\s*==\s*'(?:call\.done|step\.exit|step\.done|loop\.done)'"
    r"(?:\s+and\s+response\s+is\s+defined)?\s*\}\})?$"
)
_AFTER_AN_ERROR = re.compile(
    r"(?:\{\{\s*(?:event\.(?:name|type)\s*==\s*'call\.error'|output\.status\s*==\s*'error')"
    r"(?:\s+and\s+error\s+is\s+defined)?\s*\}\})?$"
)
#: a word for what a branch writes
_SET = {"set_ctx": "set"}
#: what a retry says when it makes another call than the one that was made
_OTHER_CALL = ("params", "args", "url", "endpoint", "data")


def _find_unsupported_keys(case: ListNode) -> list[str]:
    """What a `case` says that no arc and no rule does; while there is any, all of it stays."""
    left: dict[str, None] = {}
    for item in case.items:
        if not isinstance(item, MapNode):
            return ["when"]
        left.update(dict.fromkeys(one.name for one in item.entries if one.name not in ("when", "then", "else", "desc")))
        for then in (item.get("then"), item.get("else")):
            parts = _parts(then)
            left.update(dict.fromkeys(name for name in parts if name not in ("set", "retry", "next")))
            retry, targets, written = parts.get("retry"), parts.get("next"), parts.get("set")
            if isinstance(retry, MapNode) and any(name in retry for name in _OTHER_CALL):
                left["retry"] = None
            if targets is not None and not _as_arcs(targets):
                left["next"] = None
            alone = len(case.items) == 1 and _AT_THE_END.match(text_of(item, "when")) is not None
            if written is not None and not (isinstance(written, MapNode | ListNode) and (targets or alone)):
                left["set"] = None
    return list(left)


def _case_arcs(doc: Lowering, step: MapNode, item: MapNode) -> list[Node]:
    fix_condition(doc, item)
    condition = item.get("when")
    made: list[Node] = []
    for word in ("then", "else"):
        then = item.get(word)
        parts = _parts(then)
        said = _case_set(doc, parts.pop("set", None))
        retry = parts.pop("retry", None)
        if retry is not None:
            _case_retry(doc, step, item, retry)
        targets = parts.pop("next", None)
        arcs = _as_arcs(targets) or [] if targets is not None else []
        ways = [arc for arc in arcs if isinstance(arc, MapNode)]
        for arc in ways:
            if word == "then" and condition is not None and "when" not in arc:
                arc.put(entry("when", condition))
            _write_too(doc, arc, said)
        if said is not None and not ways:
            _write_too(doc, step, said)
        made.extend(ways)
    return made


def _case_set(doc: Lowering, node: Node | None) -> MapNode | None:
    """What a branch writes, its targets with their scopes."""
    if node is None:
        return None
    holder = MapNode([entry("set", node)], node.start, node.end)
    lower_bare_targets(doc, holder, "ctx")
    return map_of(holder, "set")


def _parts(then: Node | None) -> dict[str, Node]:
    """What a `then` holds, whether it is a map, or a list of maps and targets."""
    if isinstance(then, Scalar):
        return {"then": then}
    if isinstance(then, MapNode):
        if "step" in then:
            return {"next": then}
        if text_of(then, "do") == "retry":
            return {"retry": MapNode([one for one in then.entries if one.name != "do"], then.start, then.end)}
        return {_SET.get(one.name, one.name) if "set" not in then else one.name: one.value for one in then.entries}
    parts: dict[str, Node] = {}
    targets: list[Node] = []
    for item in then.items if isinstance(then, ListNode) else []:
        if isinstance(item, MapNode) and "step" in item:
            targets.append(item)
        elif not isinstance(item, MapNode) or any(one.name in parts for one in item.entries):
            return {"then": item}
        else:
            parts.update({one.name: one.value for one in item.entries})
    if targets and "next" in parts:
        return {"then": parts["next"]}
    if targets:
        parts["next"] = ListNode(targets, targets[0].start, targets[-1].end)
    return parts


def _case_retry(doc: Lowering, step: MapNode, item: MapNode, retry: Node) -> None:
    holder = MapEntry(scalar("retry", near=retry), retry)
    for _name, task in list(task_items(step)):
        rule = retry_rule(doc, holder, step.entry("tool"))
        if rule is not None:
            add_rule(task, rule)
    if not _AFTER_AN_ERROR.match(text_of(item, "when")):
        doc.todo(step.entry("tool"), f"the retry was meant for: {text_of(item, 'when')}", item)


def _write_too(doc: Lowering, holder: MapNode, said: MapNode | None) -> None:
    """Add what a branch writes to what its arc writes, or, if it leads nowhere, its step."""
    block = writes_of(holder, said) if said is not None else None
    for one in said.entries if said is not None else []:
        doc.keep(block, one, "`case`") if block is not None else None
