"""What older tasks run: `script` blocks, `libs`, `exports`, `assert`, whole statements, and templates of other languages."""

from __future__ import annotations

import re

from noetl.expr import template
from noetl.lang.legacy.lowered_document import Lowering, ensure_map, quote_entries
from noetl.lang.legacy.name_rewrite import as_expression
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, make, map_of, plain_value, text_of

#: by kind: the key that holds what is run, and the one that names a file
_RUNS = {"python": ("code", ""), "shell": ("cmd", "file"), "postgres": ("query", ""), "duckdb": ("query", "")}
_SQL = ("postgres", "duckdb")
#: keys of a script that say where its text is
_OF_A_SCRIPT = frozenset({"uri", "source", "type", "code", "content", "path", "file"})


def lower_script(doc: Lowering, task: MapNode) -> None:
    """`script: {uri, source: {type, code}}` is the code itself, or the file it names."""
    found = task.entry("script")
    key, file_key = _RUNS.get(text_of(task, "kind"), ("", ""))
    if found is None or not isinstance(found.value, MapNode) or not key or key in task:
        return
    source = map_of(found.value, "source") or found.value
    code = source.entry("code") or source.entry("content") or found.value.entry("code")
    path = next((text for word in ("path", "uri", "file") for text in (text_of(source, word),) if text), "")
    path = path or text_of(found.value, "uri")
    if code is not None and text_of(source, "type") in ("", "inline"):
        doc.report_older("habit", "`script` with an inline source", f"`{key}`", found.key)
        taken = entry(key, code.value, near=found.key)
    elif file_key and path and text_of(source, "type") in ("", "file"):
        doc.report_older("habit", "`script` with a file as its source", f"`{file_key}`", found.key)
        taken = entry(file_key, make(path, near=found.key), near=found.key)
    else:
        said = f"put the text of {path or 'the script'} here: {quote_entries([found])}"
        doc.report_older("habit", "`script` with a source elsewhere", f"its text under `{key}`", found.key)
        taken = entry(key, make(_say_missing(key, path), near=found.key), near=found.key)
        _replace(task, found, taken)
        doc.todo(taken, said, found.key)
        return
    _replace(task, found, taken)
    blocks = (found.value,) if source is found.value else (found.value, source)
    left = [one for block in blocks for one in block if one.name not in _OF_A_SCRIPT]
    if left:
        doc.todo(taken, f"the script also said {quote_entries(left)}", found.key)


def _say_missing(key: str, path: str) -> str:
    """Something to run that fails and says what is missing, so that nothing is skipped in silence."""
    if key == "code":
        return f"raise NotImplementedError({f'put the text of {path} here'!r})\n"
    return "echo 'put the script here' >&2; exit 1" if key == "cmd" else "SELECT missing_script"


def _replace(task: MapNode, old: MapEntry, new: MapEntry) -> None:
    at = task.position(old.name)
    task.take(old.name)
    task.put(new, at=at)


def lower_exports(doc: Lowering, task: MapNode) -> None:
    """`exports` of a shell task: variables of its environment."""
    found = task.entry("exports") or task.entry("export")
    if found is None or text_of(task, "kind") != "shell":
        return
    if not isinstance(found.value, MapNode):
        doc.refuse("habit", task, found, "write these as a map under `env`")
        return
    doc.report_older("habit", f"`{found.name}`", "`env`", found.key)
    task.take(found.name)
    env = ensure_map(task, "env", found.key)
    for one in found.value.entries:
        doc.keep(env, one, f"`{found.name}`")


def lower_assert(doc: Lowering, holder: MapNode) -> None:
    """`assert: {expects, returns}`: schemas of what goes in and comes out."""
    found = holder.entry("assert")
    block = map_of(holder, "assert")
    if found is None or block is None:
        return
    named = {"input": block.get("expects"), "output": block.get("returns")}
    lists = {side: _names(node) for side, node in named.items() if node is not None}
    if any(names is None for names in lists.values()) or any(one.name not in ("expects", "returns") for one in block):
        doc.refuse("habit", holder, found, "write this as a JSON Schema under `spec.validate`")
        return
    doc.report_older("habit", "`assert`", "`spec.validate`", found.key)
    holder.take("assert")
    checks = ensure_map(ensure_map(holder, "spec", found.key), "validate", found.key)
    for side, names in lists.items():
        if names:
            schema = make({"type": "object", "required": names}, near=found.key)
            doc.keep(checks, entry(side, schema, near=found.key), "`assert`")


def _names(node: Node) -> list[str] | None:
    """A list of plain names; None if it is something else."""
    said = plain_value(node)
    items = said if isinstance(said, list) else [said]
    return items if all(isinstance(item, str) and re.fullmatch(r"\w+", item) for item in items) else None


def import_lines(libs: MapNode) -> list[str] | None:
    """The imports that `libs` stood for; None if one of them is something else."""
    lines = []
    for one in libs.entries:
        name = one.name
        if isinstance(one.value, MapNode):
            module, taken = text_of(one.value, "from"), text_of(one.value, "import")
            if not (module or taken):
                return None
            start = f"from {module} import {taken or name}" if module else f"import {taken}"
            lines.append(start if (taken or name) == name else f"{start} as {name}")
        elif isinstance(one.value, Scalar):
            module = one.value.text or name
            lines.append(f"import {module}" if module == name else f"import {module} as {name}")
        else:
            return None
    return lines


# --- templates of other languages ------------------------------------------------------------------------------


_BLOCK = re.compile(r"\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}|\{\{.*?\}\}", re.DOTALL)
#: what no expression of Jinja2 begins with
_FOREIGN = re.compile(
    r"\{\{-?\s*(?:\.|\$|(?:range|with|if|json|printf|println|index|len|join|split|title|lower|upper)\s+[.$\"(])"
)
_FOREIGN_WORD = re.compile(r"\{\{-?\s*(?:end|else)\s*-?\}\}")


def lower_foreign_templates(doc: Lowering, task: MapNode) -> None:
    """`{{.ID}}` in a shell command is a template of another program: it is handed on as it is."""
    cmd = task.get("cmd") if text_of(task, "kind") == "shell" else None
    for node in cmd.items if isinstance(cmd, ListNode) else [cmd]:
        if not isinstance(node, Scalar) or not any(_FOREIGN.match(one) for one in _BLOCK.findall(node.text)):
            continue
        doc.report_older("habit", "a template of another language", "it inside of `{% raw %}`", node)
        node.rewrite(_BLOCK.sub(_keep_raw, node.text))


def _keep_raw(found: re.Match[str]) -> str:
    block = found[0]
    foreign = _FOREIGN.match(block) or _FOREIGN_WORD.match(block)
    return f"{{% raw %}}{block}{{% endraw %}}" if foreign else block


# --- statements ------------------------------------------------------------------------------------------------


_POSITION = re.compile(r"(?<![\w$])\$(\d+)(?!\w)")


def lower_positions(doc: Lowering, task: MapNode) -> None:
    """`$1` with a list of parameters: the values themselves, each at its place."""
    found = next((one for word in ("parameters", "params") if (one := task.entry(word)) is not None), None)
    text = task.get("query") or task.get("command")
    if found is None or not isinstance(found.value, ListNode) or not isinstance(text, Scalar):
        return
    values = [as_expression(item) if isinstance(item, Scalar) else None for item in found.value.items]
    places = {int(number) for number in _POSITION.findall(text.text)}
    if None in values or not places <= set(range(1, len(values) + 1)):
        doc.refuse("habit", task, found, "write each `{{ … }}` where its `$1` stands")
        return
    doc.report_older("habit", f"a list under `{found.name}`", "the values in the statement", found.key)
    task.take(found.name)
    text.rewrite(_POSITION.sub(lambda place: f"{{{{ {values[int(place[1]) - 1]} }}}}", text.text))


_WHOLE = re.compile(r"\s*\{\{-?\s*(?P<expression>.+?)\s*-?\}\}\s*;?\s*", re.DOTALL)
_PATH = re.compile(r"[\w.\[\]'\"]+")
_SPLICED = re.compile(r"\|\s*sql\s*$")


def lower_whole_statement(doc: Lowering, task: MapNode) -> None:
    """A statement that is nothing but one template cannot be bound: `| sql` says that it is meant."""
    if text_of(task, "kind") not in _SQL or not (doc.accepted or doc.migrating):
        return
    for word in ("query", "command"):
        node = task.get(word)
        if isinstance(node, Scalar) and isinstance(node.value, str) and (made := splice(node.text)) is not None:
            doc.report_older("habit", "a whole statement in a template", "it with the filter `sql`", node)
            node.rewrite(made)


def splice(text: str) -> str | None:
    """A statement that is one template, with the filter `sql`; None if it is anything else, or has the filter."""
    found = _WHOLE.fullmatch(text)
    if found is None or "{{" in found["expression"] or "}}" in found["expression"] or template(text).facts.problems:
        return None
    expression = found["expression"]
    if _SPLICED.search(expression):
        return None
    return f"{{{{ {expression if _PATH.fullmatch(expression) else f'({expression})'} | sql }}}}"
