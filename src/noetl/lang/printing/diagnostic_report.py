"""Diagnostics as text with a caret, as JSON and as SARIF; and the edits of those with an automatic fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from noetl.model.diagnostics import Diagnostic, Edit, Severity, Source, Span

#: text and the name of a colour to the text in that colour
_Paint: TypeAlias = Callable[[str, str], str]

#: columns of source text that are shown; longer lines are cut around the caret
WIDTH = 100
#: files that a command is spelled out for
_MOST_FILES = 5
_TAB = "    "
_ELLIPSIS = "…"
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_COLOURS = {"error": "1;31", "warning": "1;33", "place": "1", "gutter": "34", "help": "36"}
#: characters that would move the cursor or turn the direction of what is printed
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class FileReport(NamedTuple):
    """A file and what was found in it."""

    source: Source
    diagnostics: Sequence[Diagnostic]


# --- text ------------------------------------------------------------------------------------------------------


def render_text(source: Source, diagnostics: Iterable[Diagnostic], *, colour: bool = False, width: int = WIDTH) -> str:
    """Every diagnostic with its place, the line it is about, a caret and the way out. Ends with a line break."""
    paint = _paint if colour else _plain
    return "\n".join(_one(source, found, paint, width) for found in diagnostics)


def summarize_problems(reports: Sequence[FileReport]) -> str:
    """One line of counts, and a line for each command that would help."""
    found = [one for report in reports for one in report.diagnostics]
    errors = sum(one.severity is Severity.ERROR for one in found)
    counts = [_count(errors, "error")] * bool(errors) + [_count(len(found) - errors, "warning")] * (len(found) > errors)
    where = reports[0].source.name if len(reports) == 1 else _count(len(reports), "file")
    lines = [f"{', '.join(counts) or 'no problems'} in {where}"]
    mendable = sum(bool(one.edits) for one in found)
    if mendable:
        named = _files(reports, lambda one: bool(one.edits), stdin="FILE")  # stdin cannot be mended in place
        lines.append(
            f"`noetl validate --fix {named}` mends {'it' if mendable == len(found) == 1 else f'{mendable} of them'}"
        )
    if any(map(_is_legacy, found)):
        lines.append(f"`noetl migrate {_files(reports, _is_legacy, stdin='-')}` rewrites the older constructs")
    return "\n".join(lines) + "\n"


def _is_legacy(found: Diagnostic) -> bool:
    return found.code.startswith("legacy-")


def _files(reports: Iterable[FileReport], wanted: Callable[[Diagnostic], bool], *, stdin: str) -> str:
    """The files that have such problems, as they are written on a command line."""
    from shlex import quote

    names = [report.source.name for report in reports if any(map(wanted, report.diagnostics))]
    shown = [stdin if name.startswith("<") else quote(name) for name in names]  # `<stdin>` is no file
    return " ".join(shown) if len(shown) <= _MOST_FILES else "FILE…"


def escape_controls(text: str) -> str:
    """Text in which nothing can move the cursor: control characters are written out."""
    return _UNPRINTABLE.sub(lambda found: _escape_char(found.group()), text)


def _one(source: Source, found: Diagnostic, paint: _Paint, width: int) -> str:
    place = f"{source.name}:{found.span.line}:{found.span.column}:" if found.span else f"{source.name}:"
    head = paint(f"{found.severity}[{found.code}]", found.severity)
    parts = [f"{paint(escape_controls(place), 'place')} {head}: {escape_controls(found.message)}\n"]
    indent = "  "
    shown = _snippet(source, found, width)
    if shown is not None and found.span is not None:
        number = str(found.span.line)
        indent = " " * (len(number) + 1)
        parts.append(f"{paint(f'{number} |', 'gutter')} {shown.text}\n")
        parts.append(
            f"{indent}{paint('|', 'gutter')} {' ' * shown.before}{paint('^' * shown.length, found.severity)}\n"
        )
    if found.fix:
        parts.append(f"{indent}{paint('help:', 'help')} {escape_controls(found.fix)}\n")
    return "".join(parts)


class _Snippet(NamedTuple):
    text: str
    before: int
    length: int


def _snippet(source: Source, found: Diagnostic, width: int) -> _Snippet | None:
    """The line of a diagnostic, cut to the width, and where under it the caret stands."""
    if found.span is None:
        return None
    line = source.line_text(found.span.line)
    if not line.strip():
        return None
    start = min(found.span.column - 1, len(line))
    end = found.span.end_column - 1 if found.span.end_line == found.span.line else len(line.rstrip())
    end = max(start, min(end, len(line)))
    first, last = _window(line, start, width)
    cells = [_cell(char) for char in line[first:last]]
    left, right = _ELLIPSIS * (first > 0), _ELLIPSIS * (last < len(line))
    before = len(left) + sum(size for _, size in cells[: start - first])
    length = sum(size for _, size in cells[start - first : end - first])
    return _Snippet(left + "".join(text for text, _ in cells) + right, before, max(1, length))


def _window(line: str, start: int, width: int) -> tuple[int, int]:
    """Which characters of the line are shown: a third of the width before the caret, the rest after it."""
    if len(line) * len(_TAB) <= width:
        return 0, len(line)
    first = _reach(line, start, -1, width // 3)
    last = _reach(line, start, 1, width - _columns(line[first:start]))
    if last == len(line):
        first = _reach(line, start, -1, width - _columns(line[start:last]))
    return first, last


def _reach(line: str, at: int, step: int, width: int) -> int:
    """How far one gets from a position before the width is used up."""
    while 0 <= (index := at if step > 0 else at - 1) < len(line):
        width -= _cell(line[index])[1]
        if width < 0:
            break
        at += step
    return at


def _columns(text: str) -> int:
    return sum(_cell(char)[1] for char in text)


def _cell(char: str) -> tuple[str, int]:
    """How a character is shown, and how many columns of a terminal that takes."""
    if " " <= char <= "~":
        return char, 1
    if char == "\t":
        return _TAB, len(_TAB)
    if _UNPRINTABLE.match(char):
        shown = _escape_char(char)
        return shown, len(shown)
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me", "Cf"):
        return char, 0
    return char, 2 if east_asian_width(char) in "WF" else 1


def _escape_char(char: str) -> str:
    # ␛ and its like for the old control characters, an escape for those that have no picture.
    return chr(0x2400 + ord(char)) if char < " " else f"\\u{ord(char):04x}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _plain(text: str, _colour: str) -> str:
    return text


def _paint(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


# --- JSON and SARIF --------------------------------------------------------------------------------------------


def as_json(reports: Iterable[FileReport]) -> dict[str, Any]:
    """`{"diagnostics": […]}`; lines and columns count from 1, columns in characters, ends are exclusive."""
    return {"diagnostics": [_as_map(report.source, found) for report in reports for found in report.diagnostics]}


def _as_map(source: Source, found: Diagnostic) -> dict[str, Any]:
    span = found.span
    return {
        "code": found.code,
        "severity": str(found.severity),
        "line": span.line if span else None,
        "column": span.column if span else None,
        "message": found.message,
        "fix": found.fix,
        "file": source.name,
        "end_line": span.end_line if span else None,
        "end_column": span.end_column if span else None,
        "edits": [
            {**msgspec.structs.asdict(source.span(edit.start, edit.end)), "text": edit.text} for edit in found.edits
        ],
    }


def as_sarif(reports: Sequence[FileReport], version: str) -> dict[str, Any]:
    """A SARIF 2.1.0 log, as code scanning services read it."""
    codes = sorted({found.code for report in reports for found in report.diagnostics})
    index = {code: at for at, code in enumerate(codes)}
    run = {
        "tool": {"driver": {"name": "noetl", "version": version, "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(report.source, found, index) for report in reports for found in report.diagnostics],
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    from noetl.model.slugs import slug_info

    info = slug_info(code)
    if info is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": info.title},
        "fullDescription": {"text": f"{info.meaning} {info.why}"},
        "help": {"text": info.mend},
    }


def _result(source: Source, found: Diagnostic, index: Mapping[str, int]) -> dict[str, Any]:
    artifact = {"uri": _address(source.name)}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if found.span is not None:
        physical["region"] = _region(found.span)
    result: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": index[found.code],
        "level": str(found.severity),
        "message": {"text": f"{found.message}; {found.fix}" if found.fix else found.message},
        "locations": [{"physicalLocation": physical}],
    }
    if found.edits:
        replacements = [
            {"deletedRegion": _region(source.span(edit.start, edit.end)), "insertedContent": {"text": edit.text}}
            for edit in found.edits
        ]
        change = {"artifactLocation": artifact, "replacements": replacements}
        result["fixes"] = [{"description": {"text": found.fix or found.message}, "artifactChanges": [change]}]
    return result


def _address(name: str) -> str:
    from urllib.parse import quote  # slow to import, and only wanted here

    return quote(name.replace("\\", "/"))


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


# --- mending ---------------------------------------------------------------------------------------------------


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made, from the front; one that overlaps an earlier one is left out."""
    parts: list[str] = []
    at = 0
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end)):
        if edit.start < at or edit.end > len(text):
            continue
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])
