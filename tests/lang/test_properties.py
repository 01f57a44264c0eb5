"""What holds for every text, whatever it is: it is answered, rewritten without loss, and never costs too much."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import msgspec
import yaml

from noetl.lang import Loaded, load, load_bytes
from noetl.lang.formatter import format_text
from noetl.lang.legacy import migrate
from noetl.model.diagnostics import Severity
from noetl.model.source import Span
from noetl.tools.registry import Kinds

KINDS = Kinds()
#: a task under its label gets a `name`, which older dialects took for what is called; it was missing before
FORMATTED = {"legacy-secrets-name": "missing-key", "legacy-workbook-name": "missing-key"}


# -- what is claimed


def answered(loaded: Loaded) -> Loaded:
    """Every problem has a text and a place within the source; there is a net exactly if there is no error."""
    lines = loaded.source.text.split("\n")
    for found in loaded.diagnostics:
        assert found.message.strip(), found
        assert found.span is None or is_within(found.span, lines), found
    assert (loaded.net is None) == (not loaded.ok), loaded.diagnostics
    return loaded


def is_within(span: Span, lines: list[str]) -> bool:
    def on_line(line: int, column: int) -> bool:
        return 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 2

    ends = (span.line, span.column) <= (span.end_line, span.end_column)
    return ends and on_line(span.line, span.column) and on_line(span.end_line, span.end_column)


def check_load(text: str) -> Loaded:
    plain = answered(load(text, KINDS))
    strict = load(text, KINDS, strict=True)
    assert [found.code for found in strict.diagnostics] == [found.code for found in plain.diagnostics]
    answered(load(text, KINDS, legacy=True))
    return plain


def check_migrate(text: str) -> None:
    migrated = migrate(text, KINDS)
    if migrated is None:
        return
    assert migrated.changed == (migrated.text != text)
    lost = comments(text) - comments(migrated.text)
    assert not lost, f"lost {lost}:\n{migrated.text}"
    again = migrate(migrated.text, KINDS)
    assert again is not None
    assert again.text == migrated.text, f"first:\n{migrated.text}\nsecond:\n{again.text}"
    if load(text, KINDS, legacy=True).ok:
        errors = [found for found in load(migrated.text, KINDS).diagnostics if found.severity is Severity.ERROR]
        assert not errors, f"{errors}\n{migrated.text}"


def check_format(text: str) -> None:
    formatted = format_text(text)
    if formatted is None:
        return
    assert format_text(formatted) == formatted
    before, after = load(text, KINDS), load(formatted, KINDS)
    codes = [
        Counter(FORMATTED.get(found.code, found.code) for found in loaded.diagnostics) for loaded in (before, after)
    ]
    assert codes[0] == codes[1], f"{codes[0] - codes[1]} {codes[1] - codes[0]}\n{formatted}"
    assert dump(before.net) == dump(after.net), formatted


def dump(node: Any) -> Any:
    """What a net says, without where it says it."""
    if isinstance(node, Span):
        return None
    if isinstance(node, msgspec.Struct):
        return {name: dump(getattr(node, name)) for name in node.__struct_fields__}
    if isinstance(node, dict):
        return [(key, dump(value)) for key, value in sorted(node.items(), key=lambda item: str(item[0]))]
    if isinstance(node, list | tuple):
        return [dump(item) for item in node]
    if hasattr(node, "tree"):
        return dump(node.tree)
    return node.source if hasattr(node, "source") else node


_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")


def comments(text: str) -> Counter[str]:
    """The comments of a text: what begins with # between two tokens, and beside the `|` of a block scalar."""
    found: list[str] = []
    end = 0
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        start, stop = token.start_mark.index, token.end_mark.index
        found += _COMMENT.findall(text, end, start) if start > end else []
        if isinstance(token, yaml.ScalarToken) and text[start : start + 1] in ("|", ">"):
            found += _COMMENT.findall(re.split("[\r\n\x85\u2028\u2029]", text[start:stop])[0])
        end = max(end, stop)
    found += _COMMENT.findall(text, end)
    return Counter(one.rstrip() for one in found)
