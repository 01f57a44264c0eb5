"""Questions to the net: what is valid and yet cannot be meant. Every answer is a warning; `--strict` makes it an error."""

from noetl.lang.analysis import data, errors, flow
from noetl.lang.checks.subject import Subject
from noetl.model.net import Net


def analyze(net: Net, subject: Subject) -> None:
    """Ask the net everything; report what comes back."""
    flow.analyze(net, subject.problems)
    errors.analyze(net, subject.problems)
    data.analyze(net, subject)
