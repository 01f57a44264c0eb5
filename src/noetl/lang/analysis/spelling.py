"""Names that are nearly known: `workload.nams` where there is `names`, `output.dta`.

A name that is like no other is left alone: a payload may hold more than the workload declares.
"""

from __future__ import annotations

from noetl.lang.checks.subject import UNLIKE, Subject

_OUTPUT = frozenset({"status", "data", "ref", "error", "meta", "http", "pg", "py", "loop"})


def analyze(subject: Subject) -> None:
    """Report names that differ from a known one by a slip of the finger."""
    known = {"workload": frozenset(subject.playbook.workload), "output": _OUTPUT}
    for site in subject.sites.all:
        for read in site.template.reads:
            names = known.get(read.path[0])
            if not names or len(read.path) < 2 or read.path[1] in names or len(read.path[1]) < UNLIKE:
                continue
            name, meant = read.path[1], subject.hints.nearest(read.path[1], names)
            if meant is not None:
                at = subject.where_path(site, read, 2)
                subject.problems.warning(
                    "unknown-name",
                    f"`{read.path[0]}` has no `{name}`",
                    at,
                    fix=f"did you mean `{read.path[0]}.{meant}`?",
                    edits=subject.rename_edits(at, name, subject.hints.certain(name, names)),
                )
