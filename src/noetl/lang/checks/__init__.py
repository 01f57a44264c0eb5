"""CHECKS: what must hold of a playbook beyond the shape of its values. `check` runs them all."""

from noetl.lang.checks import (
    code,
    doubtful_values,
    error_kinds,
    leases,
    names,
    packages,
    schemas,
    secrets,
    sql_statements,
    templates,
    writes,
)
from noetl.lang.checks.subject import Subject

CHECKS = (
    templates.check,
    names.check,
    schemas.check,
    secrets.check,
    writes.check,
    code.check,
    error_kinds.check,
    sql_statements.check,
    packages.check,
    leases.check,
    doubtful_values.check_quotes,
    doubtful_values.check_effects,
    doubtful_values.check_bounds,
)


def check(subject: Subject) -> None:
    """Run every check; each reports and goes on."""
    for one in CHECKS:
        one(subject)
