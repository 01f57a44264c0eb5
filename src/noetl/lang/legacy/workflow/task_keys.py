"""A task's own keys: renamed ones, `args`, `libs`, `pool`, `tool.spec.<config>`, timeouts, retries, and keys in a wrong place."""

from __future__ import annotations

import sys

from noetl.lang.grammar.document_shape import TASK_KEYS
from noetl.lang.legacy.keychain import lower_auth
from noetl.lang.legacy.lowered_document import V10, Lowering, ensure_map, quote_entries, task_items
from noetl.lang.legacy.workflow import scripts
from noetl.lang.legacy.workflow.retries import retry_rule
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Scalar, entry, make, map_of, plain_value, text_of
from noetl.model.shape import Record

_SPEC_SHAPE = TASK_KEYS["spec"].shape
assert isinstance(_SPEC_SHAPE, Record)
_SPEC_KEYS = frozenset(_SPEC_SHAPE.keys)

#: kinds by other names
_KINDS = {"bash": "shell", "sh": "shell", "cmd": "shell", "pg": "postgres", "postgresql": "postgres", "subplaybook": "playbook",
          "noop_task": "noop", "sleep": "wait", "secret": "secrets", "py": "python"}  # fmt: skip

#: by kind: old key → new key
KEYS: dict[str, dict[str, str]] = {
    "http": {"endpoint": "url", "uri": "url", "payload": "json", "query_params": "params", "query": "params",
             "allow_redirects": "follow_redirects", "form_data": "form"},
    "shell": {"cmds": "cmd", "commands": "cmd", "command": "cmd", "script": "cmd", "environment": "env", "workdir": "cwd",
              "working_dir": "cwd", "working_directory": "cwd", "cd": "cwd"},
    "duckdb": {"commands": "command", "database": "file", "db": "file", "db_path": "file", "database_path": "file",
               "sql": "query", "statement": "query", "script": "command", "queries": "query", "cmd": "command", "cmds": "command"},
    "postgres": {"commands": "command", "sql": "query", "statement": "query", "script": "command", "queries": "query",
                 "cmd": "command", "cmds": "command"},
    "playbook": {"payload": "input", "playbook": "path", "playbook_path": "path", "return": "return_step",
                 "result_step": "return_step"},
    "python": {"script": "code", "function": "callable"},
    "workbook": {"workbook": "task", "task_name": "task", "with": "input"},
    "wait": {"duration": "seconds", "delay": "seconds", "timeout_seconds": "timeout"},
    "secrets": {"secret_name": "secret"},
    "resolve": {}, "transfer": {}, "noop": {},
}  # fmt: skip
#: documented by §13's first table rather than by the table of habits
_DOCUMENTED = frozenset({"endpoint", "payload", "data"})


def lower(doc: Lowering) -> None:
    """Give every task the keys of today."""
    for step in doc.steps():
        if isinstance(step.get("tool"), ListNode):
            _list_names(doc, step)
        for name, task in list(task_items(step)):
            lower_task(doc, task, name)
    workbook = map_of(doc.root, "workbook")
    for one in workbook.entries if workbook is not None else []:
        if isinstance(one.value, MapNode):
            lower_task(doc, one.value, one.name)
        elif isinstance(one.value, ListNode):
            holder = MapNode([entry("tool", one.value)], one.value.start, one.value.end)
            for name, task in list(task_items(holder)):
                lower_task(doc, task, name)


def lower_task(doc: Lowering, task: MapNode, name: str) -> None:
    """One task."""
    _kind(doc, task)
    kind = text_of(task, "kind")
    _unwrap_spec(doc, task, kind)
    scripts.lower_script(doc, task)
    scripts.lower_exports(doc, task)
    scripts.lower_assert(doc, task)
    _description(doc, task)
    _args(doc, task)
    if kind == "http":
        _http_data(doc, task)
    for old, new in KEYS.get(kind, {}).items():
        _rename(doc, task, old, new, kind)
    if kind in ("postgres", "duckdb"):
        _join_statements(doc, task)
        scripts.lower_positions(doc, task)
        scripts.lower_whole_statement(doc, task)
    scripts.lower_foreign_templates(doc, task)
    if kind != "http":
        _data(doc, task, kind)
    for word in ("task", "return_result") if kind == "playbook" else ():
        _drop(doc, task, word)
    _timeout(doc, task, kind)
    _verify(doc, task)
    _retry(doc, task)
    lower_auth(doc, task, name)
    _policy(doc, task)


def _kind(doc: Lowering, task: MapNode) -> None:
    for word in ("type", "tool"):
        found = task.entry(word)
        if found is not None and "kind" not in task and isinstance(found.value, Scalar):
            doc.report_older("type", f"`{word}`", "`kind`", found.key)
            task.rename(word, "kind")
    kind = task.get("kind")
    if isinstance(kind, Scalar) and kind.text in _KINDS and kind.text not in doc.kinds:
        doc.report_older("habit", f"`kind: {kind.text}`", f"`kind: {_KINDS[kind.text]}`", kind)
        kind.rewrite(_KINDS[kind.text])


def _unwrap_spec(doc: Lowering, task: MapNode, kind: str) -> None:
    """v1: the configuration stood under `spec`."""
    spec = map_of(task, "spec")
    if spec is None:
        return
    declared = doc.kinds.get(kind)
    known = set(declared.keys) if declared is not None else set()
    known |= set(KEYS.get(kind, {})) | {"args", "data", "auth", "name", "result", "sink", "input", "output", "with"}
    known -= _SPEC_KEYS
    today = KEYS.get(kind, {})
    for one in spec:
        given = {today.get(other.name, other.name) for other in task.entries}
        if one.name in known and today.get(one.name, one.name) not in given:
            doc.report_older("tool-spec", f"`{one.name}` under `spec`", f"`{one.name}` beside `kind`", one.key)
            spec.take(one.name)
            task.put(one, at=task.position("spec"))
    if not spec.entries and spec.changed:
        task.take("spec")


def _description(doc: Lowering, task: MapNode) -> None:
    found = task.entry("description")
    if found is not None and "desc" not in task:
        doc.report_older("habit", "`description`", "`desc`", found.key)
        task.rename("description", "desc")


def _args(doc: Lowering, task: MapNode) -> None:
    for word in ("args", "with", "arguments", "inputs", "parameters"):
        found = task.entry(word)
        if found is None or not isinstance(found.value, MapNode | Scalar):
            continue
        if word == "args":
            doc.report_older("args", "`args`", "`input`", found.key, grade=V10)
        else:
            doc.report_older("habit", f"`{word}`", "`input`", found.key)
        _into_input(doc, task, found)


def _into_input(doc: Lowering, task: MapNode, found: MapEntry) -> None:
    """Make an entry the task's `input`, or add what it holds to the `input` that is there."""
    block = task.get("input")
    if isinstance(found.value, Scalar) and found.value.value is None:
        task.take(found.name)
    elif block is None or (isinstance(block, Scalar) and block.value is None):
        task.take("input")
        task.rename(found.name, "input")
    elif isinstance(block, MapNode) and isinstance(found.value, MapNode):
        join(doc, task, found, block)
    else:
        doc.todo(found, f"`input` and `{found.name}` were given side by side: join them", found.key)


def join(doc: Lowering, holder: MapNode, found: MapEntry, block: MapNode) -> None:
    """Move what an entry holds into a map; what the map says otherwise stays where it is, for a person to decide."""
    assert isinstance(found.value, MapNode)
    for one in found.value:
        if one.name not in block:
            found.value.take(one.name)
            block.put(one)
        elif plain_value(block.get(one.name)) == plain_value(one.value):
            found.value.take(one.name)
    if not found.value.entries:
        holder.take(found.name)
        return
    names = ", ".join(f"`{one.name}`" for one in found.value.entries)
    doc.todo(found, f"{names} of `{found.name}` was given twice: keep one", found.key)


def _rename(doc: Lowering, task: MapNode, old: str, new: str, kind: str) -> None:
    found = task.entry(old)
    declared = doc.kinds.get(kind)
    if found is None or (declared is not None and old in declared.keys) or (new != "input" and new in task):
        return
    doc.report_older(old if old in _DOCUMENTED else "habit", f"`{old}`", f"`{new}`", found.key)
    if new == "input":
        _into_input(doc, task, found)
    else:
        task.rename(old, new)


def _http_data(doc: Lowering, task: MapNode) -> None:
    """`data` of a request: the query of a GET, the body of anything else."""
    found = task.entry("data")
    if found is None:
        return
    block = found.value
    parts = {
        "query": "params",
        "params": "params",
        "body": "json",
        "json": "json",
        "form": "form",
        "headers": "headers",
    }
    if isinstance(block, MapNode) and block.entries and all(one.name in parts for one in block.entries):
        for one in block:
            key = parts[one.name]
            if key not in task:
                doc.report_older("data", f"`{one.name}` of `data`", f"`{key}`", one.key)
                block.take(one.name)
                task.put(entry(key, one.value, near=one.key))
        if block.entries:
            names = ", ".join(f"`{one.name}`" for one in block.entries)
            doc.todo(found, f"{names} of `data` was given twice: keep one", found.key)
        else:
            task.take("data")
        return
    reads = text_of(task, "method").upper() in ("", "GET", "HEAD", "DELETE")
    new = "params" if reads else "json"
    if new in task:
        doc.refuse("data", task, found, f"`{new}` and `data` were given side by side: join them")
        return
    doc.report_older("data", "`data`", f"`{new}`", found.key)
    task.rename("data", new)


def _data(doc: Lowering, task: MapNode, kind: str) -> None:
    found = task.entry("data")
    declared = doc.kinds.get(kind)
    if found is not None and declared is not None and "data" not in declared.keys:
        doc.report_older("data", "`data`", "`input`", found.key)
        _into_input(doc, task, found)


def _join_statements(doc: Lowering, task: MapNode) -> None:
    """A list of statements is one text with all of them."""
    for word in ("command", "query"):
        found = task.entry(word)
        items = found.value.items if found is not None and isinstance(found.value, ListNode) else None
        if found is None or not items or not all(isinstance(item, Scalar) for item in items):
            continue
        doc.report_older("habit", f"a list under `{word}`", "one text; statements end with `;`", found.key)
        texts = [
            (scripts.splice(item.text) or item.text).strip().rstrip(";") for item in items if isinstance(item, Scalar)
        ]
        found.value = make("".join(_terminate(text) for text in texts), near=found.value)
        task.changed = True


def _terminate(statement: str) -> str:
    # Behind a comment the semicolon would be part of it.
    return f"{statement}\n;\n" if "--" in statement.rsplit("\n", 1)[-1] else f"{statement};\n"


def _drop(doc: Lowering, task: MapNode, word: str) -> None:
    """What says no more than what is the case: a call is waited for, and gives what its playbook gave."""
    found = task.entry(word)
    if found is None or plain_value(found.value) is False:
        return
    doc.report_older("habit", f"`{word}` beside `kind: playbook`", "nothing", found.key)
    task.take(word)


def _timeout(doc: Lowering, task: MapNode, kind: str) -> None:
    declared = doc.kinds.get(kind)
    for word in ("timeout", "timeout_seconds", "timeout_s"):
        if declared is None or word not in declared.keys:
            _into_spec(doc, task, word, "timeout")


def _verify(doc: Lowering, task: MapNode) -> None:
    for word in ("verify_ssl", "ssl_verify", "verify") if text_of(task, "kind") == "http" else ():
        _into_spec(doc, task, word, "verify")


def _into_spec(doc: Lowering, task: MapNode, old: str, new: str) -> None:
    """Move a key under `spec`, unless that says it too: then which of them counts is not ours to say."""
    found = task.entry(old)
    if found is None or new in (map_of(task, "spec") or ()):
        return
    doc.report_older("habit", f"`{old}` of a tool", f"`spec.{new}`", found.key)
    task.take(old)
    spec = ensure_map(task, "spec", found.key)
    spec.put(found)
    spec.rename(old, new) if old != new else None


def _retry(doc: Lowering, task: MapNode) -> None:
    found = task.entry("retry")
    if found is None:
        return
    doc.report_older("habit", "`retry` of a tool", "a rule `{do: retry}` under `spec.policy.rules`", found.key)
    rule = retry_rule(doc, found, task.entry("kind"))
    task.take("retry")
    if rule is not None:
        add_rule(task, rule)


def add_rule(task: MapNode, rule: MapNode) -> None:
    """Put a rule into a task's policy; errors that no rule matches still fail, as they do without a policy."""
    if not task.entries:
        return  # no task at all; with a policy it would look like one
    spec = ensure_map(task, "spec", rule)
    policy = ensure_map(spec, "policy", rule)
    rules = policy.get("rules")
    if not isinstance(rules, ListNode):
        policy.put(entry("rules", make([rule], near=rule), near=rule))
        policy.put(entry("on_unmatched", make("fail", near=rule), near=rule), at=0)
        return
    rules.items.insert(0, rule)
    rules.changed = True


def _policy(doc: Lowering, task: MapNode) -> None:
    """`policy` or `rules` beside `kind`: one level too shallow."""
    found = task.entry("policy")
    if found is not None and isinstance(found.value, MapNode) and "policy" not in (map_of(task, "spec") or ()):
        doc.report_older("habit", "`policy` beside `kind`", "`spec.policy`", found.key)
        task.take("policy")
        ensure_map(task, "spec", found.key).put(found)
    rules = task.entry("rules")
    there = map_of(map_of(task, "spec"), "policy")
    if rules is not None and isinstance(rules.value, ListNode) and (there is None or "rules" not in there):
        doc.report_older("habit", "`rules` beside `kind`", "`spec.policy.rules`", rules.key)
        task.take("rules")
        ensure_map(ensure_map(task, "spec", rules.key), "policy", rules.key).put(rules)


def _list_names(doc: Lowering, step: MapNode) -> None:
    """`{name: double, kind: workbook}` in a list: the name was the workbook's key."""
    tool = step.get("tool")
    for item in tool.items if isinstance(tool, ListNode) else []:
        if not isinstance(item, MapNode):
            continue
        task = item
        if len(item.entries) == 1 and isinstance(item.entries[0].value, MapNode) and "kind" not in item:
            task = item.entries[0].value
        means = doc.name_means(task)
        named = task.get("name")
        if means is None or means in task or not isinstance(named, Scalar):
            continue
        if means == "task" and not _in_workbook(doc, named.text) and task is item:
            continue
        doc.report_older(f"{text_of(task, 'kind')}-name", f"`name` as the {means}", f"`{means}: {named.text}`", named)
        task.put(entry(means, make(named.value, near=named), near=named), at=task.position("kind") + 1)


def _in_workbook(doc: Lowering, name: str) -> bool:
    workbook = doc.root.get("workbook")
    if isinstance(workbook, MapNode):
        return name in workbook
    return isinstance(workbook, ListNode)


def lower_misplaced(doc: Lowering) -> None:
    """Remove what says nothing, and move a task's configuration to its place."""
    for body, _called in doc.bodies():
        for _name, task in list(task_items(body)):
            _empty(doc, task)
            _libraries(doc, task)
            _pool(doc, task)
            _config_in_input(doc, task)


def _empty(doc: Lowering, task: MapNode) -> None:
    """`auth: {}`, `libs: {}`: nothing was said."""
    for word in ("auth", "libs"):
        found = task.entry(word)
        if found is not None and isinstance(found.value, MapNode | ListNode) and not _size(found):
            doc.report_older("habit", f"an empty `{word}`", "nothing", found.key)
            task.take(word)


def _size(found: MapEntry) -> int:
    return len(found.value.entries) if isinstance(found.value, MapNode) else len(getattr(found.value, "items", [1]))


def _libraries(doc: Lowering, task: MapNode) -> None:
    """`libs: {np: numpy}` imported for the code; the code imports for itself now."""
    found = task.entry("libs")
    code = task.get("code")
    if found is None or text_of(task, "kind") != "python":
        return
    lines = scripts.import_lines(found.value) if isinstance(found.value, MapNode) else None
    if lines is not None and isinstance(code, Scalar):
        doc.report_older("habit", "`libs`", "`import` in the code", found.key)
        code.rewrite("\n".join([*lines, code.text]))
        task.take("libs")
    elif isinstance(found.value, ListNode):
        names = [item.text for item in found.value.items if isinstance(item, Scalar)]
        missing = ", ".join(name for name in names if name.partition(".")[0] not in sys.stdlib_module_names)
        doc.report_older("habit", "`libs`", "packages installed beside the worker", found.key)
        if missing:
            doc.todo(task.entry("code") or found, f"install these packages where the worker runs: {missing}", found.key)
        task.take("libs")
    else:
        doc.refuse("habit", task, found, "import these in the code")


def _pool(doc: Lowering, task: MapNode) -> None:
    found = task.entry("pool")
    if found is None or text_of(task, "kind") not in ("postgres", "http") or not isinstance(found.value, MapNode):
        return
    doc.report_older("habit", "`pool` of a tool", "`spec.pool_size`", found.key)
    size = found.value.take("max_size") or found.value.take("size")
    task.take("pool")
    if size is not None:
        ensure_map(task, "spec", found.key).put(entry("pool_size", size.value, near=found.key))
    if found.value.entries:
        doc.todo(
            task.entry("kind"), f"the pool of connections also said {quote_entries(found.value.entries)}", found.key
        )


def _config_in_input(doc: Lowering, task: MapNode) -> None:
    """`with: {commands: …}`: the tool's own keys among its arguments."""
    declared = doc.kinds.get(text_of(task, "kind"))
    word = "with" if map_of(task, "with") is not None else "args"
    block = map_of(task, word)
    if declared is None or block is None or declared.name not in ("duckdb", "postgres", "shell"):
        return
    known = (set(declared.keys) | set(KEYS.get(declared.name, {}))) - set(_key_names(task))
    if not any(group_name in task for group in declared.one_of for group_name in group):
        for one in block:
            if one.name in known and one.name not in ("params", "env", "file"):
                doc.report_older("habit", f"`{one.name}` among the arguments", f"`{one.name}` beside `kind`", one.key)
                block.take(one.name)
                task.put(one)
        if block.changed and not block.entries:
            task.take(word)


def _key_names(task: MapNode) -> list[str]:
    """The keys a task has."""
    return [one.name for one in task.entries]
