"""Where tokens go: `next` lists and words, `next_mode`, `case`, step `when`, arcs that carry `args`."""

from __future__ import annotations

import re

from noetl.lang.legacy.lowering import V10, Lowering, ensure_map, list_of, map_of, strings, task_items, text_of
from noetl.lang.legacy.rename import Chain, Renamed, rewrite
from noetl.lang.legacy.retries import retry_rule
from noetl.lang.legacy.rules import bare_targets
from noetl.lang.legacy.tools import add_rule
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, entry, make, scalar

_HALF_TEMPLATE = re.compile(r"^\s*\{\{\s*(?P<left>[^{}]+?)\s*\}\}\s*(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>[^{}]+?)\s*$")


def lower(doc: Lowering) -> None:
    """Bring every step's routing into `next: {spec, arcs}` and its `when` into admission."""
    for step in doc.steps():
        _when(doc, step)
        _next(doc, step)
        _mode(doc, step)
        _case(doc, step)
        _arcs(doc, step)
    targets = {text_of(step, "step"): step for step in doc.steps()}
    for step in doc.steps():
        _arc_args(doc, step, targets)


# --- admission -------------------------------------------------------------------------------------------------


def _when(doc: Lowering, step: MapNode) -> None:
    found = step.entry("when")
    if found is None:
        return
    doc.found("step-when", "`when` of a step", "`spec.policy.admit.rules`", found.key)
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
    doc.found("next-list", f"`next` as {_form(found.value)}", "`next: {arcs: […]}`", found.key)
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
        doc.found("next-mode", "`next_mode`", "`next.spec.mode`", found.key)
        holder.take(name)
        if spec is not None and not spec.entries:
            step.take("spec")
        router = map_of(step, "next")
        if router is not None:
            router.put(entry("spec", make({"mode": found.value}, near=found.key), near=found.key), at=0)
    router = map_of(step, "next")
    mode = router.entry("mode") if router is not None else None
    if router is not None and mode is not None:
        doc.found("habit", "`mode` beside `arcs`", "`next.spec.mode`", mode.key)
        router.take("mode")
        ensure_map(router, "spec", mode.key).put(mode)


def _arcs(doc: Lowering, step: MapNode) -> None:
    arcs = list_of(map_of(step, "next"), "arcs")
    for arc in arcs.items if arcs is not None else []:
        if not isinstance(arc, MapNode):
            continue
        for word in ("cond", "condition", "if"):
            found = arc.entry(word)
            if found is not None and "when" not in arc:
                doc.found("habit", f"`{word}` of an arc", "`when`", found.key)
                arc.rename(word, "when")
        for word in ("with", "data", "payload"):
            found = arc.entry(word)
            if found is None or not isinstance(found.value, MapNode) or not isinstance(arc.get("args"), MapNode | None):
                continue
            doc.found("habit", f"`{word}` of an arc", "`set` into `ctx.*`", found.key)
            block = map_of(arc, "args")
            if block is None:
                arc.rename(word, "args")
                continue
            arc.take(word)
            for one in found.value:
                block.put(one) if one.name not in block else None
        mend_condition(doc, arc)


def mend_condition(doc: Lowering, holder: MapNode) -> None:
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
    doc.found("habit", "a template and text in one `when`", f"`{mended}`", when)
    when.rewrite(mended)


# --- case ------------------------------------------------------------------------------------------------------


def _case(doc: Lowering, step: MapNode) -> None:
    """`case: [{when, then: {next, set, retry, …}}]`: arcs, with the arcs' own writes."""
    found = step.entry("case")
    if found is None or not isinstance(found.value, ListNode):
        return
    doc.found("case", "`case`", "arcs under `next`, or rules of a task", found.key)
    arcs: list[Node] = []
    for item in found.value.items:
        if isinstance(item, MapNode):
            arcs.extend(_case_arcs(doc, step, found, item))
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


def _fan_out(doc: Lowering, router: MapNode, arcs: list[MapNode], holder: Entry | None) -> None:
    """A branch with several targets takes them all: `inclusive`, which no longer stops at the first match."""
    conditions = [text_of(arc, "when") for arc in arcs]
    if len(set(conditions)) == len(conditions):
        return
    router.put(entry("spec", make({"mode": "inclusive"}, near=router), near=router), at=0)
    if len(set(conditions)) > 1:
        doc.todo(holder, "every arc whose `when` holds is taken: make sure that only one branch can hold", router)


def _case_arcs(doc: Lowering, step: MapNode, case: Entry, item: MapNode) -> list[Node]:
    mend_condition(doc, item)
    condition = item.get("when")
    made: list[Node] = []
    for word in ("then", "else"):
        then = item.get(word)
        parts = _parts(then)
        writes = parts.pop("set", None)
        retry = parts.pop("retry", None)
        if retry is not None:
            _case_retry(doc, step, item, retry)
        targets = parts.pop("next", None)
        arcs = _as_arcs(targets) or [] if targets is not None else []
        ways = [arc for arc in arcs if isinstance(arc, MapNode)]
        for arc in ways:
            if word == "then" and condition is not None and "when" not in arc:
                arc.put(entry("when", condition))
            if isinstance(writes, MapNode):
                block = ensure_map(arc, "set", writes)
                for one in writes.entries:
                    block.put(one)
        if writes is not None and not ways:
            _case_writes(doc, step, case, writes)
        for name in parts:
            doc.todo(
                step.entry("tool") or step.entry("step"), f"`case` said `{name}` here: write it as a task or rule", item
            )
        made.extend(ways)
    return made


def _parts(then: Node | None) -> dict[str, Node]:
    """What a `then` holds, whether it is a map, or a list of maps and targets."""
    if isinstance(then, MapNode):
        if "step" in then:
            return {"next": then}
        return {one.name: one.value for one in then.entries}
    parts: dict[str, Node] = {}
    targets: list[Node] = []
    for item in then.items if isinstance(then, ListNode) else []:
        if isinstance(item, MapNode) and "step" in item:
            targets.append(item)
        elif isinstance(item, MapNode):
            parts.update({one.name: one.value for one in item.entries})
    if targets:
        parts["next"] = ListNode(targets, targets[0].start, targets[-1].end)
    return parts


def _case_retry(doc: Lowering, step: MapNode, item: MapNode, retry: Node) -> None:
    holder = Entry(scalar("retry", near=retry), retry)
    if isinstance(retry, MapNode) and any(name in retry for name in ("params", "args", "url", "endpoint", "data")):
        doc.todo(step.entry("tool"), "a retry that changes the call is a `jump` to the task with `set`", retry)
        return
    for _name, task in list(task_items(step)):
        rule = retry_rule(doc, holder, step.entry("tool"))
        if rule is not None:
            add_rule(task, rule)
    when = item.get("when")
    if when is not None and "error" not in text_of(item, "when"):
        doc.todo(step.entry("tool"), f"the retry was meant for: {text_of(item, 'when')}", item)


def _case_writes(doc: Lowering, step: MapNode, case: Entry, writes: Node) -> None:
    """Writes of a branch that leads nowhere: the step's own, if there is no other branch to tell them from."""
    alone = isinstance(case.value, ListNode) and len(case.value.items) == 1
    if isinstance(writes, MapNode) and alone:
        block = ensure_map(step, "set", writes)
        for one in writes.entries:
            if one.name not in block:
                block.put(one)
        bare_targets(doc, step, "ctx")
    else:
        doc.todo(step.entry("step"), "`case` wrote values here: write them with `set`", case.key)


# --- arcs that carry values ------------------------------------------------------------------------------------


def _arc_args(doc: Lowering, step: MapNode, targets: dict[str, MapNode]) -> None:
    """v10: an arc's `args`. They run as they are; a migrated file says the same with `set` and `input`."""
    arcs = list_of(map_of(step, "next"), "arcs")
    for arc in arcs.items if arcs is not None else []:
        found = arc.entry("args") if isinstance(arc, MapNode) else None
        if found is None or not isinstance(arc, MapNode):
            continue
        doc.found("arc-args", "`args` of an arc", "the arc's `set` into `ctx.*`, read in the next step's `input`", found.key,
                  grade=V10)  # fmt: skip
        target = targets.get(text_of(arc, "step"))
        if not doc.migrating or target is None or not isinstance(found.value, MapNode):
            continue
        name = re.sub(r"\W", "_", text_of(arc, "step"))
        keys = [one.name for one in found.value.entries]
        for one in found.value.entries:
            made = make(f"ctx.{name}_{one.name}", near=one.key)
            assert isinstance(made, Scalar)
            one.key = made
        found.value.changed = True
        if "set" in arc:
            arc.take("args")
            block = ensure_map(arc, "set", found.key)
            for one in found.value.entries:
                block.put(one)
        else:
            arc.rename("args", "set")
        _receive(target, name, keys)


def _receive(target: MapNode, name: str, keys: list[str]) -> None:
    """Let a step read from `ctx` what arcs used to carry."""
    block = map_of(target, "input")
    near = target.get("step") or target
    for key in keys:
        if block is None:
            target.take("input")
            block = MapNode([], near.start, near.end)
            block.changed = True
            target.put(entry("input", block, near=near), at=target.position("step") + 1)
        old = block.get(key)
        if old is None or (isinstance(old, Scalar) and (old.value is None or "args." in str(old.value))):
            block.put(entry(key, make(f"{{{{ ctx.{name}_{key} }}}}", near=near), near=near))
    declared = set(keys)

    def inside(chain: Chain) -> Renamed | None:
        if chain.parts[0] == "args" and len(chain.parts) > 1 and chain.parts[1] in declared:
            return Renamed(1, "input")
        return None

    def outside(chain: Chain) -> Renamed | None:
        if chain.parts[0] == "args" and len(chain.parts) > 1 and chain.parts[1] in declared:
            return Renamed(2, f"ctx.{name}_{chain.parts[1]}")
        return None

    for one in target.entries:
        # `input` belongs to the step's run; admission, the loop's items and the arcs are judged outside of it.
        rename = outside if one.name in ("spec", "loop", "next") else inside
        for node in strings(one.value, skip=frozenset({"code"})):
            node.rewrite(rewrite(node.text, rename))
