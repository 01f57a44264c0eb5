"""A task's own keys: renamed ones, `args`, `tool.spec.<config>`, timeouts, retries, inline credentials."""

from __future__ import annotations

from noetl.lang.grammar import TASK_KEYS
from noetl.lang.legacy.document import keychain_entry
from noetl.lang.legacy.lowering import V10, Lowering, ensure_map, task_items
from noetl.lang.legacy.retries import retry_rule
from noetl.lang.node import Entry, ListNode, MapNode, Scalar, entry, make, map_of, text_of
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
               "sql": "query", "statement": "query", "script": "command"},
    "postgres": {"commands": "command", "sql": "query", "statement": "query", "script": "command"},
    "playbook": {"payload": "input", "playbook": "path", "playbook_path": "path", "return": "return_step"},
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
    _description(doc, task)
    _args(doc, task)
    if kind == "http":
        _http_data(doc, task)
    for old, new in KEYS.get(kind, {}).items():
        _rename(doc, task, old, new, kind)
    if kind in ("postgres", "duckdb"):
        _join_statements(doc, task)
    if kind != "http":
        _data(doc, task, kind)
    if kind == "playbook" and "task" in task:
        doc.found("habit", "`task` beside `kind: playbook`", "nothing", task)
        task.take("task")
    _timeout(doc, task, kind)
    _verify(doc, task)
    _retry(doc, task)
    _auth(doc, task, name)
    _policy(doc, task)


def _kind(doc: Lowering, task: MapNode) -> None:
    for word in ("type", "tool"):
        found = task.entry(word)
        if found is not None and "kind" not in task and isinstance(found.value, Scalar):
            doc.found("type", f"`{word}`", "`kind`", found.key)
            task.rename(word, "kind")
    kind = task.get("kind")
    if isinstance(kind, Scalar) and kind.text in _KINDS and kind.text not in doc.kinds:
        doc.found("habit", f"`kind: {kind.text}`", f"`kind: {_KINDS[kind.text]}`", kind)
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
            doc.found("tool-spec", f"`{one.name}` under `spec`", f"`{one.name}` beside `kind`", one.key)
            spec.take(one.name)
            task.put(one, at=task.position("spec"))
    if not spec.entries and spec.changed:
        task.take("spec")


def _description(doc: Lowering, task: MapNode) -> None:
    found = task.entry("description")
    if found is not None and "desc" not in task:
        doc.found("habit", "`description`", "`desc`", found.key)
        task.rename("description", "desc")


def _args(doc: Lowering, task: MapNode) -> None:
    for word in ("args", "with", "arguments", "inputs", "parameters"):
        found = task.entry(word)
        if found is None or not isinstance(found.value, MapNode | Scalar):
            continue
        if word == "args":
            doc.found("args", "`args`", "`input`", found.key, grade=V10)
        else:
            doc.found("habit", f"`{word}`", "`input`", found.key)
        _into_input(task, found)


def _into_input(task: MapNode, found: Entry) -> None:
    """Make an entry the task's `input`, or add what it holds to the `input` that is there."""
    block = task.get("input")
    if isinstance(block, MapNode) and isinstance(found.value, MapNode):
        task.take(found.name)
        for one in found.value:
            if one.name not in block:
                block.put(one)
    elif isinstance(found.value, Scalar) and found.value.value is None:
        task.take(found.name)
    else:
        task.take("input")
        task.rename(found.name, "input")


def _rename(doc: Lowering, task: MapNode, old: str, new: str, kind: str) -> None:
    found = task.entry(old)
    declared = doc.kinds.get(kind)
    if found is None or (declared is not None and old in declared.keys) or (new != "input" and new in task):
        return
    doc.found(old if old in _DOCUMENTED else "habit", f"`{old}`", f"`{new}`", found.key)
    if new == "input":
        _into_input(task, found)
    else:
        task.rename(old, new)


def _http_data(doc: Lowering, task: MapNode) -> None:
    """`data` of a request: the query of a GET, the body of anything else."""
    found = task.entry("data")
    if found is None:
        return
    doc.found("data", "`data`", "`params` or `json`", found.key)
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
        task.take("data")
        for one in block:
            key = parts[one.name]
            if key not in task:
                task.put(entry(key, one.value, near=one.key))
        return
    reads = text_of(task, "method").upper() in ("", "GET", "HEAD", "DELETE")
    new = "params" if reads else "json"
    if new not in task:
        task.rename("data", new)


def _data(doc: Lowering, task: MapNode, kind: str) -> None:
    found = task.entry("data")
    declared = doc.kinds.get(kind)
    if found is not None and declared is not None and "data" not in declared.keys:
        doc.found("data", "`data`", "`input`", found.key)
        _into_input(task, found)


def _join_statements(doc: Lowering, task: MapNode) -> None:
    """A list of statements is one text with all of them."""
    for word in ("command", "query"):
        found = task.entry(word)
        items = found.value.items if found is not None and isinstance(found.value, ListNode) else None
        if found is None or not items or not all(isinstance(item, Scalar) for item in items):
            continue
        doc.found("habit", f"a list under `{word}`", "one text; statements end with `;`", found.key)
        texts = [item.text.strip().rstrip(";") for item in items if isinstance(item, Scalar)]
        found.value = make("".join(_ended(text) for text in texts), near=found.value)
        task.changed = True


def _ended(statement: str) -> str:
    # Behind a comment the semicolon would be part of it.
    return f"{statement}\n;\n" if "--" in statement.rsplit("\n", 1)[-1] else f"{statement};\n"


def _timeout(doc: Lowering, task: MapNode, kind: str) -> None:
    declared = doc.kinds.get(kind)
    for word in ("timeout", "timeout_seconds", "timeout_s"):
        found = task.entry(word)
        if found is None or (declared is not None and word in declared.keys):
            continue
        doc.found("habit", f"`{word}` of a tool", "`spec.timeout`", found.key)
        task.take(word)
        spec = ensure_map(task, "spec", found.key)
        if "timeout" not in spec:
            spec.put(Entry(found.key, found.value))
            spec.rename(word, "timeout")


def _verify(doc: Lowering, task: MapNode) -> None:
    for word in ("verify_ssl", "ssl_verify", "verify"):
        found = task.entry(word)
        if found is not None and text_of(task, "kind") == "http":
            doc.found("habit", f"`{word}`", "`spec.verify`", found.key)
            task.take(word)
            ensure_map(task, "spec", found.key).put(entry("verify", found.value, near=found.key))


def _retry(doc: Lowering, task: MapNode) -> None:
    found = task.entry("retry")
    if found is None:
        return
    doc.found("habit", "`retry` of a tool", "a rule `{do: retry}` under `spec.policy.rules`", found.key)
    rule = retry_rule(doc, found, task.entry("kind"))
    task.take("retry")
    if rule is not None:
        add_rule(task, rule)


def add_rule(task: MapNode, rule: MapNode, *, first: bool = True) -> None:
    """Put a rule into a task's policy; errors that no rule matches still fail, as they do without a policy."""
    spec = ensure_map(task, "spec", rule)
    policy = ensure_map(spec, "policy", rule)
    rules = policy.get("rules")
    if not isinstance(rules, ListNode):
        policy.put(entry("rules", make([rule], near=rule), near=rule))
        policy.put(entry("on_unmatched", make("fail", near=rule), near=rule), at=0)
        return
    rules.items.insert(0 if first else len(rules.items), rule)
    rules.changed = True


def _policy(doc: Lowering, task: MapNode) -> None:
    """`policy` or `rules` beside `kind`: one level too shallow."""
    found = task.entry("policy")
    if found is not None and isinstance(found.value, MapNode):
        doc.found("habit", "`policy` beside `kind`", "`spec.policy`", found.key)
        task.take("policy")
        ensure_map(task, "spec", found.key).put(found)
    rules = task.entry("rules")
    if rules is not None and isinstance(rules.value, ListNode):
        doc.found("habit", "`rules` beside `kind`", "`spec.policy.rules`", rules.key)
        task.take("rules")
        ensure_map(ensure_map(task, "spec", rules.key), "policy", rules.key).put(rules)


_CREDENTIALS = {
    "bearer": "bearer", "token": "bearer", "basic": "basic", "api_key": "header", "apikey": "header", "header": "header",
    "oauth2": "oauth2_client_credentials", "oauth2_client_credentials": "oauth2_client_credentials",
    "postgres": "postgres_credential", "pg": "postgres_credential", "duckdb": "duckdb_credential",
    "s3": "s3_credential", "gcs": "s3_credential", "hmac": "s3_credential",
}  # fmt: skip


def _auth(doc: Lowering, task: MapNode, name: str) -> None:
    """`auth` as a map: a keychain entry of the fitting kind, and its name."""
    found = task.entry("auth")
    if found is None or not isinstance(found.value, MapNode):
        credential = task.entry("credential") or task.entry("credentials")
        if found is None and credential is not None and isinstance(credential.value, Scalar):
            doc.found("habit", f"`{credential.name}`", "`auth`", credential.key)
            task.rename(credential.name, "auth")
        return
    block = found.value
    if len(block.entries) == 1 and isinstance(block.entries[0].value, MapNode):
        block = block.entries[0].value  # auth: {pg: {type: postgres, key: pg_local}}
    stored = (
        text_of(block, "credential") or text_of(block, "key") or text_of(block, "name") or text_of(block, "source_key")
    )
    kind = _CREDENTIALS.get(text_of(block, "type") or text_of(block, "kind") or text_of(block, "provider"))
    if kind is None:
        kind = {"postgres": "postgres_credential", "duckdb": "duckdb_credential"}.get(text_of(task, "kind"))
    if stored and "{{" in stored:
        doc.found("habit", "`auth` as a map", "`auth: <name of a keychain entry>`", found.key)
        found.value = make(stored, near=found.value)
        task.changed = True
    elif stored and kind is not None:
        doc.found("habit", "`auth` as a map", "`auth: <name of a keychain entry>`", found.key)
        keychain_entry(doc, stored, kind, {}, found.value)
        found.value = make(stored, near=found.value)
        task.changed = True
    elif kind is not None:
        _inline_credential(doc, task, found, block, kind, name)
    else:
        doc.todo(found, "declare this credential under `keychain` and name it here", found.key)


def _inline_credential(doc: Lowering, task: MapNode, found: Entry, block: MapNode, kind: str, name: str) -> None:
    """Values that stood in the task itself."""
    doc.found("habit", "`auth` as a map", "`auth: <name of a keychain entry>`", found.key)
    known = {
        "token",
        "username",
        "password",
        "header",
        "token_url",
        "client_id",
        "client_secret",
        "scope",
        "audience",
        "prefix",
    }
    renamed = {"user": "username", "value": "token", "header_name": "header", "url": "token_url", "api_key": "token"}
    settings: dict[str, object] = {}
    options: dict[str, object] = {}
    for one in block.entries:
        key = renamed.get(one.name, one.name)
        if key in known:
            settings.setdefault(key, one.value)
        elif key not in ("type", "kind", "provider"):
            options[one.name] = one.value
    if options:
        settings["options"] = options
        names = ", ".join(f"`{key}`" for key in options)
        doc.todo(found, f"{names}: say this in the keys of the credential's kind", found.key)
    taken = {text_of(item, "name") for item in _keychain(doc)}
    made, number = f"{name}_auth", 2
    while made in taken:
        made, number = f"{name}_auth_{number}", number + 1
    keychain_entry(doc, made, kind, settings, found.value)
    task.put(entry("auth", make(made, near=found.value), near=found.key))


def _keychain(doc: Lowering) -> list[MapNode]:
    keychain = doc.root.get("keychain")
    return [item for item in keychain.items if isinstance(item, MapNode)] if isinstance(keychain, ListNode) else []


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
        doc.found(f"{text_of(task, 'kind')}-name", f"`name` as the {means}", f"`{means}: {named.text}`", named)
        task.put(entry(means, make(named.value, near=named), near=named), at=task.position("kind") + 1)


def _in_workbook(doc: Lowering, name: str) -> bool:
    workbook = doc.root.get("workbook")
    if isinstance(workbook, MapNode):
        return name in workbook
    return isinstance(workbook, ListNode)
