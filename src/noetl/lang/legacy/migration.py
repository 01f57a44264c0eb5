"""LOWERINGS: the passes that rewrite an older document into a canonical one, in order; `lower` and `migrate` run them.

`lower` runs them for `noetl validate` and `noetl run`; `migrate` prints the lowered document and copies every unchanged
part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from noetl.lang.legacy import defined_names, keychain, root_keys, shapes, sink_tasks, sql_texts, template_names
from noetl.lang.legacy.constructs import (
    code_names,
    cursor_loops,
    database_files,
    document_words,
    doubts,
    passed_errors,
    reserved_removal,
    workload_templates,
)
from noetl.lang.legacy.lowered_document import Lowering
from noetl.lang.legacy.scanner import scan
from noetl.lang.legacy.workflow import (
    arc_args,
    fan_in,
    published_results,
    routing,
    rules_and_writes,
    step_body,
    task_keys,
)
from noetl.lang.printing.printer import render
from noetl.lang.reading.node import MapNode, copy
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostic, Diagnostics, Severity, Source
from noetl.model.kinds import ToolKind

#: each pass relies on what those before it have found: the form of the document first, then names in templates, then what they read
LOWERINGS = (
    document_words.lower_schedule,
    root_keys.lower,
    keychain.lower,
    step_body.lower,
    root_keys.lower_misplaced,
    step_body.lower_misplaced,
    task_keys.lower_misplaced,
    task_keys.lower,
    document_words.lower,
    cursor_loops.lower,
    step_body.lower_loops,
    published_results.lower,
    rules_and_writes.lower,
    sink_tasks.lower,
    sql_texts.lower,
    database_files.lower,
    routing.lower,
    code_names.lower,
    arc_args.lower,
    reserved_removal.lower,
    template_names.lower,
    workload_templates.lower,
    shapes.lower,
    passed_errors.lower,
    fan_in.lower,
    doubts.lower,
)


def lower(
    root: MapNode,
    kinds: Mapping[str, ToolKind],
    problems: Diagnostics,
    *,
    accepted: bool = False,
    migrating: bool = False,
) -> None:
    """Rewrite the nodes of an older document into canonical ones, and report each older construct."""
    doc = Lowering(root, kinds, problems, accepted=accepted, migrating=migrating)
    doc.is_000 = _is_000(problems.source.text)
    if accepted or migrating:
        defined_names.mark(doc, older=accepted or _is_older(root, kinds, problems.source))
    for one in LOWERINGS:
        one(doc)
    defined_names.unmark(doc)


def _is_older(root: MapNode, kinds: Mapping[str, ToolKind], source: Source) -> bool:
    """Whether a document has constructs of grade legacy, found by a trial: only then do its own names hide scopes."""
    if not scan(root, kinds):
        return False
    trial = Diagnostics(source)
    tree = copy(root)
    assert isinstance(tree, MapNode)
    doc = Lowering(tree, kinds, trial)
    for one in LOWERINGS:
        one(doc)
    return any(found.code.startswith("legacy-") and found.severity is Severity.ERROR for found in trial.collect())


def _is_000(text: str) -> bool:
    """Signs of the oldest dialect, in which a step runs at most once."""
    if not any(word in text for word in ("context.", "collection:", "sink:", "result:")):
        return False  # nearly every file, and looking for a line's start takes long
    return bool(
        re.search(
            r"\{\{[^}]*\bcontext\.|^\s*(?:- )?(?:collection|sink):|^\s*(?:- )?result: *\w+ *(?:#.*)?$",
            text,
            re.MULTILINE,
        )
    )


#: of what the reader reports, what leaves the tree with less than the text says
_LOSING = frozenset({"yaml-syntax", "duplicate-key"})


class Migrated(msgspec.Struct, frozen=True):
    """A migrated text, what was rewritten and what is left to a person."""

    text: str
    diagnostics: tuple[Diagnostic, ...]
    changed: bool


def migrate(text: str, kinds: Mapping[str, ToolKind], *, name: str = "playbook.yaml") -> Migrated | None:
    """The canonical spelling of a playbook; None if the text cannot be read at all."""
    source = Source(text, name)
    problems = Diagnostics(source)
    root = read_yaml(text, problems)
    if not isinstance(root, MapNode):
        return None
    if any(found.code in _LOSING for found in problems.collect()):
        return Migrated(text, problems.collect(), changed=False)
    lower(root, kinds, problems, migrating=True)
    migrated = render(root, source)
    return Migrated(migrated, problems.collect(), migrated != text)
