"""What a migration did, file by file: rewritten, assumed, to do, and what a verification found; as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli.output.printing import count, glimpse

if TYPE_CHECKING:
    from noetl.model.diagnostics import Diagnostic
    from noetl.testing import MigrationProof, StepProof

#: no document describes a habit: what it means is how playbooks use it
_ASSUMED = frozenset({"legacy-habit"})
_TODO = "legacy-todo"
_LEFT = "migration-todo"
#: how the fix of an older construct ends; here it is being done
_ADVICE = "; `noetl migrate FILE` rewrites it"
#: words for what became of a file
WORDS = {
    "rewritten": "rewritten",
    "pending": "would be rewritten",
    "canonical": "already canonical",
    "failed": "not rewritten",
}


class MigrationEntry(msgspec.Struct, frozen=True):
    """One thing that a migration did, or leaves to a person."""

    code: str
    message: str
    #: in the text before; None: it stands only in the text after
    line: int | None = None
    column: int | None = None
    #: what stands there now
    now: str | None = None
    #: in the text after; None: no comment stands there
    result_line: int | None = None


class EntryLists(msgspec.Struct, frozen=True):
    """What a migration did in a file, in three lists."""

    rewritten: tuple[MigrationEntry, ...] = ()
    assumed: tuple[MigrationEntry, ...] = ()
    todo: tuple[MigrationEntry, ...] = ()


class FileMigration(msgspec.Struct, frozen=True):
    """What became of one file."""

    file: str
    #: `rewritten`, `pending` (with --check or --stdout), `canonical` or `failed`
    status: str
    entries: EntryLists = EntryLists()
    #: errors of the text after, which only a person can correct
    errors_left: int = 0
    #: why it failed
    problem: str | None = None
    proof: MigrationProof | None = None


def collect_entries(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> EntryLists:
    """The lists of a file: of what was found in the text before, and the comments in the text after."""
    comments = [one for one in after if one.code == _LEFT]
    lists: dict[str, list[MigrationEntry]] = {"rewritten": [], "assumed": [], "todo": []}
    for found in before:
        if not found.code.startswith("legacy-"):
            continue
        word = "todo" if found.code == _TODO else "assumed" if found.code in _ASSUMED else "rewritten"
        lists[word].append(_entry(found, _take_comment(comments, found) if word == "todo" else None))
    # Comments that stand there for longer are to do, too.
    lists["todo"] += [MigrationEntry(_LEFT, _asked(one), result_line=_line(one)) for one in comments]
    return EntryLists(*(tuple(entries) for entries in lists.values()))


def _entry(found: Diagnostic, comment: Diagnostic | None) -> MigrationEntry:
    now = (found.fix or "").removesuffix(_ADVICE).removeprefix("write ") if found.code != _TODO else ""
    column = found.span.column if found.span is not None else None
    line = _line(comment) if comment is not None else None
    return MigrationEntry(found.code, found.message, _line(found), column, now or None, line)


def _line(found: Diagnostic) -> int | None:
    return found.span.line if found.span is not None else None


def _take_comment(comments: list[Diagnostic], found: Diagnostic) -> Diagnostic | None:
    """The comment that a decision was left with."""
    words = " ".join(found.message.split())
    for one in comments:
        if _asked(one) == words:
            comments.remove(one)
            return one
    return None


def _asked(comment: Diagnostic) -> str:
    return comment.message.partition(": ")[2]


# --- text ------------------------------------------------------------------------------------------------------------


def entry_lines(made: FileMigration) -> Iterator[tuple[str, str]]:
    """Place and text of everything that was done in a file."""
    for one in sorted(
        (*made.entries.rewritten, *made.entries.assumed), key=lambda one: (one.line or 0, one.column or 0)
    ):
        mark = "assumed: " if one.code in _ASSUMED else ""
        yield _place(made.file, one.line), f"{mark}{one.message}{f' → {one.now}' if one.now else ''}"
    for one in made.entries.todo:
        # A comment is looked for in the file as it is now.
        written = made.status in ("rewritten", "canonical")
        yield _place(made.file, (one.result_line if written else None) or one.line), f"TODO: {one.message}"


def summary_line(made: FileMigration) -> str:
    """What became of a file, in one line."""
    numbers = (
        (len(made.entries.rewritten), "rewritten"),
        (len(made.entries.assumed), "assumed"),
        (len(made.entries.todo), "to do"),
    )
    said = ", ".join(f"{number} {word}" for number, word in numbers if number)
    why = f": {made.problem}" if made.problem else f" ({said})" if said else ""
    left = f"; {count(made.errors_left, 'error')} left, see `noetl validate`" if made.errors_left else ""
    return f"{made.file}: {WORDS[made.status]}{why}{left}"


def total_line(files: Sequence[FileMigration]) -> str:
    """What became of all files, in one line."""
    by_status = Counter(one.status for one in files)
    said = ", ".join(f"{by_status[status]} {word}" for status, word in WORDS.items() if by_status[status])
    todo = sum(len(one.entries.todo) for one in files)
    return f"{count(len(files), 'file')}: {said}{f'; {todo} to do' if todo else ''}"


def _place(file: str, line: int | None) -> str:
    return f"{file}:{line}" if line is not None else file


def proof_lines(file: str, proof: MigrationProof) -> Iterator[tuple[str, str]]:
    """Place and text of what a verification found out, step by step."""
    if proof.problem:
        yield file, f"nothing was compared: {proof.problem}"
        return
    for one in proof.steps:
        yield _place(file, one.line), _step_text(one)
    by_verdict = Counter(one.verdict for one in proof.steps if one.step)
    verdicts = ("same", "different", "not compared")
    said = ", ".join(f"{by_verdict[word]} {word}" for word in verdicts if by_verdict[word])
    yield file, f"compared on made-up answers: {count(by_verdict.total(), 'step')}: {said or 'none'}"


def _step_text(one: StepProof) -> str:
    name = one.step or "the run"
    if one.verdict == "not compared":
        return f"{name}: not compared: {one.reason}"
    if one.difference is None:
        return f"{name}: same ({count(one.calls, 'call')}{f'; {one.reason}' if one.reason else ''})"
    found = one.difference
    values = f"\n    older:    {glimpse(found.older)}\n    migrated: {glimpse(found.migrated)}"
    return f"{name}: different, with {one.variant}: {found.what}{values}"


# --- JSON ------------------------------------------------------------------------------------------------------------


def _flatten(made: dict[str, Any]) -> dict[str, Any]:
    entries = made.pop("entries")
    return {"file": made.pop("file"), "status": made.pop("status"), **entries, **made}


def as_document(files: Sequence[FileMigration]) -> dict[str, Any]:
    """The report as data."""
    statuses = Counter(one.status for one in files)
    return {
        "files": [_flatten(msgspec.to_builtins(one)) for one in files],
        "summary": {
            "files": len(files),
            **{status: statuses[status] for status in WORDS},
            "todo": sum(len(one.entries.todo) for one in files),
            "different": sum(one.proof is not None and not one.proof.is_same for one in files),
        },
    }
