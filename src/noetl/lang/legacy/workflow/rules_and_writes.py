"""Rules and writes of tasks: `eval`/`expr`, `set_ctx` and its siblings, rules one level too shallow, `when` with `else`."""

from __future__ import annotations

import re
from itertools import zip_longest

from noetl.lang.legacy.lowered_document import V10, Lowering, ensure_map, strings, task_items
from noetl.lang.legacy.name_meanings import writes_scope
from noetl.lang.legacy.name_rewrite import names_in
from noetl.lang.legacy.workflow.retries import retry_rule
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
    plain_value,
    text_of,
)

_SCOPES = {"set_ctx": "ctx", "set_iter": "iter", "set_vars": "step", "set_shared": "ctx"}
_SCOPE_NAMES = frozenset({"ctx", "step", "iter", "workload", "output", "input", "keychain", "event"})
_DIRECTIVE = ("do", "attempts", "backoff", "delay", "max_delay", "jitter", "to", "message", "set", "set_prev", *_SCOPES)


def lower(doc: Lowering) -> None:
    """Bring every task's rules, and every `set`, into today's shape."""
    for step, called in doc.bodies():
        writes(doc, step, "ctx")
        scope, parallel = task_scope(step), _is_parallel(step)
        if scope != "iter" and (doc.accepted or doc.migrating):
            _iter_without_loop(doc, step)
        tasks = [task for _name, task in task_items(step)]
        for task, following in zip_longest(tasks, tasks[1:]):
            evaluated = _eval(doc, task)
            _rules(doc, task, following, scope, parallel=parallel, evaluated=evaluated)
            writes(doc, task, scope, parallel=parallel)
        _step_retry(doc, step)
        if called is not None and doc.migrating:
            _report_ctx_writes(doc, step, called)


def _report_ctx_writes(doc: Lowering, body: MapNode, called: MapEntry) -> None:
    """A task of the workbook sees `ctx` and does not write it."""
    if writes_scope(body, "ctx"):
        said = "a workbook task does not write `ctx`: write this with `set` in the step that calls it"
        doc.todo(called, said, called.key)


def task_scope(step: MapNode) -> str:
    """Where a task's writes go that name no scope: its own iteration, or its own step."""
    return "iter" if map_of(step, "loop") is not None else "step"


def _is_parallel(step: MapNode) -> bool:
    spec = map_of(map_of(step, "loop"), "spec")
    mode = spec.get("mode") if spec is not None else None
    return isinstance(mode, Scalar) and mode.text == "parallel"


def _eval(doc: Lowering, task: MapNode) -> bool:
    """002: a list of `{expr, do, …}` beside the tool; an error that matches nothing fails. True if there was one."""
    found = task.entry("eval")
    if found is None or not isinstance(found.value, ListNode):
        return False
    doc.report_older("eval", "`eval`", "`spec.policy.rules`", found.key)
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


def _rules(
    doc: Lowering, task: MapNode, following: MapNode | None, scope: str, *, parallel: bool, evaluated: bool
) -> None:
    rules = list_of(map_of(map_of(task, "spec"), "policy"), "rules")
    if rules is None:
        return
    _split(doc, rules)
    outcomes: list[tuple[MapNode, MapNode]] = []
    for item in rules.items:
        if not isinstance(item, MapNode):
            continue
        _expr(doc, item, told=evaluated)
        otherwise = item.get("else")
        holder = otherwise if isinstance(otherwise, MapNode) and otherwise.entries else _beside_else(doc, item) or item
        _then(doc, holder, told=evaluated)
        then = map_of(holder, "then")
        if then is not None:
            outcomes.append((item, then))
    for item, then in outcomes:
        _set_prev(doc, item, then, task, following, [other for other, _ in outcomes if other is not item])
        writes(doc, then, scope, parallel=parallel)


def _expr(doc: Lowering, item: MapNode, *, told: bool) -> None:
    for word in ("expr", "cond", "condition", "if"):
        found = item.entry(word)
        if found is not None and "when" not in item:
            if not told:
                doc.report_older("expr" if word == "expr" else "habit", f"`{word}`", "`when`", found.key)
            item.rename(word, "when")


def _split(doc: Lowering, rules: ListNode) -> None:
    """`{when, then, else}` is two rules."""
    made: list[Node] = []
    for item in rules.items:
        made.append(item)
        otherwise = item.entry("else") if isinstance(item, MapNode) and len(item.entries) > 1 else None
        if otherwise is not None and isinstance(item, MapNode) and ("when" in item or "expr" in item):
            doc.report_older("habit", "`when` and `else` in one rule", "two rules", otherwise.key)
            item.take("else")
            second = MapNode([otherwise], otherwise.key.start, otherwise.value.end)
            second.changed = True
            made.append(second)
            rules.changed = True
    rules.items = made


def _beside_else(doc: Lowering, item: MapNode) -> MapNode | None:
    """`- else:` with `then` or `do` beside it, one level too shallow: the map that they belong in. None: there is none."""
    found = item.entry("else")
    beside = [one for one in item.entries if one.name == "then" or one.name in _DIRECTIVE]
    if found is None or not beside or "when" in item or plain_value(found.value) not in (None, "", {}, True):
        return None
    word = beside[0].name
    doc.report_older("habit", f"`{word}` beside `else`", f"`else: {{{word}: …}}`", beside[0].key)
    for one in beside:
        item.take(one.name)
    block = MapNode(beside, beside[0].key.start, beside[-1].value.end)
    block.changed = True
    item.put(entry("else", block, near=found.key))
    return block


def _then(doc: Lowering, holder: MapNode, *, told: bool) -> None:
    """`do` and what goes with it stood beside `when`, or right under `else`."""
    loose = [one for one in holder.entries if one.name in _DIRECTIVE]
    then = holder.get("then")
    entries = _entries_of_maps(then)
    if entries is not None:
        assert then is not None
        doc.report_older("habit", "a list under `then`", "one map", then)
        block = MapNode(entries, then.start, then.end)
        block.changed = True
        holder.put(entry("then", block))
        then = block
    if not loose:
        return
    if not told:
        doc.report_older("habit", f"`{loose[0].name}` outside of `then`", "`then: {do: …}`", loose[0].key)
    block = then if isinstance(then, MapNode) else MapNode([], loose[0].key.start, loose[-1].value.end)
    for one in loose:
        holder.take(one.name)
        block.put(one)
    holder.put(entry("then", block, near=loose[0].key))


def _entries_of_maps(node: Node | None) -> list[MapEntry] | None:
    """The entries of a list of maps that can be one map; None: it is no such list."""
    if not isinstance(node, ListNode) or not all(isinstance(item, MapNode) for item in node.items):
        return None
    entries = [one for item in node.items if isinstance(item, MapNode) for one in item.entries]
    return entries if len({one.name for one in entries}) == len(entries) else None


_OF_THE_TASK = frozenset({"output", "outcome", "this", "result", "response"})
_IS_OK = re.compile(r"^\{\{\s*(?:true|(?:output\.status\s*==\s*'ok')|(?:outcome\.status\s*==\s*'success'))\s*\}\}$")
_IS_ERROR = re.compile(r"^\{\{\s*(?:output|outcome)\.status\s*==\s*'error'(?!.*\bor\b)", re.DOTALL)


def _set_prev(
    doc: Lowering, item: MapNode, then: MapNode, task: MapNode, following: MapNode | None, others: list[MapNode]
) -> None:
    """What the next task saw as `_prev` is the task's `output` now, if nobody else sees the difference."""
    found = then.entry("set_prev")
    if found is None:
        return
    whenever_ok = "else" in item or _IS_OK.match(text_of(item, "when")) is not None
    beside = [one.value for one in then.entries if one is not found]
    own = task.get("set")
    later = [one.value for one in following.entries if one.name not in ("spec", "set", "output")] if following else []
    if (
        following is None
        or "output" in task
        or not whenever_ok
        or text_of(then, "do") not in ("", "continue")
        or not all(_IS_ERROR.match(text_of(other, "when")) for other in others)
        or any(_reads_result(node) for node in (*beside, *later, *([own] if own is not None else [])))
    ):
        doc.refuse("set-prev", then, found, "say in the task's `output` what the next task is to see")
        return
    doc.report_older("set-prev", "`set_prev`", "`output` of the task", found.key)
    then.take("set_prev")
    task.put(entry("output", found.value, near=found.key))


def _reads_result(node: Node) -> bool:
    return any(names_in(one.text) & _OF_THE_TASK for one in strings(node, skip=frozenset({"code"})))


# --- writes ----------------------------------------------------------------------------------------------------


def writes(doc: Lowering, holder: MapNode, scope: str, *, parallel: bool = False) -> None:
    """All that a map writes, in one `set` whose targets have scopes; `scope` is that of targets which name none."""
    lower_bare_targets(doc, holder, scope)
    for old, old_scope in _SCOPES.items():
        found = holder.entry(old)
        if found is None or not isinstance(found.value, MapNode):
            continue
        if not isinstance(holder.get("set"), MapNode | None):
            doc.refuse(old.replace("_", "-"), holder, found, "add this to the `set` beside it")
            continue
        grade = V10 if old in ("set_ctx", "set_iter") else "legacy"
        doc.report_older(old.replace("_", "-"), f"`{old}`", f"`set: {{{old_scope}.…}}`", found.key, grade=grade)
        if old == "set_vars":
            doc.step_vars -= {one.name for one in found.value.entries}
        for one in found.value.entries:
            one.key = _prefix_key(one, old_scope)
        block = map_of(holder, "set")
        if block is None:
            found.value.changed = True
            holder.rename(old, "set")
        else:
            holder.take(old)
            for one in found.value:
                doc.keep(block, one, f"`{old}`")
        if old == "set_shared" and parallel:
            doc.todo(holder.entry("set"), "choose a reducer for this in `loop.spec.policy.reduce`", found.key)


def _prefix_key(one: MapEntry, scope: str) -> Scalar:
    key = make(one.name if one.name.startswith(f"{scope}.") else f"{scope}.{one.name}", near=one.key)
    assert isinstance(key, Scalar)
    return key


def lower_bare_targets(doc: Lowering, holder: MapNode, scope: str) -> None:
    """`set: {page: 1}`: a target without a scope."""
    lower_target_list(doc, holder, scope)
    block = map_of(holder, "set")
    # Without --legacy such a target is told apart as `set-target`, which says the same.
    taken = {one.name for one in block.entries} if block is not None else set()
    for one in block.entries if block is not None and (doc.accepted or doc.migrating) else []:
        bare = "." not in one.name and one.name not in _SCOPE_NAMES
        if block is not None and bare and f"{scope}.{one.name}" not in taken:
            doc.report_older("habit", f"the bare target `{one.name}`", f"`{scope}.{one.name}`", one.key)
            doc.bare_targets.setdefault(one.name, scope)
            one.key = _prefix_key(one, scope)
            block.changed = True


def lower_target_list(doc: Lowering, holder: MapNode, scope: str) -> None:
    """`set: [{name: page, value: 1}, {ctx.x: 2}]`: a list of writes is one map of them."""
    found = holder.entry("set")
    items = found.value.items if found is not None and isinstance(found.value, ListNode) else []
    block = MapNode([], items[0].start, items[-1].end) if items else None
    for item in items:
        name, value = (item.get("name"), item.get("value")) if isinstance(item, MapNode) else (None, None)
        if isinstance(name, Scalar) and value is not None and isinstance(item, MapNode) and len(item.entries) == 2:
            made = [entry(name.text, value, near=name)]
        else:
            made = item.entries if isinstance(item, MapNode) else []
        if block is None or not made or any(one.name in block for one in made):
            return  # not a list of writes, or one that writes a target twice
        block.entries.extend(made)
    if found is None or block is None:
        return
    doc.report_older("habit", "a list under `set`", f"`set: {{{scope}.…}}`", found.key)
    for one in block.entries:
        if "." not in one.name and one.name not in _SCOPE_NAMES:
            doc.step_vars |= {one.name} if scope == "ctx" else set()
            one.key = _prefix_key(one, scope)
    block.changed = True
    found.value = block
    holder.changed = True


def _iter_without_loop(doc: Lowering, node: Node) -> None:
    """`set_iter` and `iter.*` in a step that has no loop: the step's own scope."""
    if isinstance(node, MapNode):
        found = node.entry("set_iter")
        if found is not None:
            doc.report_older("habit", "`iter` outside of a loop", "`step`", found.key)
            node.rename("set_iter", "set_vars")
        block = map_of(node, "set")
        for one in block.entries if block is not None else []:
            if one.name.startswith("iter."):
                doc.report_older("habit", "`iter` outside of a loop", "`step`", one.key)
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
    doc.report_older("retry", "`retry` of a step", "a rule `{do: retry}` on each task", found.key)
    step.take("retry")
    for _name, task in list(task_items(step)):
        rule = retry_rule(doc, found, step.entry("tool"))
        if rule is not None:
            add_rule(task, rule)
