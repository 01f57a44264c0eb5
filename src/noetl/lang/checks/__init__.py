"""CHECKS: what must hold of a playbook beyond the shape of its values. `check` runs them all."""

from noetl.lang.checks import bounds, code, doubts, names, quotes, schemas, secrets, templates, writes
from noetl.lang.checks.subject import Subject

CHECKS = (
    templates.check,
    names.check,
    schemas.check,
    secrets.check,
    writes.check,
    code.check,
    quotes.check,
    doubts.check,
    bounds.check,
)


def check(subject: Subject) -> None:
    """Run every check; each reports and goes on."""
    for one in CHECKS:
        one(subject)
