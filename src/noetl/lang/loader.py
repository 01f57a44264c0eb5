"""The language: text to net, in passes, with every problem told at once.

`load` is the list of the passes and nothing else. A pass goes on past its own errors, and the next one runs on what
could be made, so that an author hears of everything in one go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.lang.analysis import analyze
from noetl.lang.building.playbook import build, compile_net
from noetl.lang.checks import check
from noetl.lang.checks.migration_todos import report_todos
from noetl.lang.checks.subject import Subject
from noetl.lang.grammar.reserved_words import report_reserved_document
from noetl.lang.grammar.shape_check import check_document
from noetl.lang.legacy import lower, scan
from noetl.lang.reading.node import MapNode
from noetl.lang.reading.reader import decode_text, read_yaml
from noetl.lang.schema_validation import check_defaults
from noetl.model.diagnostics import Diagnostic, Diagnostics, Severity, Source, TooManyErrors
from noetl.model.kinds import ToolKind
from noetl.model.net import Net

__all__ = ["Loaded", "load", "load_bytes"]


class Loaded(msgspec.Struct, frozen=True):
    """What became of a text: its net, unless an error forbids to run it, and all that is to be said about it."""

    net: Net | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    #: The net whatever the errors. An execution that an earlier version started is resumed with it, though this version
    #: would not start it any more.
    compiled: Net | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not any(found.severity is Severity.ERROR for found in self.diagnostics)


def load(
    text: str,
    kinds: Mapping[str, ToolKind],
    *,
    name: str = "playbook.yaml",
    legacy: bool = False,
    strict: bool = False,
) -> Loaded:
    """Read, lower, check and compile a playbook."""
    source = Source(text, name)
    problems = Diagnostics(source, stops=True)
    try:
        net, compiled = _passes(text, kinds, problems, legacy=legacy)
    except TooManyErrors:
        net = compiled = None
    return Loaded(net, _grade(problems.collect(), strict=strict), source, compiled)


def load_bytes(
    data: bytes,
    kinds: Mapping[str, ToolKind],
    *,
    name: str = "playbook.yaml",
    legacy: bool = False,
    strict: bool = False,
) -> Loaded:
    """`load` for the bytes of a file, which may not even be text."""
    problems = Diagnostics(Source("", name))
    text = decode_text(data, problems)
    if text is None:
        return Loaded(None, problems.collect(), problems.source)
    return load(text, kinds, name=name, legacy=legacy, strict=strict)


def _passes(
    text: str, kinds: Mapping[str, ToolKind], problems: Diagnostics, *, legacy: bool
) -> tuple[Net | None, Net | None]:
    """The net that may be run, and the net as far as it could be made."""
    root = read_yaml(text, problems)
    if not isinstance(root, MapNode):
        if not problems.has_errors:
            problems.error("wrong-type", "a playbook is a map of keys such as `apiVersion`, `metadata` and `workflow`",
                           (0, 0), fix="`noetl init` writes one to start from")  # fmt: skip
        return None, None
    if report_reserved_document(root, problems):
        return None, None
    report_todos(text, problems)
    # With `--legacy` the author says that the document is an older one, and more of it is rewritten.
    if legacy or scan(root, kinds):
        lower(root, kinds, problems, accepted=legacy)
    check_document(root, kinds, problems)
    playbook, sites = build(root, kinds, problems.source)
    subject = Subject(root, playbook, sites, kinds, problems)
    check(subject)
    if not playbook.steps:
        return None, None
    net = compile_net(playbook)
    analyze(net, subject)
    runs = not problems.has_errors
    check_defaults(root, playbook, problems)
    return net if runs else None, net


def _grade(found: tuple[Diagnostic, ...], *, strict: bool) -> tuple[Diagnostic, ...]:
    if not strict:
        return found
    return tuple(msgspec.structs.replace(one, severity=Severity.ERROR) for one in found)
