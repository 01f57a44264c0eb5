"""Kinds of errors: that a condition on `error.kind` compares it with a kind that there is."""

from __future__ import annotations

from noetl.expr import TextComparison
from noetl.lang.building.template_sites import Site
from noetl.lang.checks.subject import Subject, all_tasks
from noetl.lang.grammar.foreign_error_kinds import FOREIGN_KINDS, STATUS_CONDITIONS

#: words that nearly say a kind
_KINDS = {
    **FOREIGN_KINDS,
    "http": "http-status",
    "database": "sql",
    "db": "sql",
    "postgres": "sql",
    "exception": "python",
    "canceled": "cancelled",
}


def check(subject: Subject) -> None:
    """Report words that no error has as its kind: the condition would never hold, or always."""
    compared = [
        (site, comparison)
        for site in subject.sites.all
        for comparison in site.template.comparisons
        if _is_kind(comparison.path)
    ]
    known = _known_kinds(subject) if compared else set()
    for site, comparison in compared:
        for text in comparison.texts:
            if text not in known:
                _report(subject, site, comparison, text, known)


def _known_kinds(subject: Subject) -> set[str]:
    from noetl.model.slugs.failures import ERROR_KINDS  # few playbooks need to know them

    known = set(ERROR_KINDS)
    for _step, task in all_tasks(subject.playbook):
        kind = subject.kinds.get(task.kind)
        known |= kind.error_kinds if kind is not None else frozenset()
    return known


def _is_kind(path: tuple[str, ...]) -> bool:
    """Whether a path leads to the kind of an error."""
    if path[0] == "steps":
        return path[2:] == ("status", "failure", "kind")
    return path[-2:] == ("error", "kind") and path[:-2] in (("output",), ("event",), ("event", "output"))


def _report(subject: Subject, site: Site, comparison: TextComparison, text: str, known: set[str]) -> None:
    source = site.template.source
    quoted = next((one for one in (f"'{text}'", f'"{text}"') if one in source), text)
    after = source.find(quoted, comparison.offset)
    at = subject.where(site, after if after >= 0 else source.find(quoted), len(quoted))
    meant = _KINDS.get(text) or subject.hints.nearest(text, known)
    certain = meant if text in _KINDS else subject.hints.certain(text, known)
    if text in STATUS_CONDITIONS:
        fix = f"write `{STATUS_CONDITIONS[text]}`"
    else:
        fix = (
            f"did you mean `{meant}`?"
            if meant
            else "`noetl help KIND` explains one; the reference page `errors` lists all"
        )
    subject.problems.warning(
        "unknown-error-kind",
        f"no error has the kind `{text}`",
        at,
        fix=fix,
        edits=subject.rename_edits(at, text, certain) if text not in STATUS_CONDITIONS and meant else (),
    )
