"""Texts that a reader of playbooks may meet: random ones, ones made of the language's own words, and broken real ones.

Everything is drawn from a `random.Random`, so that a seed is enough to make a text again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n"

NAMES = ["start", "a", "b", "end", "fetch", "task_1", "x y", "data", "item", "ctx", "é", "1", "true", ""]
KINDS = ["noop", "python", "http", "postgres", "duckdb", "shell", "script", "playbook", "workbook", "secrets",
         "resolve", "transfer", "wait", "router", "iterator", "task_sequence", "nosuch", "save"]  # fmt: skip
WORDS = ["step", "name", "desc", "description", "tool", "type", "kind", "input", "args", "with", "spec", "policy",
         "rules", "admit", "when", "then", "else", "do", "attempts", "backoff", "delay", "to", "set", "set_ctx",
         "set_iter", "output", "outcome", "eval", "expr", "next", "arcs", "mode", "next_mode", "case", "event", "loop",
         "in", "iterator", "collection", "element", "until", "while", "choose", "complete_when", "reduce", "sink",
         "save", "storage", "table", "result", "as", "vars", "bind", "pipe", "retry", "max_attempts", "initial_delay",
         "retry_when", "stop_when", "on_error", "timeout_s", "lifecycle", "auth", "credential", "credentials", "code",
         "url", "endpoint", "method", "params", "headers", "payload", "data", "command", "commands", "query", "cmds",
         "path", "return_step", "join", "from", "need", "rest", "fire", "terminate", "cancel", "synthesize", "plan",
         "max_steps", "iter", "ctx", "workload", "x-note", "task", "tasks", "action", "runtime", "libs", "connection",
         "key", "value", "provider", "<<", "failure", "max_jumps", "max_in_flight", "exec", "parallel", "enabled"]  # fmt: skip
ROOTS = ["apiVersion", "kind", "metadata", "keychain", "executor", "workload", "workflow", "workbook", "vars", "name",
         "path", "steps", "credentials", "x-more"]  # fmt: skip
PATHS = ["ctx.a", "iter.item", "workload.url", "output.data", "output.data.rows[0].id", "outcome.result", "outcome",
         "outcome.error.kind", "args.a", "input.a", "vars.a", "result", "response.status_code", "start.data", "fetch",
         "_prev", "event.name", "error", "step.n", "keychain.db.token", "execution_id", "item", "loop.total",
         "outcome.http.status", "context.a", "a.b.c", "_task", "token.args.x", "secret.x", "env.HOME"]  # fmt: skip
FILTERS = ["default(1)", "length", "tojson", "upper", "nosuch", "int", "default([])", "b64encode", "list", "join(',')"]
PLAIN: list[Any] = [None, True, False, 0, 1, -3, 2.5, 10**30, "", "text", "a: b", "# not a comment", "10", "null",
                    "continue", "retry", "jump", "fail", "exclusive", "inclusive", "parallel", "GET", "append",
                    "noetl.io/v1", "noetl.io/v2", "noetl.io/v10", "Playbook", "call.done", "a\nb\n", " lead", "tab\t",
                    "é\u2028x", "def main(a):\n    return {'x': a}\n", "SELECT {{ ctx.a }} FROM t;", "{{", "}}", "{% if %}",
                    "{{ ctx.a", "{{ }}", "\x85", "\ufeff", "\U0001f600", "- x", "[", "*a", "&a", "!t", "%", "@", "`"]  # fmt: skip


class Text(NamedTuple):
    """A playbook of the corpus."""

    name: str
    text: str
    case: dict[str, Any]


@functools.cache
def corpus() -> tuple[Text, ...]:
    """The playbooks of the conformance suite and of the examples."""
    found = []
    for path in sorted((ROOT / "tests" / "conformance" / "cases").rglob("*.yaml")):
        case = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        found.append(Text(str(path.relative_to(ROOT)), case["playbook"], case))
    examples = sorted((ROOT / "examples").rglob("*.yaml"))
    found += [Text(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), {}) for path in examples]
    return tuple(found)


# -- noise


def noise(rng: Random) -> bytes:
    """Bytes, with more or less of YAML in them."""
    size = rng.choice([0, 1, 3, 10, 40, 200])
    sort = rng.randrange(4)
    if sort == 0:
        return rng.randbytes(size)
    if sort == 1:
        alphabet = "ab01 \t\n:-?,[]{}#&*!|>'\"%@`\\<=~.+\r"
        return "".join(rng.choice(alphabet) for _ in range(size)).encode()
    if sort == 2:
        ranges = [(0, 0x80), (0x80, 0x300), (0x2000, 0x2100), (0xE000, 0x10000), (0x10000, 0x110000)]
        return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(size)).encode()
    pieces = [*WORDS, *ROOTS, ": ", ":", "- ", "\n", "\n", "\n  ", "\n    ", "{{ ", " }}", "[", "]", "{", "}", ", ",
              '"', "'", " # c", "&a ", "*a", "<<: ", "|\n", ">-\n", "---\n", "...\n", "!!str ", "? ", "\r\n", "\t"]  # fmt: skip
    return "".join(rng.choice(pieces) for _ in range(size)).encode()


# -- words of the language


def template(rng: Random) -> str:
    """A text with an expression, which may be of an older dialect."""
    path = rng.choice(PATHS)
    tail = f" | {rng.choice(FILTERS)}" if rng.random() < 0.3 else ""
    tail += f" {rng.choice(['==', '<', 'in', 'and', 'is', '~'])} {rng.choice(['1', 'none', path, 'defined', '[]'])}" * (
        rng.random() < 0.3
    )
    made = f"{{{{ {path}{tail} }}}}"
    sort = rng.random()
    if sort < 0.1:
        return f"{made} == 'success'"
    if sort < 0.2:
        return f"x {made}/{{{{ {rng.choice(PATHS)} }}}}"
    if sort < 0.25:
        return f"{{% for i in {path} %}}{{{{ i }}}}{{% endfor %}}"
    return made


def anything(rng: Random, depth: int) -> Any:
    """Any data, out of words of the language."""
    sort = rng.random()
    if depth <= 0 or sort < 0.35:
        sort = rng.random()
        return template(rng) if sort < 0.4 else rng.choice(NAMES) if sort < 0.6 else rng.choice(PLAIN)
    if sort < 0.6:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {word(rng): anything(rng, depth - 1) for _ in range(rng.randrange(5))}


def word(rng: Random) -> str:
    """A key."""
    return (
        rng.choice(WORDS) if rng.random() < 0.85 else rng.choice([*ROOTS, *NAMES, "ctx.a", "iter.b", "step.c", "a.b"])
    )


def wild(rng: Random) -> Any:
    """A document in which anything may stand anywhere."""
    root = {name: anything(rng, rng.randrange(5)) for name in rng.sample(ROOTS, rng.randrange(1, 6))}
    root |= {word(rng): anything(rng, 3) for _ in range(rng.randrange(2))}
    if rng.random() < 0.7:
        root["workflow"] = [anything(rng, 4) for _ in range(rng.randrange(4))]
    return root


# -- playbooks that are nearly right, mostly of older dialects


class Maker:
    """Makes playbooks with a random choice of constructs, old and new; one in `odd` values is not what is expected."""

    def __init__(self, rng: Random, odd: float) -> None:
        self.rng = rng
        self.odd = odd
        self.steps = [*rng.sample(["start", "a", "b", "fetch", "end", "merge"], rng.randrange(1, 5))]

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *makers: Callable[[], Any] | Any) -> Any:
        if self.chance(self.odd):
            return anything(self.rng, 2)
        made = self.rng.choice(makers)
        return made() if callable(made) else made

    def some(self, makers: dict[str, Callable[[], Any]], share: float) -> dict[str, Any]:
        names = [name for name in makers if self.chance(share)]
        self.rng.shuffle(names)
        return {name: self.pick(makers[name]) for name in names}

    def document(self) -> dict[str, Any]:
        made: dict[str, Any] = {"apiVersion": self.pick("noetl.io/v2", "noetl.io/v2", "noetl.io/v1", "noetl.io/v10")}
        made |= {"kind": "Playbook", "metadata": self.pick({"name": "p"}, {"name": "p", "path": "p/q", "title": "t"})}
        made |= self.some(
            {
                "workload": self.values,
                "vars": self.values,
                "keychain": self.keychain,
                "executor": lambda: self.pick({"spec": {"entry_step": self.target()}}, {"profile": "local"}),
                "workbook": self.workbook,
            },
            0.2,
        )
        made["workflow"] = self.pick(lambda: [self.step(name) for name in self.steps])
        return made

    def keychain(self) -> Any:
        item = {"name": "db", "kind": self.pick("postgres_credential", "bearer", "env", "oauth2", "secret_manager")}
        return self.pick([item], {"db": item}, [{**item, "auth": "gcp", "map": {"t": "x"}}])

    def workbook(self) -> Any:
        task = {"name": "w", **self.task()}
        return self.pick({"w": self.task()}, [task], [{"name": "w", "tool": self.task()}], {"w": {"tool": self.task()}})

    def target(self) -> str:
        return self.rng.choice([*self.steps, *self.steps, "nowhere"])

    def text(self) -> Any:
        return template(self.rng)

    def values(self) -> Any:
        return {self.rng.choice(["a", "b", "item", "url"]): self.pick(self.text, 1, "x", [1, 2]) for _ in range(2)}

    def writes(self) -> Any:
        flat = {self.rng.choice(["ctx.a", "iter.b", "step.c", "a", "vars.x", "ctx.a.b"]): self.pick(self.text, 1)}
        return self.pick(flat, flat, {"ctx": self.values()}, [{"ctx.a": self.text()}])

    def step(self, name: str) -> Any:
        made = {self.rng.choice(["step"] * 9 + ["name"]): name}
        made |= self.some(
            {
                "desc": lambda: "d",
                "description": lambda: "d",
                "when": self.text,
                "vars": self.values,
                "input": self.values,
                "args": self.values,
                "loop": self.loop,
                "set": self.writes,
                "output": self.text,
                "case": self.case,
                "sink": self.sink,
                "retry": self.retry,
                "result": lambda: {"as": self.rng.choice(["a", "r"])},
                "bind": lambda: "r",
                "next_mode": lambda: self.pick("inclusive", "exclusive", "parallel"),
                "spec": self.step_spec,
            },
            0.12,
        )
        if self.chance(0.7):
            made |= self.some({"next": self.next}, 1)
        if self.chance(0.8):
            word = self.rng.choice(["tool"] * 8 + ["type", "pipe"])
            many = lambda: [self.labelled() for _ in range(self.rng.randrange(1, 3))]  # noqa: E731
            made[word] = self.pick(self.task, many, many, self.rng.choice(KINDS))
            if not isinstance(made[word], dict | list):
                made |= self.config()
        return made

    def labelled(self) -> Any:
        task = self.task()
        sort = self.rng.random()
        if sort < 0.5:
            return {self.rng.choice(["t1", "t2", "fetch"]): task}
        if sort < 0.6:
            return {"while": {"when": self.text(), "max": 3, "do": [task]}}
        if sort < 0.7:
            return {"choose": [{"when": self.text(), "then": [task]}, {"else": {"then": [task]}}]}
        return {"name": "t3", **task}

    def config(self) -> dict[str, Any]:
        return self.some(
            {
                "url": self.text,
                "endpoint": lambda: "http://x",
                "method": lambda: "GET",
                "code": lambda: "def main(a):\n    return a\n",
                "command": lambda: "echo {{ ctx.a }}",
                "query": lambda: "SELECT {{ ctx.a }}",
                "payload": self.values,
                "with": self.values,
                "path": lambda: "p/q",
                "task": lambda: "w",
            },
            0.2,
        )

    def task(self) -> dict[str, Any]:
        made = {"kind": self.pick(*KINDS[:12], "http", "http", "python")} | self.config()
        return made | self.some(
            {
                "input": self.values,
                "args": self.values,
                "auth": lambda: self.pick("{{ keychain.db }}", "db", {"type": "postgres", "credential": "db"}),
                "output": self.text,
                "set": self.writes,
                "spec": self.task_spec,
                "eval": self.rules,
                "sink": self.sink,
                "retry": self.retry,
                "result": lambda: {"as": "r"},
                "outcome": self.text,
            },
            0.15,
        )

    def rules(self) -> Any:
        items = [self.pick({"when": self.text(), "then": self.then()}, {"expr": self.text(), "do": "retry"}), ]  # fmt: skip
        return self.pick([*items, {"else": self.pick({"then": self.then()}, self.then())}], items)

    def then(self) -> Any:
        made = {"do": self.pick("continue", "retry", "jump", "fail", "break", "skip")}
        return made | self.some(
            {"set": self.writes, "set_ctx": self.values, "set_iter": self.values, "to": lambda: "t1",
             "attempts": lambda: 3, "backoff": lambda: self.pick("linear", "exponential", "none"), "delay": lambda: 1},
            0.25,
        )  # fmt: skip

    def task_spec(self) -> Any:
        return self.some({"policy": lambda: {"rules": self.rules()}, "timeout": lambda: {"connect": 5}, "timeout_s": lambda: 5,
                          "method": lambda: "GET", "endpoint": self.text}, 0.4)  # fmt: skip

    def step_spec(self) -> Any:
        return self.some(
            {"policy": lambda: {"admit": {"rules": [{"when": self.text(), "then": {"allow": True}}]}},
             "next_mode": lambda: "inclusive", "timeout_s": lambda: 3}, 0.5)  # fmt: skip

    def loop(self) -> Any:
        name = self.rng.choice(["in", "in", "collection"])
        made = {name: self.pick(self.text, [1, 2]), self.rng.choice(["iterator", "iterator", "element"]): "item"}
        return made | self.some(
            {"mode": lambda: "parallel", "until": self.text, "spec": lambda: {"mode": self.pick("parallel", "async")},
             "loop": lambda: {"in": self.text(), "iterator": "sub"}, "parallel": lambda: True}, 0.2)  # fmt: skip

    def retry(self) -> Any:
        return self.pick(3, True, {"max_attempts": 3, "initial_delay": 1}, [{"when": self.text(), "then": {"max_attempts": 2}}],
                         {"on_error": {"when": self.text(), "max_attempts": 2}, "on_success": {"while": self.text()}})  # fmt: skip

    def sink(self) -> Any:
        tool = {"kind": self.pick("postgres", "http", "duckdb"), "table": "t", "auth": "db", "data": self.text()}
        return self.pick(tool, {"tool": tool}, {"storage": "postgres", "table": "t", "data": self.text()}, [tool])

    def case(self) -> Any:
        then = self.pick({"next": [self.arc()]}, {"set": self.writes()}, {"retry": self.retry()}, {"sink": self.sink()},
                         [self.arc()], {"next": self.target(), "set": self.writes()})  # fmt: skip
        return self.pick([{"when": self.text(), "then": then}], [{"when": self.text(), "then": then}, {"else": then}])

    def arc(self) -> Any:
        return {"step": self.target()} | self.some(
            {"when": self.text, "set": self.writes, "args": self.values, "with": self.values, "cond": self.text}, 0.2
        )

    def next(self) -> Any:
        arcs = [self.arc() for _ in range(self.rng.randrange(1, 3))]
        return self.pick(self.target, arcs, [self.target()], {"arcs": arcs}, {"arcs": arcs}, self.arc,
                         {"spec": {"mode": "inclusive"}, "arcs": arcs}, {"mode": "inclusive", "arcs": arcs},
                         [{"when": self.text(), "then": arcs, "else": arcs}])  # fmt: skip


def nearly(rng: Random) -> Any:
    """A playbook that is nearly right."""
    return Maker(rng, rng.choice([0, 0, 0.02, 0.1])).document()


# -- data to text, in any of its spellings


class Writer:
    """Writes data as YAML with a random choice of styles, and with comments."""

    def __init__(self, rng: Random, comments: float, flow: float = 0.2) -> None:
        self.rng = rng
        self.share = comments
        #: how many of the collections are written in one line
        self.in_a_line = flow
        self.count = 0
        self.anchors: list[str] = []
        self.indent = rng.choice([2, 2, 2, 4])
        self.flush = rng.random() < 0.3

    def write(self, value: Any) -> str:
        lines = [*self.comment(0)]
        lines += self.block(value, 0) if isinstance(value, dict | list) and value else [self.scalar(value, 0)]
        return "\n".join([*lines, *self.comment(0), ""])

    def comment(self, col: int) -> list[str]:
        if self.rng.random() >= self.share:
            return []
        self.count += 1
        return [" " * col + f"# c{self.count}"]

    def side(self) -> str:
        return "".join(f"  {text}" for text in self.comment(0))

    def block(self, value: Any, col: int) -> list[str]:
        lines: list[str] = []
        pad = " " * col
        for item in value.items() if isinstance(value, dict) else value:
            lines += self.comment(col)
            if isinstance(value, dict):
                key, inner = item
                lines += self.below(f"{pad}{self.key(key)}:", inner, col)
            else:
                lines += self.item(pad, item, col)
        if self.rng.random() < 0.05:
            lines.append("")
        return lines

    def item(self, pad: str, item: Any, col: int) -> list[str]:
        if isinstance(item, dict) and item and self.rng.random() < 0.85:
            first, *rest = self.block(item, col + 2)
            while first.lstrip().startswith("#"):
                moved, (first, *rest) = first, rest
                rest.append(moved)
            return [f"{pad}- {first[col + 2 :]}", *rest]
        return self.below(f"{pad}-", item, col)

    def below(self, start: str, value: Any, col: int) -> list[str]:
        if isinstance(value, dict | list) and value and self.rng.random() < 1 - self.in_a_line:
            flush = self.flush and isinstance(value, list) and not start.rstrip().endswith("-")
            return [start + self.side(), *self.block(value, col if flush else col + self.indent)]
        if isinstance(value, str) and "\n" in value.strip("\n") and self.rng.random() < 0.8 and value[0] not in " \n":
            head = "|" if value.endswith("\n") else "|-"
            body = [" " * (col + 4) + line if line else "" for line in value.rstrip("\n").split("\n")]
            return [f"{start} {head}{self.side()}", *body]
        text = self.scalar(value, col) if not isinstance(value, dict | list) else self.flow(value)
        return [f"{start} {text}".rstrip(" ") + self.side()]

    def flow(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.key(key)}: {self.flow(inner)}" for key, inner in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self.flow(inner) for inner in value) + "]"
        return self.scalar(value, -1)

    def key(self, key: str) -> str:
        return key if re.fullmatch(r"[A-Za-z_][\w.-]*|<<", key) else self.quoted(key)

    def scalar(self, value: Any, col: int) -> str:
        if value is None:
            return self.rng.choice(["null", "~"] if col < 0 else ["null", "~", ""])
        if not isinstance(value, str):
            return str(value).lower()
        if re.fullmatch(r"[A-Za-z_][\w./-]*( [\w.-]+)*", value) and self.rng.random() < 0.8:
            return value
        return self.quoted(value)

    def quoted(self, value: str) -> str:
        if value.isprintable() and self.rng.random() < 0.5:
            return "'" + value.replace("'", "''") + "'"
        return '"' + "".join(_escaped(one) for one in value) + '"'


def _escaped(one: str) -> str:
    if one in '"\\':
        return f"\\{one}"
    return one if one.isprintable() else f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"


def written(rng: Random, data: Any, comments: float | None = None) -> str:
    """The data as YAML."""
    return Writer(rng, rng.choice([0, 0.1, 0.3]) if comments is None else comments).write(data)


def wide(rng: Random) -> str:
    """A playbook whose lines are long, since much of it stands in flow collections."""
    return Writer(rng, rng.choice([0, 0.1]), flow=0.55).write(nearly(rng))


# -- real playbooks, broken


def mutated(rng: Random, text: str) -> str:
    """The text with one to three things done to it."""
    for _ in range(rng.randrange(1, 4)):
        text = rng.choice(MUTATIONS)(rng, text)
    return text


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _delete_line(rng: Random, text: str) -> str:
    lines = _lines(text)
    start = rng.randrange(len(lines))
    del lines[start : start + rng.choice([1, 1, 1, 2, 5])]
    return "\n".join(lines)


def _duplicate_line(rng: Random, text: str) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    lines.insert(rng.choice([at, rng.randrange(len(lines))]), lines[at])
    return "\n".join(lines)


def _swap_lines(rng: Random, text: str) -> str:
    lines = _lines(text)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _indent(rng: Random, text: str) -> str:
    lines = _lines(text)
    at, by = rng.randrange(len(lines)), rng.choice([-4, -2, -1, 1, 2, 4])
    for n in range(at, min(len(lines), at + rng.choice([1, 1, 3, 10]))):
        bare = lines[n].lstrip(" ")
        lines[n] = " " * max(0, len(lines[n]) - len(bare) + by) + bare
    return "\n".join(lines)


_VALUE = re.compile(r"^( *(?:- )*[\w.-]+:) (.+)$", re.MULTILINE)
_KEY = re.compile(r"^( *(?:- )*)([\w.-]+):", re.MULTILINE)
_SCALARS = ["1", "-0.5", "true", "null", "[]", "{}", "[a, {b: 1}]", "{a: [1]}", '""', "~", "!!str x", "*a", "&a x",
            "'{{ ctx.a }}'", "|", ">-", "{{ ctx.a }}", "1e400", "99999999999999999999", ".nan", "0x1F", "2024-01-01"]  # fmt: skip


def _change_value(rng: Random, text: str) -> str:
    found = [*_VALUE.finditer(text)]
    if not found:
        return text
    one = rng.choice(found)
    value = rng.choice([*_SCALARS, rng.choice(found)[2], f"'{template(rng)}'"])
    return f"{text[: one.start()]}{one[1]} {value}{text[one.end() :]}"


def _change_key(rng: Random, text: str) -> str:
    found = [*_KEY.finditer(text)]
    if not found:
        return text
    one = rng.choice(found)
    return f"{text[: one.start()]}{one[1]}{rng.choice([word(rng), rng.choice(found)[2]])}:{text[one.end() :]}"


def _truncate(rng: Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _junk(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("\t\0\x01\x07\x85\u2028\ufeff\U0001f600:-#{}[]'\"|>&*!%@`,?\r\\~ \n") + text[at:]


def _delete_characters(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.choice([1, 1, 2, 8]) :]


def _subtree(lines: list[str], at: int) -> int:
    depth = len(lines[at]) - len(lines[at].lstrip(" "))
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip(" ")) > depth):
        end += 1
    return end


def _swap_subtrees(rng: Random, text: str) -> str:
    """Put the lines below one place where those below another stand, in the indentation of that place."""
    lines = _lines(text)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    moved, end = lines[a : _subtree(lines, a)], _subtree(lines, b)
    by = len(lines[b]) - len(lines[b].lstrip(" ")) - (len(lines[a]) - len(lines[a].lstrip(" ")))
    shifted = [" " * max(0, len(x) - len(x.lstrip(" ")) + by) + x.lstrip(" ") for x in moved]
    return "\n".join([*lines[:b], *shifted, *lines[end if rng.random() < 0.7 else b :]])


def _graft(rng: Random, text: str) -> str:
    """A value made of the language's words, in flow style, in the place of another."""
    found = [*_VALUE.finditer(text)]
    if not found:
        return text
    one = rng.choice(found)
    return f"{text[: one.start()]}{one[1]} {Writer(rng, 0).flow(anything(rng, 3))}{text[one.end() :]}"


def _insert_entry(rng: Random, text: str) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    pad = " " * (len(lines[at]) - len(lines[at].lstrip(" ")) + rng.choice([0, 0, 2]))
    lines.insert(at, f"{pad}{word(rng)}: {Writer(rng, 0).flow(anything(rng, 2))}")
    return "\n".join(lines)


def _comment(rng: Random, text: str) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    if rng.random() < 0.5:
        lines[at] += f"  # m{rng.randrange(1000)}"
    else:
        lines.insert(at, " " * rng.choice([0, 2, 4, 6, 8]) + f"# m{rng.randrange(1000)}")
    return "\n".join(lines)


def _line_breaks(rng: Random, text: str) -> str:
    return text.replace("\n", "\r\n")


def _alias(rng: Random, text: str) -> str:
    """An anchor on one value, and an alias for another below it."""
    found = [*_VALUE.finditer(text)]
    if len(found) < 2:
        return text
    a, b = sorted(rng.sample(found, 2), key=lambda one: one.start())
    name = f"n{rng.randrange(9)}"
    return f"{text[: a.start()]}{a[1]} &{name} {a[2]}{text[a.end() : b.start()]}{b[1]} *{name}{text[b.end() :]}"


MUTATIONS = [_delete_line, _duplicate_line, _swap_lines, _indent, _change_value, _change_value, _change_key, _change_key,
             _truncate, _junk, _delete_characters, _swap_subtrees, _graft, _graft, _insert_entry, _insert_entry, _comment,
             _line_breaks, _alias]  # fmt: skip


# -- all of it


def any_text(rng: Random, *, comments: float | None = None) -> str:
    """A text of any sort."""
    sort = rng.random()
    if sort < 0.1:
        return noise(rng).decode("utf-8", "replace")
    if sort < 0.3:
        return written(rng, wild(rng), comments)
    if sort < 0.6:
        return written(rng, nearly(rng), comments)
    if sort < 0.7:
        return mutated(rng, written(rng, nearly(rng), comments))
    return mutated(rng, rng.choice(corpus()).text)
