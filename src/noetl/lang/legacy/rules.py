"""Rules and writes: `eval`/`expr`, `set_ctx` and its siblings, rules one level too shallow, `when` with `else`."""

from __future__ import annotations

from noetl.lang.legacy.lowering import V10, Lowering, ensure_map, list_of, map_of, task_items
from noetl.lang.legacy.retries import retry_rule
from noetl.lang.legacy.tools import add_rule
from noetl.lang.node import Entry, ListNode, MapNode, Node, Scalar, entry, make

_SCOPES = {"set_ctx": "ctx", "set_iter": "iter", "set_vars": "step", "set_shared": "ctx"}
_SCOPE_NAMES = frozenset({"ctx", "step", "iter", "workload", "output", "input", "keychain", "event"})
_DIRECTIVE = ("do", "attempts", "backoff", "delay", "max_delay", "jitter", "to", "message", "set", "set_prev", *_SCOPES)


def lower(doc: Lowering) -> None:
    """Bring every task's rules, and every `set`, into today's shape."""
    for step in doc.steps():
        _writes(doc, step, parallel=False)
        bare_targets(doc, step, "ctx")
        parallel = _is_parallel(step)
        in_loop = map_of(step, "loop") is not None
        if not in_loop and (doc.accepted or doc.migrating):
            _iter_without_loop(doc, step)
        for _name, task in list(task_items(step)):
            evaluated = _eval(doc, task)
            _rules(doc, task, parallel=parallel, evaluated=evaluated)
            _writes(doc, task, parallel=parallel)
            bare_targets(doc, task, "iter" if in_loop else "step")
        router = map_of(step, "next")
        arcs = list_of(router, "arcs")
        for arc in arcs.items if arcs is not None else []:
            if isinstance(arc, MapNode):
                _writes(doc, arc, parallel=False)
        _step_retry(doc, step)


def _is_parallel(step: MapNode) -> bool:
    spec = map_of(map_of(step, "loop"), "spec")
    mode = spec.get("mode") if spec is not None else None
    return isinstance(mode, Scalar) and mode.text == "parallel"


def _eval(doc: Lowering, task: MapNode) -> bool:
    """002: a list of `{expr, do, …}` beside the tool; an error that matches nothing fails. True if there was one."""
    found = task.entry("eval")
    if found is None or not isinstance(found.value, ListNode):
        return False
    doc.found("eval", "`eval`", "`spec.policy.rules`", found.key)
    task.take("eval")
    rules = found.value
    closed = any(isinstance(rule, MapNode) and "else" in rule for rule in rules.items)
    policy = ensure_map(ensure_map(task, "spec", found.key), "policy", found.key)
    if not closed:
        policy.put(entry("on_unmatched", make("fail", near=found.key), near=found.key))
    before = list_of(policy, "rules")
    if before is not None:
        rules.items = [*before.items, *rules.items]
    policy.put(entry("rules", rules, near=found.key))
    rules.changed = True
    return True


def _rules(doc: Lowering, task: MapNode, *, parallel: bool, evaluated: bool) -> None:
    rules = list_of(map_of(map_of(task, "spec"), "policy"), "rules")
    if rules is None:
        return
    _split(doc, rules)
    for item in rules.items:
        if not isinstance(item, MapNode):
            continue
        _expr(doc, item, told=evaluated)
        otherwise = item.get("else")
        holder = otherwise if isinstance(otherwise, MapNode) else item
        _then(doc, holder, told=evaluated)
        then = map_of(holder, "then")
        if then is not None:
            _set_prev(doc, then, task, rules)
            _writes(doc, then, parallel=parallel)


def _expr(doc: Lowering, item: MapNode, *, told: bool) -> None:
    for word in ("expr", "cond", "condition", "if"):
        found = item.entry(word)
        if found is not None and "when" not in item:
            if not told:
                doc.found("expr" if word == "expr" else "habit", f"`{word}`", "`when`", found.key)
            item.rename(word, "when")


def _split(doc: Lowering, rules: ListNode) -> None:
    """`{when, then, else}` is two rules."""
    made: list[Node] = []
    for item in rules.items:
        made.append(item)
        otherwise = item.entry("else") if isinstance(item, MapNode) and len(item.entries) > 1 else None
        if otherwise is not None and isinstance(item, MapNode) and ("when" in item or "expr" in item):
            doc.found("habit", "`when` and `else` in one rule", "two rules", otherwise.key)
            item.take("else")
            second = MapNode([otherwise], otherwise.key.start, otherwise.value.end)
            second.changed = True
            made.append(second)
            rules.changed = True
    rules.items = made


def _then(doc: Lowering, holder: MapNode, *, told: bool) -> None:
    """`do` and what goes with it stood beside `when`, or right under `else`."""
    loose = [one for one in holder.entries if one.name in _DIRECTIVE]
    then = holder.get("then")
    if isinstance(then, ListNode) and all(isinstance(item, MapNode) for item in then.items):
        entries = [one for item in then.items if isinstance(item, MapNode) for one in item.entries]
        doc.found("habit", "a list under `then`", "one map", then)
        block = MapNode(entries, then.start, then.end)
        block.changed = True
        holder.put(entry("then", block))
        then = block
    if not loose:
        return
    if not told:
        doc.found("habit", f"`{loose[0].name}` outside of `then`", "`then: {do: …}`", loose[0].key)
    block = then if isinstance(then, MapNode) else MapNode([], loose[0].key.start, loose[-1].value.end)
    for one in loose:
        holder.take(one.name)
        block.put(one)
    holder.put(entry("then", block, near=loose[0].key))


def _set_prev(doc: Lowering, then: MapNode, task: MapNode, rules: ListNode) -> None:
    """What the next task saw as `_prev` is the task's `output` now."""
    found = then.entry("set_prev")
    if found is None:
        return
    doc.found("set-prev", "`set_prev`", "`output` of the task", found.key)
    several = sum(_mentions(item, "set_prev") for item in rules.items) > 1
    whenever_ok = any(
        isinstance(rule, MapNode) and "else" in rule and _mentions(rule, "set_prev") for rule in rules.items
    )
    if several or not whenever_ok or "output" in task:
        doc.todo(found, "say in the task's `output` what the next task is to see", found.key)
        return
    then.take("set_prev")
    task.put(entry("output", found.value, near=found.key))


def _mentions(node: Node, name: str) -> bool:
    if isinstance(node, MapNode):
        return any(one.name == name or _mentions(one.value, name) for one in node.entries)
    return isinstance(node, ListNode) and any(_mentions(item, name) for item in node.items)


# --- writes ----------------------------------------------------------------------------------------------------


def _writes(doc: Lowering, holder: MapNode, *, parallel: bool) -> None:
    """`set_ctx: {a: 1}` is `set: {ctx.a: 1}`."""
    for old, scope in _SCOPES.items():
        found = holder.entry(old)
        if found is None or not isinstance(found.value, MapNode):
            continue
        grade = V10 if old in ("set_ctx", "set_iter") else "legacy"
        doc.found(old.replace("_", "-"), f"`{old}`", f"`set: {{{scope}.…}}`", found.key, grade=grade)
        if old == "set_vars":
            doc.step_vars -= {one.name for one in found.value.entries}
        block = map_of(holder, "set")
        if block is None:
            for one in found.value.entries:
                one.key = _prefixed(one, scope)
            found.value.changed = True
            holder.take("set")
            holder.rename(old, "set")
        else:
            holder.take(old)
            for one in found.value:
                one.key = _prefixed(one, scope)
                block.put(one)
        if old == "set_shared" and parallel:
            doc.todo(holder.entry("set"), "choose a reducer for this in `loop.spec.policy.reduce`", found.key)


def _prefixed(one: Entry, scope: str) -> Scalar:
    key = make(one.name if one.name.startswith(f"{scope}.") else f"{scope}.{one.name}", near=one.key)
    assert isinstance(key, Scalar)
    return key


def bare_targets(doc: Lowering, holder: MapNode, scope: str) -> None:
    """`set: {page: 1}`, and `set: [{name: page, value: 1}]`."""
    found = holder.entry("set")
    if found is None:
        return
    if isinstance(found.value, MapNode) and (doc.accepted or doc.migrating):
        # Without --legacy such a target is told apart as `set-target`, which says the same.
        for one in found.value.entries:
            taken = f"{scope}.{one.name}" in found.value
            if "." not in one.name and one.name not in _SCOPE_NAMES and not taken:
                doc.found("habit", f"the bare target `{one.name}`", f"`{scope}.{one.name}`", one.key)
                doc.bare_targets.setdefault(one.name, scope)
                one.key = _prefixed(one, scope)
                found.value.changed = True
    if isinstance(found.value, ListNode):
        pairs = [(item.get("name"), item.get("value")) for item in found.value.items if isinstance(item, MapNode)]
        if len(pairs) == len(found.value.items) and all(isinstance(n, Scalar) and v is not None for n, v in pairs):
            doc.found("habit", "a list under `set`", f"`set: {{{scope}.…}}`", found.key)
            entries = [
                entry(f"{scope}.{n.text}", v, near=n) for n, v in pairs if isinstance(n, Scalar) and v is not None
            ]
            block = MapNode(entries, found.value.start, found.value.end)
            block.changed = True
            found.value = block
            holder.changed = True
            doc.step_vars |= {n.text for n, _ in pairs if isinstance(n, Scalar)}


def _iter_without_loop(doc: Lowering, node: Node) -> None:
    """`set_iter` and `iter.*` in a step that has no loop: the step's own scope."""
    if isinstance(node, MapNode):
        found = node.entry("set_iter")
        if found is not None:
            doc.found("habit", "`iter` outside of a loop", "`step`", found.key)
            node.rename("set_iter", "set_vars")
        block = map_of(node, "set")
        for one in block.entries if block is not None else []:
            if one.name.startswith("iter."):
                doc.found("habit", "`iter` outside of a loop", "`step`", one.key)
                made = make("step." + one.name.removeprefix("iter."), near=one.key)
                assert isinstance(made, Scalar)
                one.key = made
                node.changed = True
    children = [one.value for one in node.entries] if isinstance(node, MapNode) else getattr(node, "items", [])
    for child in children:
        _iter_without_loop(doc, child)


def _step_retry(doc: Lowering, step: MapNode) -> None:
    found = step.entry("retry")
    if found is None:
        return
    doc.found("retry", "`retry` of a step", "a rule `{do: retry}` on each task", found.key)
    step.take("retry")
    for _name, task in list(task_items(step)):
        rule = retry_rule(doc, found, step.entry("tool"))
        if rule is not None:
            add_rule(task, rule)
