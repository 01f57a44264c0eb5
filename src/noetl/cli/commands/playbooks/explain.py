"""noetl explain: what a playbook means, in words or as data."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from noetl.cli.files import one_file, read
from noetl.cli.output.printing import as_json, in_colour, out
from noetl.cli.playbook_files import FILE, net_or_exit
from noetl.errors import UsageError
from noetl.model.nearest import nearest

_LABEL = 11
#: names of steps on one line; a net may have thousands
_SHOWN = 40
Row = tuple[str, str]
#: good enough to complete a name, and works while a file is being written; arcs name the same steps
_STEP = re.compile(rb"""\bstep["']?:\s*["']?([A-Za-z_][\w-]*)""")


def _complete_steps(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The steps of the file that stands before, for the shell to complete."""
    try:
        data = read(one_file(context.params["file"]))
    except (UsageError, KeyError):
        return []
    names = dict.fromkeys(name.decode() for name in _STEP.findall(data))
    return [name for name in names if name.startswith(begun)]


@click.command()
@click.argument("file", metavar="FILE", type=FILE)
@click.argument("step", metavar="[STEP]", required=False, shell_complete=_complete_steps)
@click.option("--json", "as_data", is_flag=True, help="As data, for programs.")
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
def command(*, file: str, step: str | None, as_data: bool, legacy: bool) -> None:
    """Say what a playbook means: all its steps in order, or one STEP with all its text.

    What is shown is what runs: older dialects and short forms such as `choose` are written out, and every setting
    stands with the place it comes from.
    """
    net = net_or_exit(file, legacy=legacy, json=as_data)

    from noetl.lang import explain_playbook, explain_step

    colour = in_colour(sys.stdout)
    if step is None:
        told = explain_playbook(net)
        out(as_json(told) if as_data else net_text(told, colour=colour))
        return
    if step not in net.steps:
        meant = nearest(step, net.steps)
        hint = f"did you mean `{meant}`?" if meant else f"steps: {', '.join(list(net.steps)[:20])}"
        raise UsageError(f"{file}: there is no step `{step}`; {hint}")
    one = explain_step(net, net.steps[step])
    out(as_json(one) if as_data else step_text(one, colour=colour))


# The data of `lang.explanation`, laid out to be read.


def net_text(told: Mapping[str, Any], *, colour: bool) -> str:
    """A whole playbook."""
    names = told["order"]
    lost = [f"nothing leads to {', '.join(told['unreachable'])}"] if told["unreachable"] else []
    head = [
        ("playbook", told["name"] if told["path"] == told["name"] else f"{told['name']}, path {told['path']}"),
        *((key, str(told[key])) for key in ("description", "version", "profile") if key in told),
        *_label_rows("labels", (f"{name}: {value}" for name, value in told.get("labels", {}).items())),
        *_label_rows("tags", [", ".join(told["tags"])] if "tags" in told else []),
        *_label_rows("requires", [", ".join(told.get("requires", {}).get("tools", []))] if "requires" in told else []),
        ("order", " → ".join(names[:_SHOWN]) + (f" → … ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else "")),
        *_optional_row(told, "finally", "last"),
        *_label_rows("never", lost),
        *_optional_row(told, "stalled"),
        *_label_rows("keychain", (f"{one['name']}: {one['kind']}" for one in told["keychain"])),
    ]
    blocks = ["".join(_lines(head, "", colour=colour))]
    blocks += [_step(step, brief=True, colour=colour) for step in told["steps"]]
    for name, tasks in told["workbook"].items():
        title = f"{_bold(f'workbook {name}', colour=colour)}\n"
        blocks.append(title + "".join(_task(task, brief=True, colour=colour) for task in tasks))
    # What each of them does is for those who work on the language: `--json` has it.
    passes = [("passes", f"{' → '.join(told['passes'])}  (how the file was read; --json says what each does)")]
    return "\n".join([*blocks, "".join(_lines(passes, "", colour=colour))])


def step_text(step: Mapping[str, Any], *, colour: bool) -> str:
    """One step, with all there is to say."""
    return _step(step, brief=False, colour=colour)


# --- steps -----------------------------------------------------------------------------------------------------


def _step(step: Mapping[str, Any], *, brief: bool, colour: bool) -> str:
    title = _bold(f"step {step['name']}", colour=colour) + f"  line {step['line']}"
    before = [*_optional_row(step, "desc", ""), *_before(step, brief=brief)]
    parts = {part: step.get(part, []) for part in _PARTS}
    if not any(parts.values()):
        before.append(("router", "no task; the server ends it at once"))
    tasks = "".join(
        _task(task, word=word, brief=brief, colour=colour) for part, word in _PARTS.items() for task in parts[part]
    )
    after = [
        *_map("output", step.get("output"), brief=brief),
        *_map("set", step.get("set"), brief=brief),
        *_next(step["next"], brief=brief),
    ]
    return (
        f"{title}\n{''.join(_lines(before, '  ', colour=colour))}{tasks}{''.join(_lines(after, '  ', colour=colour))}"
    )


#: the parts of a step that have tasks, in order, and how the tasks of each are called
_PARTS = {
    "before": "before the body: task",
    "tasks": "task",
    "after": "after the body: task",
    "finally": "finally: task",
    "compensation": "undone by: task",
}


def _before(step: Mapping[str, Any], *, brief: bool) -> Iterator[Row]:
    arriving = [f"{one['step']}{_when(one)}" for one in step["from"]]
    first = ["the start of the execution"] * ("start" in step)
    last = ["the end of the execution, whatever the outcome"] * ("last" in step)
    yield from _label_rows("from", [*first, *last, *arriving])
    yield from _map("input", step.get("input"), brief=brief)
    yield from _admission(step.get("admission", {}))
    yield from _loop(step.get("loop"))
    if "failure_mode" in step:
        yield "failure", step["failure_mode"]
    yield from ((name, f"{step[name]} s") for name in ("timeout_s", "deadline_s") if name in step)
    if not brief:
        yield from _spec(step)


def _admission(admission: Mapping[str, Any]) -> Iterator[Row]:
    rules = admission.get("rules", ())
    yield from _label_rows("admitted", (f"{_condition(rule)} → {'yes' if rule['allow'] else 'no'}" for rule in rules))
    if "fire" in admission:
        yield "fires", "once in an execution"
    if "join" in admission:
        join = admission["join"]
        places = ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in join["from"].items())
        yield "join", f"{join['need']} of {places}; rest: {join['rest']}"


def _loop(loop: Mapping[str, Any] | None) -> Iterator[Row]:
    while loop is not None:
        yield "loop", f"for each {loop['iterator']} in {_text(loop['in'])}, {loop['mode']}"
        for name in ("max_in_flight", "exec", "until", "complete_when", "complete_rest", "reduce"):
            if name in loop:
                yield "", f"{name}: {_text(loop[name])}"
        loop = loop.get("loop")


def _next(router: Mapping[str, Any], *, brief: bool) -> Iterator[Row]:
    rows = []
    for arc in router["arcs"]:
        to = arc["step"] if "step" in arc else f"end of the execution as {arc['terminate']}"
        rows.append(f"{to}{_when(arc)}")
        rows += [f"  set {name} = {_text(value, brief=brief)}" for name, value in arc.get("set", {}).items()]
        rows += [f"  {name} {_text(arc[name])}" for name in ("cancel", "args") if name in arc]
    yield from _label_rows("next" if router["mode"] == "exclusive" or not rows else "next, all", rows)
    if "on_no_match" in router:
        yield "no match", {"end": "the branch ends", "fail": "the execution fails"}[router["on_no_match"]]
    if "synthesize" in router:
        wish = router["synthesize"]
        kinds = f", kinds {', '.join(wish['allow_kinds'])}" if "allow_kinds" in wish else ""
        yield "synthesize", f"{_text(wish['from'])}, at most {wish['max_steps']} steps{kinds}"


def _condition(rule: Mapping[str, Any]) -> str:
    return "else" if "else" in rule else f"when {_text(rule['when'])}"


def _when(arc: Mapping[str, Any]) -> str:
    return f"  when {_text(arc['when'])}" if "when" in arc else "  on success"


# --- tasks -----------------------------------------------------------------------------------------------------


def _task(task: Mapping[str, Any], *, brief: bool, colour: bool, word: str = "task") -> str:
    made_by = f"  of {' in '.join(reversed(task['made_by']))}" if "made_by" in task else ""
    name = _bold(f"{word} {task['name']}", colour=colour)
    title = f"  {name}  {task['kind']}  line {task['line']}{made_by}\n"
    rows = list(_optional_row(task, "desc", ""))
    for name, value in task.get("config", {}).items():
        rows += _map(name, value, brief=brief)
    rows += _map("input", task.get("input"), brief=brief)
    rows += _optional_row(task, "auth")
    rows += _map("output", task.get("output"), brief=brief)
    rows += _map("set", task.get("set"), brief=brief)
    rows += _policy(task.get("policy"), brief=brief)
    rows += _spec(task)
    return title + "".join(_lines(rows, "    ", colour=colour))


def _policy(policy: Mapping[str, Any] | None, *, brief: bool) -> Iterator[Row]:
    if policy is None:
        return
    rows = []
    for rule in policy["rules"]:
        then = rule["then"]
        details = [f"{name} {_text(value)}" for name, value in then.items() if name not in ("do", "set")]
        rows.append(f"{_condition(rule)} → {', '.join([then['do'], *details])}")
        rows += [f"  set {name} = {_text(value, brief=brief)}" for name, value in then.get("set", {}).items()]
    if policy["rules"] and "covers_errors" not in policy:
        rows.append(f"an error that no rule matches → {policy['on_unmatched']}")
    yield from _label_rows("rules", rows)


def _spec(owner: Mapping[str, Any]) -> Iterator[Row]:
    values = owner.get("spec", {}).items()
    yield from _label_rows("spec", (f"{key} = {_text(one['value'])}  ({one['origin']})" for key, one in values))


# --- values ----------------------------------------------------------------------------------------------------


def _optional_row(owner: Mapping[str, Any], name: str, label: str | None = None) -> Iterator[Row]:
    if name in owner:
        yield name if label is None else label, _text(owner[name])


def _map(label: str, value: Any, *, brief: bool) -> Iterator[Row]:
    """A row for each key of a map, and of each map in a list; anything else is one row."""
    if isinstance(value, Mapping) and value:
        yield from _label_rows(label, _pairs(value, brief=brief))
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) and part for part in value):
        pairs = (enumerate(_pairs(part, brief=brief)) for part in value)
        yield from _label_rows(label, (f"{'  ' if index else '- '}{text}" for part in pairs for index, text in part))
    elif value is not None:
        yield label, _text(value, brief=brief)


def _pairs(value: Mapping[str, Any], *, brief: bool) -> Iterator[str]:
    return (f"{name} = {_text(part, brief=brief)}" for name, part in value.items())


def _label_rows(label: str, texts: Iterable[str]) -> Iterator[Row]:
    for index, text in enumerate(texts):
        yield ("" if index else label), text


def _text(value: Any, *, brief: bool = True) -> str:
    """A value on one line, or where there is room for it, text as it stands."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if not isinstance(value, str):
        import msgspec

        return msgspec.json.encode(value).decode()
    lines = value.strip().splitlines()
    if len(lines) < 2:
        return value.strip()
    return f"{lines[0]} … ({len(lines)} lines)" if brief else "\n".join(["", *lines])


def _lines(rows: Iterable[Row], indent: str, *, colour: bool) -> Iterator[str]:
    from noetl.lang import escape_controls

    for label, text in rows:
        first, *more = text.split("\n")
        name = f"\x1b[36m{label.ljust(_LABEL)}\x1b[0m" if colour and label else label.ljust(_LABEL)
        yield f"{indent}{name} {escape_controls(first)}".rstrip() + "\n"
        # Text of its own stands near the margin, that of a key inside of a map under its key.
        depth = _LABEL + 3 + len(first) - len(first.lstrip()) if first else 2
        for line in more:
            yield f"{indent}{' ' * depth}{escape_controls(line)}".rstrip() + "\n"


def _bold(text: str, *, colour: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if colour else text
