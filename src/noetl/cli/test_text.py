"""Tests of playbooks in words: what passed in a line, what did not with its place, and why the run went as it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.cli.printing import painted
from noetl.cli.words import count, duration
from noetl.lang.report import Reported, as_text, summary, visible

if TYPE_CHECKING:
    from noetl.model.source import Source
    from noetl.trials.session import Failure, Ran, Result

#: what a status looks like: its sign, and the style it is painted in
_SIGNS = {"passed": ("✓", "done"), "failed": ("✗", "failed"), "error": ("✗", "failed"), "skipped": ("-", "skipped")}
#: differences that are told of one case
_MOST = 10


def told(ran: Ran, result: Result, *, colour: bool) -> str:
    """One case: a line, and if it did not pass what is wrong."""
    sign, style = _SIGNS[result.status]
    case = result.case
    line = f"{painted(sign, style, colour=colour)} {ran.source.name}: {visible(case.name)}"
    if result.status == "skipped":
        return f"{line} (skipped: {visible(case.skip or '')})\n"
    notes = [duration(result.seconds)]
    if result.done is not None and result.done.seconds >= 1:
        notes.append(f"{duration(result.done.seconds)} skipped")
    if result.deaths is not None:
        notes.append(f"killed {count(result.deaths.points, 'time')}")
    lines = [f"{line} ({', '.join(notes)})"]
    for failure in result.failures[:_MOST]:
        lines += [f"    {part}" if part else "" for part in _failure(ran.source, failure, colour=colour)]
    if len(result.failures) > _MOST:
        lines.append(f"    … and {len(result.failures) - _MOST} more; --json has all")
    if result.failures and result.done is not None:
        lines += ["", *(f"    {part}" for part in _why(result, colour=colour)), ""]
    return "\n".join(lines) + "\n"


def _failure(source: Source, failure: Failure, *, colour: bool) -> Iterator[str]:
    at = failure.at
    if at is None:
        yield visible(failure.message)
        return
    yield f"{painted(f'{source.name}:{at.line}:{at.column}:', 'bold', colour=colour)} {visible(failure.message)}"
    text = source.line_text(at.line)
    end = at.end_column - 1 if at.end_line == at.line else len(text.rstrip())
    gutter = " " * len(str(at.line))
    if len(text) <= 110:
        yield f"{at.line} | {visible(text)}"
        yield f"{gutter} | {' ' * (at.column - 1)}{painted('^' * max(1, end - at.column + 1), 'failed', colour=colour)}"
    if failure.fix:
        yield f"{gutter} help: {visible(failure.fix)}"


def _why(result: Result, *, colour: bool) -> list[str]:
    """Why the run went as it did, step by step."""
    from noetl.cli.why_text import overview
    from noetl.server.why import explain

    done = result.done
    assert done is not None
    answers = explain(done.net, done.state, done.events)
    return overview(answers, done.state, colour=colour).rstrip().splitlines()[:-2]


def problems_text(ran: Ran, *, colour: bool) -> str:
    """What keeps a file from running."""
    return "".join(
        f"{as_text(source, found, colour=colour)}\n{summary([Reported(source, found)])}"
        for source, found in ran.problems
    )


def closing(results: list[Result], ran: list[Ran], seconds: float, *, colour: bool) -> str:
    """The last line."""
    counts = Counter(result.status for result in results)
    parts = [
        painted(count(counts[word], "error") if word == "error" else f"{counts[word]} {word}", style, colour=colour)
        for word, (_, style) in _SIGNS.items()
        if counts[word]
    ]
    invalid = sum(one.invalid for one in ran)
    if invalid:
        parts.append(painted(f"{count(invalid, 'file')} invalid", "failed", colour=colour))
    return f"{', '.join(parts) or 'no case is called so'} in {duration(seconds)}\n"
