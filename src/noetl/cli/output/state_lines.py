"""What a state has to tell: its steps, what they wait for, which tokens are parked, how it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from noetl.cli.files import near
from noetl.cli.output.printing import (
    between,
    columns,
    count,
    describe_stored,
    duration,
    glimpse,
    local_time,
    seconds_of,
)
from noetl.lang import escape_controls
from noetl.model.state import label_of, pipeline_runs

if TYPE_CHECKING:
    from noetl.model.state import Execution, StepInfo, StepRun, Wait
    from noetl.ports import PlaybookSource


# Errors of executions with the place in the playbook where they come from.


def locate_error(error: dict[str, Any] | None, source: PlaybookSource | None) -> dict[str, Any] | None:
    """The same error with `file`, `line` and, where a template failed, the `key` that holds it.

    An error of SQL has a `line` of its own, which is one of the query: it becomes `query_line`.
    """
    if error is None or source is None or not error.get("step") or "file" in error:
        return error
    from noetl.lang import find_location, find_workbook_location

    place = None
    if error.get("workbook"):
        place = find_workbook_location(source.text, str(error["workbook"]), error.get("expression"))
    place = place or find_location(source.text, error["step"], error.get("task"), error.get("expression"))
    if place is None:
        return error
    own = {"query_line": error["line"]} if "line" in error else {}
    where = {"file": near(source.file), "line": place.line, **({"key": place.key} if place.key else {})}
    return {**error, **own, **where}


def place_line(error: dict[str, Any] | None, source: PlaybookSource | None) -> str:
    """`at orders.yaml:12, input.url`; empty where it is not known."""
    found = locate_error(error, source)
    if found is None or "file" not in found:
        return ""
    return f"at {found['file']}:{found['line']}{', `' + found['key'] + '`' if 'key' in found else ''}"


def steps(
    state: Execution,
    now: float | None = None,
    *,
    left: bool = False,
    never: Iterable[str] = (),
    colour: bool,
) -> str:
    """The steps that have run or wait to, in the order in which they came up; `now` if the time goes on for them.

    `left`: nobody runs them. `never`: the steps that no token has come to.
    """
    rows = [("STEP", "STATUS", "TOOK", "")]
    for name, info in state.steps.items():
        status = "interrupted" if left and info.status == "running" else info.status
        rows.append((name, status, _took(state, info, now), "; ".join(_more(state, name, info))))
    rows += [(name, "never ran" if state.over else "not yet", "", "") for name in never]
    return columns(rows, paint=1, colour=colour) if len(rows) > 1 else ""


def _took(state: Execution, info: StepInfo, now: float | None) -> str:
    if info.started_at is None:
        return ""
    if info.finished_at is None and now is not None:
        return duration(now - seconds_of(info.started_at))
    return duration(between(info.started_at, info.finished_at or state.timestamp))


def _more(state: Execution, name: str, info: StepInfo) -> Iterator[str]:
    if info.runs > 1:
        yield f"{info.runs} runs"
    running = next((run for run in state.runs.values() if run.step == name and run.loop is not None), None)
    loop = running.loop.counts() if running is not None and running.loop is not None else info.loop
    if loop is not None:
        failed = f", {loop['failed']:,} failed" if loop["failed"] else ""
        yield f"{loop['completed']:,} of {count(loop['total'], 'iteration')}{failed}"
    if name in state.unmatched:
        yield "no arc matched"
    if info.warning is not None:
        yield describe_warnings(info)
    if info.error is not None:
        yield f"{info.error['kind']}: {escape_controls(glimpse_text(info.error['message']))}"
    yield from describe_afterwork(state, name)


def describe_afterwork(state: Execution, name: str) -> Iterator[str]:
    """What follows the end of a step: what is under way, and what was undone."""
    for run in state.runs.values():
        if run.step == name and run.undoes:
            where = place(name, state.undoing.iteration) if state.undoing is not None else name
            yield f"{where} is being undone"
        elif run.step == name and run.finalizing:
            yield "its `finally` tasks run"
    if undone := describe_undone(state.steps[name]):
        yield undone


def describe_undone(info: StepInfo) -> str:
    """How much of a step was undone, and what could not be; empty: nothing of it."""
    parts = []
    if info.undone:
        parts.append("undone" if info.undone == 1 else f"undone {info.undone:,} times")
    if info.undo_failed:
        times = "" if info.undo_failed == 1 else f" {info.undo_failed:,} times"
        parts.append(f"compensation failed{times}: {error_words(info.undo_error or {})}")
    return ", ".join(parts)


def undo_lines(state: Execution) -> Iterator[str]:
    """A line for each step that was undone, or could not be."""
    for name, info in state.steps.items():
        if told := describe_undone(info):
            yield f"{name}: {told}"


def describe_warnings(info: StepInfo) -> str:
    """What went wrong in a step without ending it."""
    more = f", and {info.warned - 1:,} more" if info.warned > 1 else ""
    return f"⚠ {escape_controls(glimpse_text(info.warning or ''))}{more}"


def glimpse_text(text: str, most: int = 200) -> str:
    """The first line of a text, cut where it gets long."""
    first = text.strip().partition("\n")[0]
    return first if len(first) <= most else f"{first[: most - 1]}…"


def waits(state: Execution) -> Iterator[tuple[StepRun, int | str | None, Wait]]:
    """The pipelines that wait for something from outside."""
    for run in state.runs.values():
        for path, pipe in pipeline_runs(run):
            if pipe is not None and pipe.wait is not None:
                yield run, label_of(path), pipe.wait


def wait_words(wait: Wait) -> str:
    """What is waited for."""
    if wait.answer is not None:
        return "goes on: what it waited for has come"
    if wait.child is not None:
        return f"waits for playbook {escape_controls(wait.child['path'])} ({wait.child['execution_id']})"
    if wait.signal is not None:
        until = f", until {local_time(wait.until)} at the latest" if wait.until is not None else ""
        title = f" ({escape_controls(glimpse_text(wait.title))})" if wait.title else ""
        return f"waits for the signal `{escape_controls(wait.signal)}`{title}{until}"
    return f"waits until {local_time(wait.until or 0.0)}"


def signal_hint(execution_id: str, wait: Wait) -> str:
    """How to send what is waited for."""
    if wait.signal is None or wait.answer is not None:
        return ""
    from shlex import quote

    return f"; `noetl signal {execution_id} {quote(wait.signal)}` sends it"


def describe_waits(state: Execution, most: int = 20) -> str:
    """What is waited for, a line each."""
    lines = [
        f"{place(run.step, label)} {wait_words(wait)}{signal_hint(state.execution_id, wait)}\n"
        for run, label, wait in waits(state)
    ]
    if len(lines) > most:
        lines[most:] = [f"… and {len(lines) - most:,} more\n"]
    return "".join(lines)


def place(step: str, iteration: int | str | None) -> str:
    """A step, or one iteration of it."""
    return step if iteration is None else f"{step}[{iteration}]"


def find_parked_tokens(state: Execution) -> dict[str, list[str]]:
    """The steps at which tokens wait to be let in, and where those come from."""
    held = {name: [token.source or "the start" for token in tokens] for name, tokens in state.parked.items()}
    for name, entry in state.rounds.items():
        sources = [source for source, tokens in entry.places.items() for _ in tokens]
        if sources:
            held[name] = sources
    return held


def describe_parked(state: Execution) -> str:
    """The steps at which tokens wait to be let in, a line each."""
    return "".join(
        f"{name} is not admitted yet: {count(len(sources), 'token')} parked, from {', '.join(dict.fromkeys(sources))}\n"
        for name, sources in find_parked_tokens(state).items()
    )


def error_words(error: dict[str, Any]) -> str:
    """Where something failed, and how: `step fetch, task get: http: connection refused`."""
    where = ", ".join(f"{what} {error[what]}" for what in ("step", "task", "workbook") if error.get(what))
    said = f"{error.get('kind', 'error')}: {escape_controls(glimpse_text(str(error.get('message', '')), 500))}"
    tries = f" (after {error['attempts']} attempts)" if error.get("attempts") else ""
    return f"{where}: {said}{tries}" if where else f"{said}{tries}"


#: a frame in the code of a task, which goes by the name of its step and task: `<fetch.parse> line 7, in main: …`
_OWN_FRAME = re.compile(r"^<[^<>]*> line (\d+)")


def trace_lines(error: dict[str, Any] | None, source: PlaybookSource | None = None, most: int = 5) -> list[str]:
    """The lines of the author's code in which an error came up, the innermost last; lines of the playbook if known."""
    found = locate_frames(error, source).get("traceback") if error is not None else None
    if not isinstance(found, list):
        return []
    # Code that is not found in the playbook goes by the name of its step and task, which stand beside this anyway.
    own = (_OWN_FRAME.sub(r"line \1", str(line)) for line in found[-most:])
    return [f"  {escape_controls(glimpse_text(line))}" for line in own]


def locate_frames(error: dict[str, Any], source: PlaybookSource | None, step: str | None = None) -> dict[str, Any]:
    """The same error whose traceback names lines of the playbook, `orders.yaml:14`, where they can be found."""
    found, step = error.get("traceback"), error.get("step") or step
    if source is None or not step or not isinstance(found, list):
        return error
    from noetl.lang import find_code_line

    def locate_frame(frame: re.Match[str]) -> str:
        line = find_code_line(source.text, int(frame[1]), step, error.get("task"), error.get("workbook"))
        return frame[0] if line is None else f"{near(source.file)}:{line}"

    return {**error, "traceback": [_OWN_FRAME.sub(locate_frame, str(one)) for one in found]}


def origin_words(origin: dict[str, Any]) -> str:
    """Where a rerun comes from."""
    if not origin["seq"]:
        return f"{origin['execution_id']}, from the start"
    return f"{origin['execution_id']}, forked behind event {origin['seq']}"


def output_line(state: Execution) -> str:
    """The output of an execution, on a line; of one that is cut or lies in the result store, where the whole is."""
    if state.output_ref is not None:
        return f"{describe_stored(state.output_ref)}: noetl result {state.execution_id}"
    line = glimpse(state.output)
    whole = f"  (cut: `noetl show {state.execution_id} --json` has all of it)" if line.endswith("…") else ""
    return f"{escape_controls(line)}{whole}"
