"""Values of the right shape that will not do what they look like: quotes, bounds, addresses, endless jumps; each is a warning."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.expr import EvaluationPoint, has_template, visible_names
from noetl.lang.building.template_sites import Site
from noetl.lang.checks.subject import UNLIKE, Subject, all_tasks, loops, transfer_ends
from noetl.lang.reading.node import PLAIN, ListNode, MapNode, Node, Scalar
from noetl.model.diagnostics import Edit
from noetl.model.kinds import ToolKind
from noetl.model.playbook import Rule, Task

_SHOWN = 8
#: a template that minds that something may not be there
_ABSENCE_TESTS = re.compile(r"\bis\s+(?:not\s+)?(?:un)?defined\b")
#: what looks like an address and has no scheme: `api.example.com/x`, `localhost:8080`
_BARE = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+|localhost)(?::\d+)?(?:/[^{}]*)?", re.ASCII)

_PATH = re.compile(r"[a-z]\w*(?:\.[^\W\d]\w*)+")


def check_effects(subject: Subject) -> None:
    """Report what is probably not meant."""
    _report_undeclared_inputs(subject)
    _templates_in_workload(subject)
    _loops_over_text(subject)
    for _, task in all_tasks(subject.playbook):
        _endless_jump(subject, task)
        if task.kind == "http":
            _address(subject, task)


def _report_undeclared_inputs(subject: Subject) -> None:
    """Where a playbook declares its inputs and no schema says more, others are probably slips.

    Those that are nearly another are told as `unknown-name`. A guard forgives an input that is left out.
    """
    declared = subject.playbook.workload
    if not declared or "schema" in subject.playbook.metadata:
        return
    for site in subject.sites.all:
        for read in site.template.reads if not site.is_when else ():
            if read.path[0] != "workload" or len(read.path) < 2 or read.path[1] in declared or _handles_absence(site):
                continue
            name = read.path[1]
            if len(name) < UNLIKE or subject.hints.nearest(name, declared) is None:
                subject.problems.warning(
                    "undeclared-input",
                    f"`workload` declares no `{name}`",
                    subject.where_path(site, read, 2),
                    fix=f"declare it with a default, or read it as `workload.{name} | default(…)`; "
                    f"declared: {', '.join(list(declared)[:_SHOWN])}",
                )


def _handles_absence(site: Site) -> bool:
    return (
        not site.template.filters.isdisjoint({"default", "d"})
        or _ABSENCE_TESTS.search(site.template.source) is not None
    )


def _templates_in_workload(subject: Subject) -> None:
    for node in _texts(subject.root.get("workload")):
        if has_template(node.text):
            subject.problems.warning(
                "template-in-workload",
                "this template is handed on as it stands: among the workload's defaults templates are data",
                node.alias or (node.place, node.end),
                fix="write it where the value is used, or `set` a `ctx` key in the first step",
            )


def _texts(node: Node | None) -> Iterator[Scalar]:
    pending = [node] if node is not None else []
    while pending:
        one = pending.pop()
        if isinstance(one, MapNode):
            pending += [entry.value for entry in one.entries]
        elif isinstance(one, ListNode):
            pending += one.items
        elif isinstance(one.value, str):
            yield one


def _loops_over_text(subject: Subject) -> None:
    for step in subject.playbook.steps:
        for depth, loop in enumerate(loops(step.loop)):
            tree = getattr(loop.items, "tree", None)
            text = getattr(tree, "source", tree)
            if isinstance(text, str) and not has_template(text):
                subject.problems.warning(
                    "loop-over-text",
                    f"a loop goes over a list, and {text[:40]!r} is text",
                    loop.items_at or loop.at,
                    fix=_list_instead(subject, text.strip(), inner=depth > 0),
                )


def _list_instead(subject: Subject, text: str, *, inner: bool) -> str:
    """What to write for a text: most likely it is a path without its braces."""
    if text in subject.playbook.workload:
        return f'write `"{{{{ workload.{text} }}}}"`'
    if _PATH.fullmatch(text) and text.partition(".")[0] in visible_names(EvaluationPoint.LOOP_IN, inner):
        return f'write `"{{{{ {text} }}}}"`'
    return 'write a list, or a template that yields one: `"{{ … }}"`'


def _endless_jump(subject: Subject, task: Task) -> None:
    first = task.policy.rules[0] if task.policy is not None and task.policy.rules else None
    if first is not None and _always(first) and first.then.do == "jump" and first.then.to == task.name:
        subject.problems.warning(
            "endless-jump",
            f"task `{task.name}` jumps to itself whatever happens: only `max_jumps` ends that",
            first.then.to_at or first.at,
            fix="give the rule a `when`, or put one before it that ends with `break`, `continue` or `fail`",
        )


def _always(rule: Rule) -> bool:
    return rule.when is None or rule.when.source.strip() in ("true", "{{ true }}")


def _address(subject: Subject, task: Task) -> None:
    for where in (task.config, task.input if isinstance(task.input, dict) else {}):
        tree = getattr(where.get("url"), "tree", where.get("url"))
        text = getattr(tree, "source", tree)
        if isinstance(text, str) and _BARE.fullmatch(text.strip()):
            subject.problems.warning(
                "url-without-scheme",
                f"the address {text[:60]!r} does not say how to get there",
                subject.inside(task.input_at.get("url", task.at), text),
                fix=f"write `https://{text.strip()[:60]}`, or `http://…`",
            )


# Bounds that bind nothing, and bounds that cannot be kept: both look as if something were bound.


#: what binds the process of a tool, and nothing else
_OF_SOME_KINDS = ("retries", "pool_size", "verify", "timeout.connect", "timeout.read")
_OF_A_PROCESS = ("limits.memory_mb", "limits.cpu_s", "limits.processes")


def check_bounds(subject: Subject) -> None:
    """Report what a task says of a process that it does not have, and tasks that will not be run."""
    for _step, task in all_tasks(subject.playbook):
        kind = subject.kinds.get(task.kind)
        if kind is not None:
            _report_without_effect(subject, task, kind)
            _report_unenforced(subject, task, kind)


def _report_without_effect(subject: Subject, task: Task, kind: ToolKind) -> None:
    """What a task inherits is meant for others; what it says itself is meant for it."""
    own = [key for key in _OF_A_PROCESS if key in task.spec and task.spec[key].origin == "task.spec"]
    isolation = task.spec.get("isolation")
    if isolation is not None and isolation.value == "strict" and isolation.origin == "task.spec":
        own.append("isolation")
    for key in own:
        if not kind.has_process and key not in kind.binds:
            subject.problems.error(
                "no-effect",
                f"`kind: {task.kind}` runs in no process of its own: `{key}` binds nothing",
                subject.inside(task.at, key.rpartition(".")[2]),
                fix="remove it, or put it where python and shell tasks inherit it",
            )
    for key in _OF_SOME_KINDS if kind.settings is not None else ():
        if key in task.spec and task.spec[key].origin == "task.spec" and key not in (kind.settings or ()):
            subject.problems.error(
                "no-effect",
                f"`spec.{key}` has no effect on `kind: {task.kind}`",
                subject.inside(task.at, key.rpartition(".")[2]),
                fix="write `timeout` as a number of seconds" if "timeout" in key else "remove it",
            )


def _report_unenforced(subject: Subject, task: Task, kind: ToolKind) -> None:
    forbidden = _network_restriction(task)
    if forbidden is None:
        return
    key, origin = forbidden
    where = "" if origin == "task.spec" else f" of `{origin}`"
    if not kind.keeps_network:
        # Without a process that the network could be taken from, strict isolation says nothing of it.
        if key == "isolation: strict":
            return
        message = f"`kind: {task.kind}` cannot keep `{key}`{where}: the task is not going to be run"
        subject.problems.error("not-kept", message, task.at, fix="leave the restriction out, or use another kind")
        return
    for name, end in transfer_ends(task):
        if end in kind.remote and not (key == "allow_hosts" and end == "http"):
            subject.problems.error(
                "not-kept",
                f"{name} ({end}) needs a network, and `{key}`{where} leaves none: the task is not going to be run",
                task.at,
                fix="say `network: on` beside it" if key == "isolation: strict" else "leave the restriction out",
            )
            return


def _network_restriction(task: Task) -> tuple[str, str] | None:
    """What keeps a task from the network, or from a part of it, and which layer says so."""
    network, hosts, isolation = (task.spec.get(key) for key in ("network", "allow_hosts", "isolation"))
    if network is not None and network.value == "off":
        return "network: off", network.origin
    if hosts is not None and "*" not in hosts.value:
        return "allow_hosts", hosts.origin
    if isolation is not None and isolation.value == "strict" and network is None:
        return "isolation: strict", isolation.origin
    return None


# Typographic quotes around a value: YAML takes them for letters, and the value is another than it looks.


_OPENING, _CLOSING = "“”„‟", "“”‟"
#: text for people, in which such quotes may well be meant
_PROSE = frozenset({"desc", "description", "message"})


def check_quotes(subject: Subject) -> None:
    """Report values of the program that stand in typographic quotes; data may hold what it likes."""
    text = subject.problems.source.text
    if any(quote in text for quote in _OPENING):
        for block in ("keychain", "executor", "workflow", "workbook"):
            if (node := subject.root.get(block)) is not None:
                _look(subject, node)


def _look(subject: Subject, node: Node) -> None:
    if isinstance(node, MapNode):
        for entry in node.entries:
            if entry.name not in _PROSE:
                _look(subject, entry.value)
    elif isinstance(node, ListNode):
        for item in node.items:
            _look(subject, item)
    elif _is_quoted(node):
        inner = node.text[1:-1]
        quote = "'" if '"' in inner else '"'
        certain = not any(sign in inner for sign in (quote, "\\", "\n")) and not node.alias and not node.changed
        subject.problems.warning(
            "typographic-quotes",
            "these quotes are part of the text; YAML knows only \" and '",
            node.alias or (node.start, node.end),
            fix=f"write {quote}{inner}{quote}" if certain else "use straight quotes",
            edits=[Edit(node.start, node.end, f"{quote}{inner}{quote}")] if certain else (),
        )


def _is_quoted(node: Scalar) -> bool:
    return node.style == PLAIN and len(node.text) > 1 and node.text[0] in _OPENING and node.text[-1] in _CLOSING
