"""Playbooks from files: loaded for one short command, so without the garbage collector, and rewritten in place."""

from __future__ import annotations

import codecs
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from noetl.cli.catalog_folders import called_path, catalog, plain_text
from noetl.cli.files import STDIN, STDIN_NAME, InputFile, expand_files, one_file, read, replace
from noetl.cli.output.printing import as_json, in_colour, note, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.cli.catalog_folders import CatalogFolders
    from noetl.lang import Loaded
    from noetl.model.diagnostics import Diagnostic
    from noetl.model.net import Net
    from noetl.model.playbook import Task


# What a playbook calls and cannot be called, which only its folder can tell; and its warnings, briefly, before it runs.


#: warnings that are told before a run
_TOLD = 3
#: a decision that a migration left open; of these the number is told
_OPEN = "migration-todo"


def find_call_problems(
    loaded: Loaded, file: Path | None, folders: CatalogFolders, *, legacy: bool = False, strict: bool = False
) -> Iterator[Diagnostic]:
    """Report calls of playbooks that are not there or have errors, and of steps that those do not have.

    They are warnings: a file may be made before its call, and a server may have another one under that path.
    """
    if loaded.net is None or file is None:
        return
    from noetl.lang import all_tasks
    from noetl.model.diagnostics import Diagnostic, Severity

    severity = Severity.ERROR if strict else Severity.WARNING
    for _, task in all_tasks(loaded.net.playbook):
        if task.kind == "playbook":
            for code, message, fix in _find_problems(task, file.absolute(), folders, legacy=legacy):
                yield Diagnostic(code, severity, message, task.at, fix=fix)


def _find_problems(
    task: Task, caller: Path, folders: CatalogFolders, *, legacy: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield the code, the message and the fix of each problem of a call."""
    path = called_path(task)
    if path is None:
        return
    try:
        file = catalog().find(path, near=caller) or folders.find(path)
    except UsageError as error:
        fix = "give each playbook a path of its own, and correct the file that cannot be read"
        yield "missing-playbook", str(error), fix
        return
    if file is None:
        yield "missing-playbook", *_describe_missing(path, folders)
        return
    if file == caller:
        return
    try:
        _, child = catalog().read(file, legacy=legacy)
    except OSError as error:
        yield "missing-playbook", f"the playbook `{path}` cannot be read: {error.strerror}", "check its permissions"
        return
    if child.net is None:
        first = next(one for one in child.diagnostics if one.severity == "error")
        line = f"{first.span.line}: " if first.span is not None else ""
        message = f"the playbook `{path}` has errors, the first at {file.name}:{line}{first.message} [{first.code}]"
        yield "invalid-playbook", message, f"run `noetl validate {file.name}` for all of them"
        return
    for key in ("entry_step", "return_step"):
        name = plain_text(task, key)
        if name is not None and name not in child.net.steps:
            known = ", ".join(list(child.net.steps)[:12])
            yield "unknown-step", f"the playbook `{path}` has no step `{name}` (`{key}`)", f"its steps: {known}"


def _describe_missing(path: str, folders: CatalogFolders) -> tuple[str, str]:
    """A call of a playbook that is not there: the message and the fix."""
    if path.endswith((".yaml", ".yml")):
        fix = "correct `path`, which is relative to this file's folder"
        return f"there is no file `{path}` beside this playbook", fix
    where = "in this folder or in the catalog" if folders.folders else "beside this one"
    return f"there is no playbook `{path}` {where}", "correct `path`, or name its folder with --catalog"


def print_warnings(loaded: Loaded, file: Path, folders: CatalogFolders, *, legacy: bool = False) -> None:
    """Tell the first warnings of a playbook that is about to run, and how many decisions its migration left open."""
    told = [*loaded.diagnostics, *find_call_problems(loaded, file, folders, legacy=legacy)]
    found = [one for one in told if one.code != _OPEN]
    for one in found[:_TOLD]:
        place = f":{one.span.line}" if one.span is not None else ""
        note(f"{loaded.source.name}{place}: {one.severity.value}: {one.message} [{one.code}]")
    if len(found) > _TOLD:
        note(f"… and {len(found) - _TOLD} more")
    if left := len(told) - len(found):
        comments = "1 comment `# TODO noetl:` is" if left == 1 else f"{left} comments `# TODO noetl:` are"
        note(f"{loaded.source.name}: {comments} left from a migration, for you to decide")
    if told:
        from shlex import quote

        note(f"run `noetl validate {quote(loaded.source.name)}` for details")


#: how the language names the command that rewrites a file whose name it does not know
MIGRATE = "noetl migrate FILE"
#: shells complete it to files; whether one can be read is for `files.read` to say
FILE = click.Path(allow_dash=True, readable=False)


@contextmanager
def pause_gc() -> Iterator[None]:
    """A net is one big living structure: looking for garbage in it, again and again, would double the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_data(data: bytes, name: str, *, legacy: bool = False, strict: bool = False) -> Loaded:
    """What the language makes of the bytes of a file."""
    from noetl.lang import load_bytes
    from noetl.tools import ToolKinds

    with pause_gc():
        loaded = load_bytes(data, ToolKinds(), name=name, legacy=legacy, strict=strict)
    return _name_file_in_fixes(loaded)


def _name_file_in_fixes(loaded: Loaded) -> Loaded:
    """The same with commands that can be copied: the file stands in them."""
    if not any(MIGRATE in (found.fix or "") for found in loaded.diagnostics):
        return loaded
    from shlex import quote

    from msgspec.structs import replace

    name = STDIN if loaded.source.name == STDIN_NAME else quote(loaded.source.name)
    command = MIGRATE.replace("FILE", name)
    named = (
        replace(found, fix=found.fix.replace(MIGRATE, command)) if found.fix else found for found in loaded.diagnostics
    )
    return replace(loaded, diagnostics=tuple(named))


def rename_source(loaded: Loaded, file: str) -> Loaded:
    """The same with the file called as on the command line."""
    from msgspec.structs import replace

    from noetl.model.diagnostics import Source

    return _name_file_in_fixes(replace(loaded, source=Source(loaded.source.text, one_file(file).name)))


def playbook_text(file: InputFile, data: bytes) -> str:
    """The text of a file that can be read as a playbook, whatever its dialect; other files are refused."""
    from noetl.lang import MapNode, Scalar, decode_text, read_yaml
    from noetl.model.diagnostics import Diagnostics, Source

    problems = Diagnostics(Source("", file.name))
    text = decode_text(data, problems)
    problems.source.text = text or ""
    root = read_yaml(text, problems) if text is not None else None
    if text is None or not isinstance(root, MapNode):
        refuse(load_data(data, file.name), json=False)
    version = root.get("apiVersion")
    ours = isinstance(version, Scalar) and version.text.startswith("noetl.io/")
    if not ours and "workflow" not in root:
        raise UsageError(f"{file.name}: this is not a playbook: it has no `workflow`, and no `apiVersion: noetl.io/v2`")
    return text


def load_file(file: InputFile, *, legacy: bool = False, strict: bool = False) -> Loaded:
    """What the language makes of a file."""
    return load_data(read(file), file.name, legacy=legacy, strict=strict)


def net_or_exit(name: str, *, legacy: bool, json: bool = False) -> Net:
    """The net of a file; where it has errors, they are printed and the command ends."""
    loaded = load_file(one_file(name), legacy=legacy)
    if loaded.net is None:
        refuse(loaded, json=json)
    return loaded.net


def refuse(loaded: Loaded, *, json: bool) -> NoReturn:
    """Print what is wrong with a playbook and end the command."""
    from noetl.lang.printing import diagnostic_report

    found = [diagnostic_report.FileReport(loaded.source, loaded.diagnostics)]
    if json:
        out(as_json(diagnostic_report.as_json(found)))
    else:
        text = diagnostic_report.render_text(loaded.source, loaded.diagnostics, colour=in_colour(sys.stderr))
        sys.stderr.write(f"{text}\n{diagnostic_report.summarize_problems(found)}")
    raise click.exceptions.Exit(2)


# Rewriting: a playbook that cannot be read does not stop the others.


#: a file and its bytes to its new text
Rewrite = Callable[[InputFile, bytes], str]


def rewrite_each(names: Iterable[str], rewrite: Rewrite, *, word: str, check: bool, to_stdout: bool) -> int:
    """Rewrite the files; the exit code: 2 when one cannot be read, 1 when `check` found one that would change."""
    changed = failed = False
    for file in expand_files(names):
        try:
            changed |= _rewrite(file, rewrite, word=word, check=check, to_stdout=to_stdout)
        except UsageError as error:
            note(f"noetl: {error}")
            failed = True
        except click.exceptions.Exit:
            failed = True  # what is wrong with it has been printed
    return 2 if failed else 1 if check and changed else 0


def _rewrite(file: InputFile, rewrite: Rewrite, *, word: str, check: bool, to_stdout: bool) -> bool:
    data = read(file)
    text = rewrite(file, data)
    differs = text.encode() != data.removeprefix(codecs.BOM_UTF8)
    if check:
        note(f"{file.name}: would be {word}" if differs else f"{file.name}: already formatted")
    elif to_stdout or file.path is None:
        out(text)
    elif differs:
        replace(file.path, text, before=data)
        note(f"{file.name}: {word}")
    else:
        note(f"{file.name}: already formatted")
    return differs
