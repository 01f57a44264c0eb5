"""Older playbooks made by chance: every row of the language's page on older dialects that the interpreter of older results knows.

Each *feature* has a name, so that one that migration cannot do yet is left out by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

import yaml

#: words that mean something to engines; as names of a document they are just names
WORDS = ("job", "env", "payload", "error", "row", "chunk", "event", "loop", "namespace", "args")
NAMES = ("fetch", "ask", "score", "each_one", "page", "call_it", "notify", "tidy", "check", "gather")
WORKLOAD: dict[str, Any] = {
    "amount": 3,
    "flag": True,
    "word": "abc",
    "users": [{"id": 1, "tag": "a"}, {"id": 5, "tag": "b"}],
    "cfg": {"limit": 2, "deep": {"x": [7, 8]}},
}
#: what code returns, and how its parts are read
CODES = (
    "def main(**given):\n    return {'n': len(given), 'total': 4, 'label': 'x'}\n",
    "result = {'n': 2, 'total': len(input_data), 'label': 'y'}",
    "n = 7\nreturn {'n': n, 'total': 1, 'label': 'z'}",
    "def main(a=1, b=2, c=3):\n    return {'n': str(a), 'total': [a, b, c], 'label': repr(c)}\n",
)
#: by the kind of a step, code that takes its whole result `r`
READING = {
    "python": "def main(r):\n    return {'n': r['n'], 'total': r.get('total'), 'label': 'whole'}\n",
    "http": "def main(r):\n    return {'n': r['status_code'], 'total': r['data'], 'label': 'whole'}\n",
    "duckdb": "def main(r):\n    return {'n': r['row_count'], 'total': [x.get('total') for x in r['rows']], 'label': r['columns']}\n",
    "playbook": "def main(r):\n    return {'n': r['status'], 'total': r['result'], 'label': 'whole'}\n",
    "loop": "def main(r):\n    return {'n': r['stats']['total'], 'total': r['results'], 'label': 'whole'}\n",
    "pipeline": "def main(r):\n    return {'n': r['results'], 'total': 1, 'label': 'whole'}\n",
}


@dataclass
class Made:
    """A step that was made, as later steps see it."""

    name: str
    #: `python`, `http`, `duckdb`, `shell`, `playbook`, `loop`, `pipeline` or `noop`
    sort: str
    #: the name that `result` gives it
    result: str = ""
    tasks: tuple[str, ...] = ()


@dataclass
class Maker:
    """Makes one playbook."""

    chance: Random
    excluded: Collection[str] = ()
    made: list[Made] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    published: list[str] = field(default_factory=list)
    #: by step, the arguments that its one arc brings
    brought: dict[str, list[str]] = field(default_factory=dict)
    #: steps that more than one arc may lead to, and steps that no arc leaves
    bound: set[str] = field(default_factory=set)
    leaves: set[str] = field(default_factory=set)
    #: the step that is being made
    current: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=lambda: dict(WORKLOAD))
    names: list[str] = field(default_factory=list)
    #: steps that may have failed when a later one runs: what is left of their results nobody says
    doubtful: set[str] = field(default_factory=set)

    def has(self, feature: str, share: float = 0.5) -> bool:
        """Whether the playbook has a feature here."""
        if feature in self.excluded or self.chance.random() >= share:
            return False
        self.features.add(feature)
        return True

    def pick(self, options: list[tuple[str, Any]]) -> Any:
        """One of several options, each a feature."""
        left = [one for one in options if one[0] not in self.excluded]
        name, value = self.chance.choice(left)
        self.features.add(name)
        return value() if callable(value) else value

    @property
    def defined(self) -> set[str]:
        """Names that the document defines, of those that engines know."""
        return {*self.workload, *self.names} & {*WORDS}

    def add_published(self, name: str) -> None:
        """A name in `ctx` for later steps; one that runs at the same time may not see it yet."""
        if self.current not in self.leaves:
            self.published.append(name)

    @property
    def seen(self) -> list[Made]:
        """Steps whose results may be read: of two that run at the same time, neither sees the other."""
        return [made for made in self.made if made.name not in self.leaves | self.doubtful]

    # --- what is read ------------------------------------------------------------------------------------------------

    def read(self, element: str = "") -> str:
        """An expression that yields something."""
        options: list[tuple[str, Any]] = [
            ("workload.x", "workload.amount"),
            ("workload.x deep", "workload.cfg.deep.x[1]"),
            ("bare workload key", "amount"),
            ("bare workload key", "cfg.limit"),
            ("context.workload", "context.workload.word"),
            ("filter", "workload.users | length"),
            ("execution id", "execution_id"),
            ("literal", "1 + 2"),
            ("default", "workload.nowhere.deep | default(5)"),
        ]
        # What a document calls so is that, so that the habit means something else there.
        habits = {"job": ("job id", "job.uuid"), "payload": ("payload habit", "payload.amount")}
        options += [habit for word, habit in habits.items() if word not in {element, *self.defined}]
        if element:
            options += [
                ("element", f"{element}.id"),
                ("element in iter", f"iter.{element}.tag"),
                ("loop index", "loop_index"),
                ("iter.index", "iter.index"),
            ]
        options += [("arc args", f"args.{key}") for key in self.brought.get(self.current, ())]
        options += [("root vars", f"vars.{key}") for key in self.variables]
        options += [(f"workload key {key}", key) for key in self.workload if key in WORDS]
        for name in self.published:
            options += [("ctx of set_ctx", f"ctx.{name}"), ("ctx in context", f"context.{name}")]
        for made in self.seen:
            options += self.reads_of(made)
        return str(self.pick(options))

    def reads_of(self, made: Made) -> list[tuple[str, Any]]:
        """How a step's result is read, by its sort."""
        name = made.name
        if name in WORDS:
            return [(f"step called {name}", f"{name}.total")] if made.sort == "python" else []
        if made.sort in ("python", "http", "playbook"):
            options = [
                (f"{made.sort} field", f"{name}.total"),
                (f"{made.sort} data.field", f"{name}.data.total"),
                (f"{made.sort} in context", f"context.{name}.total"),
            ]
        else:
            options = []
        options.append(("step status", f"step.{name}.status.ok"))
        options += {
            "python": [("python result.field", f"{name}.result.n"), ("python twice", f"{name}.n ~ {name}.label")],
            "http": [
                ("http status_code", f"{name}.status_code"),
                ("http headers", f"{name}.headers['x-page']"),
                ("http body item", f"{name}.data.total | default(0)"),
            ],
            "duckdb": [
                ("sql rows item", f"{name}.rows[0].total"),
                ("sql row_count", f"{name}.row_count"),
                ("sql command_0", f"{name}.command_0.rows[0].total"),
                ("sql rows length", f"{name}.rows | length"),
                ("sql rows of command length", f"{name}.command_0.row_count"),
                ("sql data rows", f"{name}.data.rows[0].total"),
            ],
            "playbook": [("playbook result", f"{name}.result.total"), ("playbook status", f"{name}.status")],
            "loop": [
                ("loop results item", f"{name}.results[0]"),
                ("loop results length", f"{name}.results | length"),
                ("loop stats", f"{name}.stats.total"),
            ],
            "pipeline": [
                ("pipeline task", f"{name}.results.{made.tasks[0]}.n" if made.tasks else "1"),
                ("pipeline field", f"{name}.n"),
            ],
            "shell": [("shell stdout", f"{name}.stdout")],
        }.get(made.sort, [])
        if made.result and made.sort == "python":
            options += [("result name", f"{made.result}.n"), ("result in context", f"context.{made.result}.total")]
        return options

    def text(self, element: str = "") -> str:
        """A template: an expression alone, or within text."""
        if self.chance.random() < 0.8:
            return f"{{{{ {self.read(element)} }}}}"
        return f"a{{{{ {self.read(element)} }}}}-{{{{ {self.read(element)} }}}}"

    def condition(self) -> str:
        """A condition of an arc or a rule."""
        value = self.read()
        return (
            "{{ "
            + self.chance.choice([f"({value}) != 4", f"({value}) is defined", f"({value}) == 2", "true", "1 == 2"])
            + " }}"
        )

    # --- tools -------------------------------------------------------------------------------------------------------

    def arguments(self, element: str = "") -> dict[str, Any]:
        """Arguments under one of their older names."""
        word = self.pick([("args", "args"), ("input", "input"), ("with", "with")])
        given = {key: self.text(element) for key in self.chance.sample(["a", "b", "c"], self.chance.randint(1, 3))}
        return {word: given}

    def python(self, element: str = "") -> dict[str, Any]:
        """A python task, which may take a whole result."""
        whole = [made for made in self.seen if made.sort in READING]
        if whole and not element:
            made = self.chance.choice(whole)
            if self.has(f"code reads {made.sort}", 0.3):
                return {"kind": "python", "args": {"r": f"{{{{ {made.name} }}}}"}, "code": READING[made.sort]}
        # What arcs bring is input of the migrated step, which code that counts its input would see.
        codes = CODES[2:] if self.current in self.brought else CODES
        return {"kind": "python", **self.arguments(element), "code": self.chance.choice(codes)}

    def http(self, element: str = "") -> dict[str, Any]:
        """A request, in older words."""
        url = f"https://example.com/{self.text(element)}"
        if self.has("v1 spec", 0.1):
            return {"kind": "http", "spec": {"method": "POST", "endpoint": url, "payload": {"n": self.text(element)}}}
        task: dict[str, Any] = {"kind": "http", "method": self.chance.choice(["GET", "POST"])}
        task[self.pick([("http url", "url"), ("http endpoint", "endpoint")])] = url
        if self.has("http params", 0.4):
            task["params"] = {"q": self.text(element)}
        if self.has("http payload", 0.4):
            task["payload"] = {"n": self.text(element), "deep": {"m": [self.text(element)]}}
        return task

    def duckdb(self, element: str = "") -> dict[str, Any]:
        """A query, with values in it."""
        word = self.pick([("sql query", "query"), ("sql command", "command"), ("sql commands", "commands")])
        return {"kind": "duckdb", word: f"SELECT {{{{ {self.read(element)} }}}} AS total, 'x' AS label"}

    def shell(self, element: str = "") -> dict[str, Any]:
        """A command."""
        return {
            "kind": "shell",
            self.pick([("shell cmd", "cmd"), ("shell cmds", "cmds")]): f"echo {{{{ {self.read(element)} }}}}",
        }

    def playbook(self, element: str = "") -> dict[str, Any]:
        """A call of another playbook."""
        word = self.pick([("playbook payload", "payload"), ("playbook args", "args"), ("playbook input", "input")])
        return {"kind": "playbook", "path": "other", word: {"n": self.text(element)}}

    def task(self, element: str = "") -> tuple[str, dict[str, Any]]:
        """Any task, and the sort of its result."""
        makers: dict[str, Callable[[str], dict[str, Any]]] = {
            "python": self.python, "http": self.http, "duckdb": self.duckdb, "shell": self.shell, "playbook": self.playbook,
        }  # fmt: skip
        sort = str(self.pick([(f"kind {sort}", sort) for sort in ("python", "python", "python", *makers)]))
        task = makers[sort](element)
        if self.has("tool timeout", 0.1):
            task["timeout"] = 5
        return sort, task

    def rules(self, task: dict[str, Any], sort: str) -> None:
        """Rules behind a task, in the words of one of three ages."""
        name = f"c{len(self.published)}"
        value = {
            "python": "{{ outcome.result.n }}", "http": "{{ outcome.http.status }}", "shell": "{{ outcome.status }}",
            "playbook": "{{ outcome.result.total }}",
        }.get(sort, "{{ amount }}")  # fmt: skip
        if sort == "shell":
            value = "{{ outcome.result.stdout }}"
        writes = {name: value}
        if self.has("eval", 0.5):
            task["eval"] = [
                {"expr": "{{ outcome.status == 'error' }}", "do": "retry", "attempts": 2, "delay": 0.01},
                {"expr": f"{{{{ outcome.status == '{self.pick([('status success', 'success'), ('status ok', 'ok')])}' }}}}",
                 "do": "continue", "set_ctx": writes},
            ]  # fmt: skip
            if self.has("eval else", 0.4):
                task["eval"].append({"else": {"do": "fail"}})
            self.add_published(name)
        elif "spec" in task:
            return
        elif self.has("rules with outcome", 0.5):
            task["spec"] = {"policy": {"rules": [
                {"when": "{{ outcome.status == 'error' }}", "then": {"do": "fail" if sort == "playbook" else self.chance.choice(["fail", "break"])}},
                {"else": {"then": {"do": "continue", "set_ctx": writes}}},
            ]}}  # fmt: skip
        elif sort == "duckdb" and self.has("row_count in a rule", 0.5):
            task["spec"] = {"policy": {"rules": [
                {"when": "{{ output.data.row_count == 0 }}", "then": {"do": "break"}},
                {"when": "{{ output.status == 'error' }}", "then": {"do": "fail"}},
                {"else": {"then": {"do": "continue"}}},
            ]}}  # fmt: skip

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, name: str) -> dict[str, Any]:
        """One step, without its arcs."""
        step: dict[str, Any] = {"step": name}
        self.current = name
        if self.made and self.has("step when", 0.1):
            step["when"] = self.chance.choice(
                ["{{ workload.amount > 1 }}", "{{ amount > 1 }}", "{{ workload.amount > 99 }}"]
            )
        form = self.pick(
            [("one task", "one"), ("one task", "one"), ("one task", "one"), ("a loop", "loop"), ("a pipeline", "list")]
        )
        if form == "loop":
            made = self.loop(step)
        elif form == "list":
            made = self.pipeline(step)
        else:
            sort, task = self.task()
            if self.has("rules", 0.25):
                self.rules(task, sort)
            elif self.has("tool retry", 0.15):
                task["retry"] = {"max_attempts": self.chance.randint(1, 3), "initial_delay": 0.01}
            step["tool"] = task
            made = Made(name, sort)
        if made.sort == "python" and form == "one":
            self.publish(step, made)
        if self.has("step set", 0.15):
            target = f"s_{name}"
            own = {
                "python": [("set of output.data", "output.data.n")],
                "http": [("set of output.http", "output.http.status"), ("set of output.data", "output.data.total")],
                "duckdb": [("set of row_count", "output.data.row_count"), ("set of rows", "output.data.rows[0].total")],
            }.get(made.sort, [])
            value = self.pick([("set of another", self.read), *own])
            step["set"] = {f"ctx.{target}": f"{{{{ {value} }}}}"}
            self.add_published(target)
        self.made.append(made)
        return step

    def publish(self, step: dict[str, Any], made: Made) -> None:
        """Give the result of a step a name, in one of the older ways."""
        name, tool = made.name, step["tool"]
        if self.has("step result", 0.2):
            made.result = step["result"] = f"got_{name}"
        elif self.has("step vars", 0.1):
            step["vars"] = {f"v_{name}": "{{ result.n }}"}
            self.add_published(f"v_{name}")
        elif self.has("bind", 0.1):
            step["bind"] = {f"b_{name}": self.chance.choice(["result.n", {"path": "result.data.n"}, "{{ result.n }}"])}
            self.add_published(f"b_{name}")
        elif self.has("tool result as", 0.1):
            tool["result"] = {"as": f"as_{name}"}
            made.result = f"as_{name}"
        elif self.has("tool result pick", 0.1):
            tool["result"] = {"pick": "{{ {'total': this.total, 'n': this.n, 'label': 1} }}"}

    def loop(self, step: dict[str, Any]) -> Made:
        """A step that is repeated, mostly in the words of the oldest dialect."""
        element = str(
            self.pick([("element", "user"), ("element", "item"), *[(f"element called {word}", word) for word in WORDS]])
        )
        words = self.pick([("loop collection", ("collection", "element")), ("loop in", ("in", "iterator"))])
        items = self.pick([("loop over workload", "{{ workload.users }}"), ("loop over bare name", "{{ users }}"),
                           ("loop over context", "{{ context.workload.users }}")])  # fmt: skip
        step["loop"] = {words[0]: items, words[1]: element}
        if self.has("loop mode", 0.3):
            step["loop"]["mode"] = self.chance.choice(["sequential", "parallel"])
        makers: list[tuple[str, Any]] = [
            ("loop of code", self.python),
            ("loop of requests", self.http),
            ("loop of queries", self.duckdb),
        ]
        maker = dict(makers)[str(self.pick([(name, name) for name, _ in makers]))]
        task = maker(element)
        if task["kind"] == "python" and self.has("set_iter", 0.2):
            task["eval"] = [{"else": {"do": "continue", "set_iter": {"kept": "{{ outcome.result.n }}"}}}]
        step["tool"] = task
        return Made(step["step"], "loop")

    def pipeline(self, step: dict[str, Any]) -> Made:
        """A step of several python tasks, of which the later read the earlier."""
        names = ["first", "second", "third"][: self.chance.randint(2, 3)]
        tasks: list[Any] = []
        for place, name in enumerate(names):
            codes = CODES[2:] if self.current in self.brought else CODES
            task = {"kind": "python", **self.arguments(), "code": self.chance.choice(codes)}
            given = next(task[word] for word in ("args", "input", "with") if word in task)
            if place and self.has("_prev", 0.4):
                given["p"] = "{{ _prev }}"
            if place and self.has("earlier task", 0.4):
                given["e"] = f"{{{{ {names[0]}.n }}}}"
            if self.has("set_prev", 0.1):
                task["eval"] = [{"else": {"do": "continue", "set_prev": "{{ outcome.result.total }}"}}]
            elif self.has("task set_vars", 0.2):
                task["eval"] = [{"else": {"do": "continue", "set_vars": {"kept": "{{ outcome.result.n }}"}}}]
            tasks.append(self.pick([("labelled tasks", {name: task}), ("named tasks", {"name": name, **task})]))
        step["tool"] = tasks
        return Made(step["step"], "pipeline", tasks=tuple(names))

    def arcs(self, step: dict[str, Any], later: list[str]) -> None:
        """The ways to later steps."""
        if not later:
            return
        goal = later[0]
        if len(later) == 2 and self.has("fan-out", 0.3):
            listed = [{"step": one} for one in later]
            step["next"] = listed
            if self.has("next_mode", 0.3):
                step["spec"] = {"next_mode": "inclusive"}
                step["next"] = [{**arc, "when": self.condition()} for arc in listed]
            self.leaves.update(later)
            return
        if "event" not in self.defined and self.has("failure arc", 0.1):
            self.doubtful.add(step["step"])
            name = self.pick([("call.error", "call.error"), ("step.failed", "step.failed")])
            step["next"] = {"arcs": [{"step": later[-1], "when": f"{{{{ event.name == '{name}' }}}}"}, {"step": goal}]}
            self.bound.update(later)
            return
        if goal not in self.bound and self.has("arc args", 0.15):
            given = {key: self.text() for key in ("x", "y")[: self.chance.randint(1, 2)]}
            step["next"] = {"arcs": [{"step": goal, "args": given}]}
            self.brought[goal] = list(given)
            return
        form = self.pick(
            [("next list", "list"), ("next names", "names"), ("next arcs", "arcs"), ("next conditions", "cases")]
        )
        if form == "names":
            step["next"] = [goal]
        elif form == "list":
            step["next"] = [{"step": goal}]
        elif form == "arcs":
            events = () if "event" in self.defined else ("call.done", "step.done")
            conditions = [(name, f"{{{{ event.name == '{name}' }}}}") for name in events]
            condition = self.pick([("no condition", None), *conditions])
            step["next"] = {"arcs": [{"step": goal, **({"when": condition} if condition else {})}]}
        else:
            listed = [{"when": self.condition(), "step": self.chance.choice(later)}, {"step": goal}]
            self.bound.update(later)
            step["next"] = self.pick(
                [("next list with conditions", listed), ("arcs with conditions", {"arcs": listed})]
            )

    def playbook_of(self) -> dict[str, Any]:
        """A whole playbook."""
        names = self.chance.sample(NAMES, self.chance.choice([2, 2, 3]))
        for word in WORDS:
            if self.has(f"step called {word}", 0.02):
                names[self.chance.randrange(len(names) - 1)] = word
            elif self.has(f"workload key {word}", 0.02):
                self.workload[word] = {"total": 6} if word == "error" else 6
        if self.has("root vars", 0.15):
            self.variables = {"bound": 9}
        names = self.names = list(dict.fromkeys(names))
        steps = []
        for place, name in enumerate(names):
            step = self.step(name)
            if name not in self.leaves:
                self.arcs(step, names[place + 1 :])
            steps.append(step)
        document: dict[str, Any] = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "made"}}
        document["workload"] = self.workload
        if self.variables:
            document["vars"] = self.variables
        document["workflow"] = steps
        return document


def make_playbook(chance: Random, excluded: Collection[str] = ()) -> tuple[str, set[str]]:
    """The text of a playbook, and the features that it has."""
    maker = Maker(chance, excluded)
    text = yaml.dump(maker.playbook_of(), Dumper=_Dumper, sort_keys=False, width=200)
    return text, maker.features


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # which of them is there
    """Writes what stands in a document twice, twice."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True
