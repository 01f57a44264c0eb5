"""Python code: that it parses, returns something, holds no template, and that `main` asks for nothing which nobody gives it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from noetl.expr import has_template
from noetl.expr.scopes import Boundary
from noetl.lang.checks.returning import silence
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.checks.unrendered import unrendered
from noetl.model.playbook import Step, Task

if TYPE_CHECKING:
    import ast

#: `ast.PyCF_ONLY_AST`: `ast` takes long to import, and few playbooks need to know it
_ONLY_PARSE = 0x400
#: how much code is parsed in all: a playbook of megabytes must not take seconds
_MOST_CHARACTERS = 100_000
#: parameters of `main` that are filled without being asked for
_GIVEN = frozenset({"context", "results", "input_data"})
#: where a step speaks of what its last task returned
_BEHIND = frozenset({Boundary.STEP_OUTPUT, Boundary.STEP_SET, Boundary.ARC_WHEN, Boundary.ARC_SET})


def check(subject: Subject) -> None:
    """Report code that cannot be read, and arguments that are missing."""
    coded = [(step, task) for step, task in all_tasks(subject.playbook) if task.code_at is not None]
    if not coded:
        return
    left = _MOST_CHARACTERS
    #: a plan's steps are made as data, and their templates are rendered
    plans = any(step.router.synthesize is not None for step in subject.all_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of an escape is not for stderr
        for step, task in coded:
            code = str(task.config.get("code") or "")
            left -= len(code)
            tree = _parsed(subject, task, code) if left > 0 else None
            if tree is None:
                continue
            _result(subject, step, task, tree)
            if not plans:
                _templates(subject, task, code, tree)
            if step is not None and not subject.carries_args:
                _arguments(subject, step, task, tree)


def _parsed(subject: Subject, task: Task, code: str) -> ast.Module | None:
    try:
        parsed: ast.Module = compile(code, "<code>", "exec", _ONLY_PARSE, dont_inherit=True)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        shown = (error.text or "").strip()
        subject.problems.error(
            "python-syntax",
            f"the code is not Python: {error.msg}",
            _place(subject, task, code, line, column, (error.end_offset or 0) - column),
            fix="`code` is never a template: pass the value through `input`"
            if has_template(shown)
            else "correct this line of the code",
        )
    except (ValueError, RecursionError, MemoryError):
        message = "the code is not Python: it is nested too deeply, or holds characters no text may hold"
        subject.problems.error("python-syntax", message, task.code_at, fix="write it in smaller pieces")
    else:
        return parsed
    return None


def _result(subject: Subject, step: Step | None, task: Task, tree: ast.Module) -> None:
    """Report code that computes something and hands back nothing."""
    found = silence(tree)
    if found is None or "module" in task.config or (found.acts and not _is_read(subject, step, task)):
        return
    if any("result" in block for block in (step and step.input, task.input) if isinstance(block, Mapping)):
        return  # a script's variables are the keys of `input`
    name, code = found.function, str(task.config["code"])
    subject.problems.warning(
        "returns-nothing",
        "the code returns nothing: it has no `main`, no `return`, and never assigns `result`",
        _place(subject, task, code, found.line, _column(code, found.line, found.column), len(name or code)),
        fix=f"nothing calls `{name}`; did you mean `main`?" if name else "assign what it yields to `result`",
    )


def _templates(subject: Subject, task: Task, code: str, tree: ast.Module) -> None:
    """Report templates that nothing renders."""
    for one in unrendered(code, tree):
        subject.problems.warning(
            "template-in-code",
            "`code` is never a template: this stays the text that it is",
            _place(subject, task, code, one.line, _column(code, one.line, one.column), len(one.text)),
            fix=one.way_out,
        )


def _is_read(subject: Subject, step: Step | None, task: Task) -> bool:
    """Whether a template reads what a task returned."""
    if step is None:
        return False
    last = step.tasks[-1] is task
    return any(
        read.path[:2] == ("output", "data")
        for site in subject.sites.all
        if site.place.step == step.name and (site.place.task == task.name or (last and site.place.boundary in _BEHIND))
        for read in site.template.reads
    )


def _arguments(subject: Subject, step: Step, task: Task, tree: ast.Module) -> None:
    given = set(_GIVEN) if task.auth is None else {*_GIVEN, "auth"}
    for block in (step.input, task.input):
        if block is not None and not isinstance(block, Mapping):
            return  # a template: nobody knows its keys
        given.update(block or ())
    for name, line, column in _wanted(tree):
        if name not in given:
            code = str(task.config["code"])
            subject.problems.warning(
                "missing-argument",
                f"`main` asks for `{name}`, which `input` does not give",
                _place(subject, task, code, line, _column(code, line, column), len(name)),
                fix=f"add `{name}` to the task's `input`, or give the parameter a default",
            )


def _wanted(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """The parameters of `main` without a default, each with its line and column."""
    mains = [node for node in tree.body if getattr(node, "name", None) == "main" and hasattr(node, "args")]
    if not mains:
        return
    arguments: ast.arguments = mains[-1].args
    positional = [*arguments.posonlyargs, *arguments.args]
    wanted = positional[: len(positional) - len(arguments.defaults)]
    wanted += [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    for one in wanted:
        yield one.arg, one.lineno, one.col_offset


def _column(code: str, line: int, column: int) -> int:
    """Python counts bytes from 0, people characters from 1."""
    return len(code.split("\n")[line - 1].encode()[:column].decode()) + 1


def _place(subject: Subject, task: Task, code: str, line: int, column: int, length: int) -> tuple[int, int]:
    """Where a place of the code stands in the playbook; the whole code where that cannot be told."""
    source, at = subject.problems.source, task.code_at
    assert at is not None
    whole = source.offset(at.line, at.column), source.offset(at.end_line, at.end_column)
    lines = code.split("\n")
    line = min(line, len(lines))
    wanted = lines[line - 1]
    block = source.text[whole[0]] == "|"
    first = whole[0] if not block else source.offset(at.line, 1)
    there = source.line_text(at.line + line) if block else source.text[slice(*whole)]
    if not wanted or (len(lines) > 1 and not block) or there.count(wanted) != 1:
        return whole
    start = (source.offset(at.line + line, 1) if block else first) + there.index(wanted) + min(column, len(wanted)) - 1
    return start, start + max(1, min(length, len(wanted) - column + 1))
