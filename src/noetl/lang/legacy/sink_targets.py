"""The target of one sink: where it writes, what it writes, and by which names it calls the result of its tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from noetl.expr import has_template
from noetl.lang.legacy.keychain import lower_auth
from noetl.lang.legacy.lowered_document import MARK, Lowering, quote_entries, strings
from noetl.lang.legacy.name_meanings import HTTP
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.legacy.scanner import ENVELOPE
from noetl.lang.legacy.workflow.task_keys import add_rule, lower_task
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, copy, entry, make, text_of

WHOLE = "{{ output.data }}"
SQL = frozenset({"postgres", "duckdb"})
_KINDS = frozenset({"postgres", "duckdb", "s3", "http", "file"})
_LOG = frozenset({"event", "event_log"})
_RENAMED = {"endpoint": "url", "payload": "body"}
_ARGS = ("args", "data")
#: what a file is given may also stand here; other targets have a body beside their rows
_FILE_ARGS = (*_ARGS, "body", "payload")
#: names that every sink could use for the result, and those of them that nothing else can be called
_RESULT = frozenset({"this", "out", "result", "response", "data", "tool_result"})
OWN = frozenset({"this", "result"})
_BODY = frozenset({"body", "data", "rows", "json", "result"})
#: names of arguments that hold rows rather than a column
_ROWS = frozenset({"rows", "items", "records", "results", "activities"})
#: a plain name, and a template that is no more than a path
_NAME = re.compile(r"[A-Za-z_]\w*")
_PATH = re.compile(r"\{\{\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\}\}")
#: what a response has and a body does not
_OF_A_RESPONSE = (("status_code",), ("headers",), ("elapsed",))
_IS_THERE = re.compile(r"\b(?:this|result|response)(?:\.data)?\s+is\s+defined\b")
_WORDS = {"ok": "ok", "success": "ok", "error": "error", "failed": "error"}
#: by kind: the keys that say how to write, in place of where
_STATEMENTS = {"postgres": ("statement", "command", "query", "sql"), "duckdb": ("commands", "command", "query", "statement"),
               "python": ("code",), "shell": ("cmd", "cmds")}  # fmt: skip


@dataclass
class SinkOrigin:
    """The tool whose result a sink writes."""

    kind: str = ""
    #: the name it gave its result
    result: str = ""
    code: str = ""
    #: names that mean something else here: elements of loops, steps, the workload
    taken: frozenset[str] = frozenset()
    #: the step, if it loops: its name stood for the iteration too
    looping: str = ""
    #: the loop that has ended, if this is its sink
    ended: str = ""
    #: of a request: its url, as an expression
    url: str = ""
    has_parameters: bool = False
    #: what is read under `data` is the response with its status, and not the body
    is_wrapped: bool = False
    #: what its sinks leave open, since the last who asked
    doubts: list[str] = field(default_factory=list)

    def doubt(self, text: str) -> None:
        """Leave something to a person."""
        if text not in self.doubts:
            self.doubts.append(text)

    def settle(self, doc: Lowering, at: MapEntry | None, near: Scalar) -> None:
        """Ask what was left open."""
        for text in self.doubts:
            doc.todo(at, text, near)
        self.doubts.clear()

    def is_result(self, chain: NameChain) -> bool:
        """Whether a name stands for the result."""
        root = chain.parts[0]
        return root.removeprefix(MARK) == self.result or (root in _RESULT and root not in self.taken)

    def of_loop(self, chain: NameChain) -> ChainRename | None:
        """What a loop that has ended is known by: its list, and its length."""
        words = chain.parts
        at = 1 if words[0] == self.ended or self.is_result(chain) else 0
        if words[at : at + 1] in (("results",), ("data",)):
            return ChainRename(at + 1, "output.data")
        if words[at : at + 1] in (("count",), ("total",)):
            return ChainRename(at + 1, "output.data | length" if len(words) == at + 1 else "(output.data | length)")
        return ChainRename(1, "output.data") if at else None

    def in_output(self, chain: NameChain) -> ChainRename | None:
        """The result, or a part of it, behind its tool."""
        parts = chain.parts
        if self.ended:
            return self.of_loop(chain)
        if self.looping and parts[0] == self.looping and parts[1:2] in (("result_index",), ("index",)):
            return ChainRename(2, "iter.index")
        if not self.is_result(chain):
            return None
        after = parts[1] if len(parts) > 1 and not (chain.called and len(parts) == 2) else ""
        return self._of_response(parts) if self.is_wrapped and after == "data" else self._of_result(chain, after)

    def _of_result(self, chain: NameChain, after: str) -> ChainRename:
        """A part of the result, by the kind of its tool."""
        if after in HTTP and self.kind in ("http", ""):
            if after == "status" and set(chain.compared) & _WORDS.keys():
                return ChainRename(2, "output.status", compared=_WORDS)
            return ChainRename(2, f"output.http.{HTTP[after]}")
        if self.kind == "postgres" and after in ("row_count", "rowcount"):
            return ChainRename(2, "output.pg.rowcount")
        if self.kind in SQL and chain.parts[1:3] == ("command_0", "rows"):
            return ChainRename(3, "output.data")
        if after not in _BODY:
            return ChainRename(1, "output.data")
        self._look_behind(chain, after)
        return ChainRename(2, "output.data")

    def look_at(self, sinks: Node) -> None:
        """Find out what sinks of a request mean by `this.data`: who reads the status under it means the response."""
        found: list[bool] = []

        def look(chain: NameChain) -> None:
            found.append(self.is_result(chain) and chain.parts[1:2] == ("data",) and chain.parts[2:3] in _OF_A_RESPONSE)

        for node in strings(sinks) if self.kind == "http" else ():
            rewrite(node.text, look)
        self.is_wrapped = any(found)
        for node in strings(sinks) if self.is_wrapped else ():
            node.rewrite(_IS_THERE.sub("output.data is defined", node.text))

    def _of_response(self, parts: tuple[str, ...]) -> ChainRename:
        facts = {"status_code": "output.http.status", "headers": "output.http.headers", "url": self.url or "output.data.url",
                 "elapsed": "(output.meta.duration_ms / 1000)", "data": "output.data"}  # fmt: skip
        word = {"body": "data"}.get(parts[2], parts[2]) if len(parts) > 2 else ""
        if word in facts:
            if word == "url" and (self.has_parameters or not self.url):
                self.doubt(
                    "`url` is that of the request, without its parameters" if self.url else "write the url by hand"
                )
            return ChainRename(3, facts[word])
        if word:
            return ChainRename(2, "output.data")
        return ChainRename(
            2, "{" + ", ".join(f"'{key}': {fact}" for key, fact in facts.items() if fact != "output.data.url") + "}"
        )

    def _look_behind(self, chain: NameChain, after: str) -> None:
        """`result.data` is the result; a key of that name may have been meant."""
        if self.kind == "http" and chain.parts[2:3] == ("url",):
            self.doubt("`url` is read out of the body; the request's own is the task's `url`")
        if self.kind == "http" and chain.parts[2:3] and chain.parts[2] in ENVELOPE:
            name = f"output.data.{chain.parts[2]}"
            self.doubt(f"`{name}`: `output.data` is the body itself, and its status is `output.http.status`")
        elif f"'{after}'" in self.code or f'"{after}"' in self.code:
            name = ".".join(chain.parts[:2])
            self.doubt(f"`{name}` became all that the code returns; for its key `{after}` write `output.data.{after}`")

    def in_row(self, chain: NameChain) -> ChainRename | None:
        """A field of the row in hand."""
        if not self.is_result(chain):
            return None
        consumed = 2 if len(chain.parts) > 2 and chain.parts[1] in _BODY else 1
        field_of = chain.parts[consumed : consumed + 1]
        if not field_of or field_of[0].isdigit():
            return self.in_output(chain)
        return ChainRename(consumed, "row")

    def rename(self, node: Node) -> Node:
        """A copy that speaks of `output`."""
        made = copy(node)
        for one in strings(made):
            one.rewrite(rewrite(one.text, self.in_output))
        return made


# --- what a sink is --------------------------------------------------------------------------------------------


def iter_sinks(node: Node) -> Iterator[MapNode | Scalar]:
    """The sinks under `sink`: one, or a list."""
    for item in node.items if isinstance(node, ListNode) else [node]:
        if isinstance(item, MapNode | Scalar):
            yield item


def body_of(sink: MapNode) -> MapNode:
    """`- postgres: {…}` and `storage: {type: postgres, …}` hold the sink one level deeper."""
    body = sink
    only = sink.entries[0] if len(sink.entries) == 1 else None
    if only is not None and only.name in _KINDS and isinstance(only.value, MapNode):
        body = only.value
        if "kind" not in body:
            body.put(entry("kind", make(only.name, near=body), near=body), at=0)
    else:
        inner = next((node for word in ("storage", "tool") if isinstance(node := sink.get(word), MapNode)), None)
        if inner is not None:
            for one in sink.entries:
                if one.value is not inner and one.name not in inner:
                    inner.put(one)
            body = inner
    for word in ("storage", "type", "tool"):
        if "kind" not in body and isinstance(body.get(word), Scalar):
            body.rename(word, "kind")
    return body


def is_log(sink: MapNode | Scalar) -> bool:
    """Whether a sink is the event log."""
    return (text_of(body_of(sink), "kind") if isinstance(sink, MapNode) else sink.text) in _LOG


def writes_itself(sink: MapNode) -> bool:
    """Whether a sink has a statement or code of its own."""
    body = body_of(sink)
    return any(key in body for key in _STATEMENTS.get(text_of(body, "kind"), ()))


def args_of(sink: MapNode) -> MapEntry | None:
    """What a sink is given to write."""
    body = body_of(sink)
    words = _args_words(body)
    return next((found for word in words if (found := body.entry(word)) is not None and not _is_empty(found)), None)


def _args_words(body: MapNode) -> tuple[str, ...]:
    return _FILE_ARGS if text_of(body, "kind") == "file" else _ARGS


def _is_empty(one: MapEntry) -> bool:
    value = one.value
    if isinstance(value, Scalar):
        return value.value in (None, "")
    return not (value.entries if isinstance(value, MapNode) else value.items)


# --- what it writes --------------------------------------------------------------------------------------------


def data_of(sink: MapNode, origin: SinkOrigin) -> Node | str:
    """The rows a sink writes, or the one row whose columns it names."""
    given = args_of(sink)
    if given is None:
        return WHOLE
    if not isinstance(given.value, MapNode):
        data = _text(origin.rename(given.value))
        if given.name in ("body", "payload") and isinstance(data, str) and not data.startswith("{{"):
            origin.doubt(f"a file holds rows, and this is text: {quote_entries([given])}")
        return data
    rows = _rows_or_column(given.value, origin) or rows_of(given.value, origin)
    if rows is not None:
        return rows
    if "mapping" in body_of(sink):
        origin.doubt("the sink had `args` and `mapping`: say which of them names the columns")
    row = origin.rename(given.value)
    is_postgres = text_of(body_of(sink), "kind") == "postgres"
    for node in strings(row):
        if is_postgres:
            node.rewrite(_without_json(node.text))
        elif node.text.strip() == WHOLE:
            node.rewrite("{{ output.data | tojson }}")  # a whole payload in one column is written as JSON
    return make([row], near=given.value)


_JSON = re.compile(r"(\{\{-?\s*)((?:(?!\{\{|\}\}|\|).)+?)\s*\|\s*to_?json(?:\(\))?\s*(-?\}\})", re.DOTALL)


def _without_json(text: str) -> str:
    """A map or a list for a column: as JSON in one of text, and as it is in one of JSON, where text would be a text."""
    found = _JSON.fullmatch(text.strip())
    return f"{found[1]}{found[2].strip()} {found[3]}" if found is not None else text


def _rows_or_column(args: MapNode, origin: SinkOrigin) -> str | None:
    """One argument is the rows if it is a list of maps, else a column of one row; what it is, the run will show."""
    only = args.entries[0] if len(args.entries) == 1 else None
    if only is None or only.name in _ROWS or not isinstance(only.value, Scalar) or not _NAME.fullmatch(only.name):
        return None
    found = _PATH.fullmatch(str(_text(origin.rename(only.value))))
    if found is None or (found[1] == "output.data" and origin.kind in (*SQL, "transfer")):
        return None
    value = found[1]
    rows = f"{value} is iterable and {value} | reject('mapping') | list == []"
    return f"{{{{ {value} if {rows} else [{{'{only.name}': {value}}}] }}}}"


def rows_of(args: MapNode, origin: SinkOrigin) -> Node | str | None:
    """`args: {rows: "{{ result.data }}"}`: these are the rows."""
    only = args.entries[0] if len(args.entries) == 1 else None
    if only is None:
        return None
    if isinstance(only.value, ListNode):
        return origin.rename(only.value) if all(isinstance(item, MapNode) for item in only.value.items) else None
    if not isinstance(only.value, Scalar) or not isinstance(only.value.value, str) or not has_template(only.value.text):
        return None
    rows = _text(origin.rename(only.value))
    is_whole = isinstance(rows, str) and rows.replace(" ", "") == "{{output.data}}"
    if only.name not in (*_ROWS, "data") and not is_whole:
        return None
    if only.name not in _ROWS and not (is_whole and origin.kind in (*SQL, "transfer")):
        origin.doubt(f"if this is no list of rows, it was one row with the column `{only.name}`")
    return rows


def _text(node: Node) -> Node | str:
    return node.text.strip() if isinstance(node, Scalar) and isinstance(node.value, str) else node


def target_of(doc: Lowering, sink: MapNode, origin: SinkOrigin, name: str) -> MapNode:
    """Where a sink writes, as a target of a transfer."""
    body = body_of(sink)
    kind = text_of(body, "kind")
    given = args_of(sink)
    target = MapNode([], body.start, body.end)
    target.changed = True
    left: list[MapEntry] = []
    words = _args_words(body)
    for one in body.entries:
        key = "file" if one.name == "database" and kind == "duckdb" else _RENAMED.get(one.name, one.name)
        if key == "spec" or (one.name in words and one is not given and not _is_empty(one)):
            left.append(one)
        elif one.name not in words and one.name != "storage":
            target.put(entry(key, one.value, near=one.key) if key != one.name else one)
    if left:
        origin.doubt(f"the sink also said {quote_entries(left)}")
    lower_auth(doc, target, name)
    for one in target.entries:
        for node in strings(one.value):
            node.rewrite(rewrite(node.text, origin.in_row if one.name == "mapping" else origin.in_output))
    if kind not in _KINDS:
        doc.todo(target.entry("kind"), f"`{kind}` is no target of a transfer: write it as a task of its own", body)
    return target


# --- sinks that are tasks --------------------------------------------------------------------------------------


def own_task(doc: Lowering, sink: MapNode, origin: SinkOrigin, name: str) -> MapNode:
    """A sink with a statement or code of its own."""
    body = body_of(sink)
    kind = text_of(body, "kind")
    given = [one for one in (body.take(word) for word in (*_ARGS, "params")) if one is not None and not _is_empty(one)]
    task = MapNode([entry("name", make(name, near=body)), *body.entries], body.start, body.end)
    task.changed = True
    on_error = task.take("on_error")
    _give(task, given, origin)
    for one in task.entries:
        for node in strings(one.value) if one.name != "code" else []:
            node.rewrite(rewrite(node.text, origin.in_output))
            if given and one.name != "input":
                node.rewrite(rewrite(node.text, _params_are_input))
    if kind == "python" and not given and "main()" not in text_of(task, "code"):
        origin.doubt("the code of a sink was given the result: say so under `input`, by the names it uses")
    task.put(entry("output", make("{{ _prev }}", near=body)))
    lower_task(doc, task, name)
    if on_error is not None and isinstance(on_error.value, Scalar) and on_error.value.text == "warn":
        rule = make({"when": "{{ output.status == 'error' }}", "then": {"do": "skip"}}, near=on_error.key)
        assert isinstance(rule, MapNode)
        add_rule(task, rule)
    return task


def _give(task: MapNode, given: list[MapEntry], origin: SinkOrigin) -> None:
    """Make what a sink is given the input of its task."""
    if not given:
        return
    first, *others = given
    block = first.value
    for other in others:
        more = other.value.entries if isinstance(other.value, MapNode) else []
        if more and isinstance(block, MapNode) and not any(one.name in block for one in more):
            for one in more:
                block.put(one)
        else:
            origin.doubt(f"the sink also said {quote_entries([other])}")
    task.put(entry("input", block, near=first.key))


def _params_are_input(chain: NameChain) -> ChainRename | None:
    return ChainRename(1, "input") if chain.parts[0] == "params" and len(chain.parts) > 1 else None


def log_task(sink: MapNode, origin: SinkOrigin, name: str) -> MapNode | None:
    """What was written to the event log is in there, with the write of a step's value; a whole result is anyway."""
    given = args_of(sink)
    value = origin.rename(given.value) if given is not None else None
    if given is None or value is None or (isinstance(value, Scalar) and value.text.strip() == WHOLE):
        origin.doubts.clear()  # whichever part was meant, the log has it
        return None
    settings = {"name": name, "kind": "noop", "output": "{{ _prev }}", "set": {f"step.{name}": value}}
    made = make(settings, near=given.key)
    assert isinstance(made, MapNode)
    return made
