"""Kinds of errors by their older names: conditions on the status of a response, or kinds of today."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.lang.grammar.foreign_error_kinds import FOREIGN_KINDS, STATUS_CONDITIONS
from noetl.lang.legacy.lowered_document import Lowering
from noetl.lang.legacy.shapes.read_points import ReadPoint, templates
from noetl.lang.legacy.shapes.results import StepResults
from noetl.lang.reading.node import Scalar

_WORDS = "|".join([*STATUS_CONDITIONS, *FOREIGN_KINDS])
_NAME = r"(?P<name>(?:output|event)\.error\.(?:kind|type))"
_COMPARISON = re.compile(
    rf"{_NAME}\s*(?P<operator>==|!=)\s*(?P<quote>['\"])(?P<word>{_WORDS})(?P=quote)"
    rf"|(?P<quote2>['\"])(?P<word2>{_WORDS})(?P=quote2)\s*(?P<operator2>==|!=)\s*{_NAME.replace('name', 'name2')}"
)
_MEMBERSHIP = re.compile(rf"{_NAME}\s+(?P<negated>not\s+)?in\s+[\[(](?P<words>[^\])]*)[\])]")
_QUOTED = re.compile(r"['\"]([^'\"]*)['\"]")
#: a list of nothing but quoted words
_ALL_QUOTED = re.compile(r"\s*['\"][^'\"]*['\"]\s*(?:,\s*['\"][^'\"]*['\"]\s*)*,?\s*")


def lower(doc: Lowering) -> None:
    """Rewrite comparisons of an error's kind with older names. Without a migration they are a warning of the checks."""
    if not (doc.accepted or doc.migrating):
        return
    for node, point in templates(doc, StepResults(doc)):
        if ".error." in node.text and any(word in node.text for word in (*STATUS_CONDITIONS, *FOREIGN_KINDS)):
            _rewrite(doc, node, point)


def _rewrite(doc: Lowering, node: Scalar, point: ReadPoint) -> None:
    text = _COMPARISON.sub(_compare, node.text)
    text = _MEMBERSHIP.sub(_select, text)
    if any(_has_older_word(found["words"]) for found in _MEMBERSHIP.finditer(text)):
        doc.todo(point.holder, "a kind of error by an older name is in this list: write the kinds of today", node)
    if text == node.text:
        return
    kind = point.output.last.kind if point.output is not None else ""
    if "output.http.status" in text and kind != "http":
        said = "older engines gave HTTP responses this kind of error, and this task sends no request: write a kind of today"
        doc.todo(point.holder, said, node)
        return
    doc.report_older("habit", "a kind of error by an older name", f"`{text.strip()}`", node)
    node.rewrite(text)


def _compare(match: re.Match[str]) -> str:
    word = match["word"] or match["word2"]
    operator = match["operator"] or match["operator2"]
    condition = " or ".join(_conditions([word], match["name"] or match["name2"]))
    return _negate(condition) if operator == "!=" else f"({condition})" if " and " in condition else condition


def _select(match: re.Match[str]) -> str:
    if not _has_older_word(match["words"]) or _ALL_QUOTED.fullmatch(match["words"]) is None:
        return match[0]
    words = _QUOTED.findall(match["words"])
    condition = " or ".join(_conditions(words, match["name"]))
    return _negate(condition) if match["negated"] else f"({condition})"


def _has_older_word(words: str) -> bool:
    return any(word in STATUS_CONDITIONS or word in FOREIGN_KINDS for word in _QUOTED.findall(words))


def _negate(condition: str) -> str:
    # Without an error there was no kind either, and nothing to differ from.
    return f"(output.status == 'error' and not ({condition}))"


def _conditions(words: list[str], name: str) -> Iterator[str]:
    name = f"{name.rpartition('.')[0]}.kind"  # which older documents also call `type`
    for word in words:
        if word in STATUS_CONDITIONS:
            condition = STATUS_CONDITIONS[word]
            yield f"({condition})" if " and " in condition and len(words) > 1 else condition
    kinds = list(dict.fromkeys(FOREIGN_KINDS.get(word, word) for word in words if word not in STATUS_CONDITIONS))
    if len(kinds) == 1:
        yield f"{name} == '{kinds[0]}'"
    elif kinds:
        yield f"{name} in {kinds}"
