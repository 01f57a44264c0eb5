"""What a playbook calls and is not there, which only its folder can tell; and its warnings, briefly, before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.cli.printing import note

if TYPE_CHECKING:
    from noetl.lang import Loaded
    from noetl.model.diagnostics import Diagnostic

#: warnings that are told before a run
_TOLD = 3


def missing_playbooks(loaded: Loaded, file: Path | None, *, strict: bool = False) -> Iterator[Diagnostic]:
    """Calls of playbooks by a file's name that is not there; one that is made before its call is told in vain."""
    if loaded.net is None or file is None:
        return
    from noetl.lang.checks.subject import all_tasks
    from noetl.model.diagnostics import Diagnostic, Severity

    severity = Severity.ERROR if strict else Severity.WARNING
    for _, task in all_tasks(loaded.net.playbook):
        tree = getattr(task.config.get("path"), "tree", task.config.get("path"))
        path = getattr(tree, "source", tree)
        if task.kind != "playbook" or not isinstance(path, str) or "{" in path or not path.endswith((".yaml", ".yml")):
            continue
        if not (file.absolute().parent / path).exists():
            message = f"there is no file `{path}` beside this playbook"
            yield Diagnostic(
                "missing-playbook",
                severity,
                message,
                task.at,
                fix="correct `path`, which is seen from this file's folder",
            )


def warn(loaded: Loaded, file: Path) -> None:
    """Tell the first warnings of a playbook that is about to run."""
    found = [*loaded.diagnostics, *missing_playbooks(loaded, file)]
    for one in found[:_TOLD]:
        place = f":{one.span.line}" if one.span is not None else ""
        note(f"{loaded.source.name}{place}: {one.severity.value}: {one.message} [{one.code}]")
    if len(found) > _TOLD:
        note(f"… and {len(found) - _TOLD} more")
    if found:
        from shlex import quote

        note(f"`noetl validate {quote(loaded.source.name)}` tells them with the way out")
