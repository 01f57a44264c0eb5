"""Questions to the net: what is valid and yet cannot be meant. Every answer is a warning; `--strict` makes it an error."""

from noetl.lang.analysis import data, errors, flow
from noetl.lang.checks.subject import Subject
from noetl.model.net import Net

#: with one of these, what seems unreachable may well not be
_BREAKS_THE_NET = frozenset(
    {"unknown-step", "duplicate-step", "unknown-key", "missing-key", "wrong-type", "arc-payload"}
)


def analyze(net: Net, subject: Subject) -> None:
    """Ask the net everything; report what comes back."""
    if not any(found.code in _BREAKS_THE_NET for found in subject.problems.collect()):
        flow.analyze(net, subject.problems)
    errors.analyze(net, subject.problems)
    data.analyze(net, subject)
    data.report_near_names(subject)
