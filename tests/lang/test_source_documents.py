"""Every YAML block of the five documents the language comes from validates, migrates clean, or is refused with a reason.

The documents do not belong to this repository; where they are not there, nothing is tested.
"""

from __future__ import annotations

import pytest
from source_documents import DOCUMENTS, blocks, wrapped

from noetl.lang.legacy import migrate
from noetl.lang.loader import load
from noetl.model.diagnostics import Severity
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()

#: blocks that cannot be a playbook, and why: what refuses them
REFUSED = {
    "000-0": "a table of types, not YAML values",
    "000-3": "placeholders in angle brackets",
    "000-5": "placeholders in angle brackets",
    "000-6": "GET|POST|PUT|DELETE is no method, and `token` and `request_data` are nobody's names",
    "000-12": "a list of names with comments",
    "000-13": "insert|upsert|replace|append is no mode",
    "000-14": "insert|upsert|replace|append is no mode",
    "000-15": "parquet|json|csv is no format",
    "000-27": "a tool without its kind",
    "000-28": "targets without their table and their path",
    "000-34": "placeholders in angle brackets",
    "000-36": "a list of names with types",
    "002-0": "placeholders in angle brackets",
    "002-1": "placeholders in angle brackets",
    "002-2": "`10[...]` is no number of attempts",
    "003-1": "`{{ ... }}` is no expression",
    "003-2": "`{{ ... }}` is no expression",
    "003-3": "`{{ ... }}` is no expression",
    "003-4": "`...` stands for a task",
    "004-1": "placeholders in angle brackets",
    "004-2": "placeholders in angle brackets",
    "004-3": "placeholders in angle brackets",
    "004-4": "`...` stands for keys",
    "004-5": "placeholders in angle brackets",
    "004-6": "placeholders in angle brackets",
}


@pytest.mark.skipif(not DOCUMENTS, reason="the source documents are not part of this repository")
@pytest.mark.parametrize(("name", "block"), blocks(), ids=[name for name, _ in blocks()])
def test_a_block_validates_or_migrates_clean_or_is_refused_with_a_reason(name: str, block: str) -> None:
    text = wrapped(block)
    migrated = migrate(text, KINDS)
    result = load(migrated.text, KINDS) if migrated is not None else load(text, KINDS)
    errors = [found for found in result.diagnostics if found.severity is Severity.ERROR]
    if name in REFUSED or name.startswith("001"):
        assert errors or result.ok
        assert all(found.message and (found.span is None or found.span.line > 0) for found in errors)
        assert bool(errors) or name.startswith("001")
        return
    assert not errors, f"{errors}\n{migrated.text if migrated else text}"
    assert load(text, KINDS, legacy=True).ok
