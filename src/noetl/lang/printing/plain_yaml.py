"""Plain values to YAML text: the quoting of scalars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.lang.reading.node import DOUBLE, FOLDED, LITERAL, PLAIN, SINGLE

_WORDS = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", "=", "<<"])
#: text that some reader, of YAML 1.1 or 1.2, takes for a number, a time or a date
_NUMBER_LIKE = re.compile(
    r"""[-+]?(
        [0-9][0-9_,]*                                   # integers, octal ones too
      | 0b[01_]+ | 0o[0-7_]+ | 0x[0-9a-fA-F_]+
      | ([0-9][0-9_]*)?\.[0-9_.]*([eE][-+]?[0-9]+)?     # floats
      | [0-9][0-9_]*[eE][-+]?[0-9]+
      | [0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?         # sexagesimal
      | \.(inf|nan)
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\ \t].*)?     # dates
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_NO_PLAIN_START = frozenset("-?:,[]{}#&*!|>'\"%@`=<~ \t")
_NO_PLAIN = re.compile(r":(\s|$)|\s#|\s$|\t")
#: what unquoted text must not hold in a flow collection
NO_FLOW_PLAIN = re.compile(r"[,\[\]{}]|:[^\w/]|\?")
_NOT_PRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def scalar_text(value: Any, style: str, *, col: int, flow: bool = False, nl: str = "\n") -> str:
    """The text of a value. `col` is the column of the block collection it stands in, -1 for none."""
    if not isinstance(value, str):
        return _other_text(value)
    if not flow and wants_lines(value, style):
        return _literal(value, col, nl)
    return _one_line(value, style, flow=flow)


def key_text(value: Any, text: str, style: str, *, flow: bool) -> str:
    """The text of a key: what counts is its text, whatever it would mean as a value."""
    if not isinstance(value, str) and text:
        return text
    return _one_line(text, style, flow=flow)


def wants_lines(value: Any, style: str) -> bool:
    """Whether a value is best written as a literal block, which no flow collection can hold."""
    if not isinstance(value, str) or not _fits_literal(value):
        return False
    return style in (LITERAL, FOLDED) or ("\n" in value and style != DOUBLE)


def is_plain(text: str, *, flow: bool) -> bool:
    """Whether text without quotes means itself, to every YAML reader."""
    if not text or text.lower() in _WORDS or _NUMBER_LIKE.fullmatch(text):
        return False
    if text[0] in _NO_PLAIN_START and not re.match(r"-[A-Za-z_]", text):
        return False
    if "{{" in text or "\n" in text or _NO_PLAIN.search(text) or _NOT_PRINTABLE.search(text):
        return False
    return not (flow and NO_FLOW_PLAIN.search(text))


def _other_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, int):
        return str(value)
    return _one_line(str(value), "", flow=True)


def _float_text(value: float) -> str:
    text = repr(value)
    if "n" in text:
        return ".nan" if text == "nan" else text.replace("inf", ".inf")
    # Without a dot, YAML 1.1 takes `1e+16` for text.
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _one_line(text: str, style: str, *, flow: bool) -> str:
    if "\n" in text or "\t" in text or _NOT_PRINTABLE.search(text):
        return _double(text)
    if style == SINGLE:
        return _single(text)
    if style != DOUBLE and is_plain(text, flow=flow):
        return text
    if ('"' in text or "\\" in text) and "'" not in text:
        return _single(text)
    return _double(text)


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(text: str) -> str:
    escaped = re.sub(r'[\\"\n\t\r\0]', lambda found: _ESCAPES[found[0]], text)
    return '"' + _NOT_PRINTABLE.sub(_hex, escaped) + '"'


def _hex(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _fits_literal(text: str) -> bool:
    last = text.rstrip("\n").rpartition("\n")[2]
    return bool(text.strip()) and bool(last.strip()) and not _NOT_PRINTABLE.search(text)


def _literal(text: str, col: int, nl: str) -> str:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    chomping = "-" if not ends else "" if ends == 1 else "+"
    lines = body.split("\n")
    first = next(line for line in lines if line)
    indicator = "2" if first[0] in " \t" or lines[0] != lines[0].lstrip() else ""
    pad = " " * (max(col, 0) + 2)
    return nl.join([f"|{indicator}{chomping}", *(pad + line if line else "" for line in lines), *[""] * (ends - 1)])


# Plain data to YAML text, a key or an item per line: what was never a file, to be read like one.


def dump(value: Any) -> str:
    """The text of a value."""
    return "".join(f"{line}\n" for line in _lines(value, 0))


def _lines(value: Any, col: int) -> Iterator[str]:
    """The lines of a value that stands at a column."""
    pad = " " * col
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            head = f"{pad}{key_text(key, key, PLAIN, flow=False)}:"
            if _is_block(item):
                yield head
                yield from _lines(item, col + 2)
            else:
                yield f"{head} {_scalar(item, col)}"
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item, col + 2) if _is_block(item) else [f"{pad}  {_scalar(item, col)}"]
            yield f"{pad}- {first[col + 2 :]}"
            yield from rest
    else:
        yield pad + _scalar(value, col)


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _scalar(value: Any, col: int) -> str:
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, list) else scalar_text(value, PLAIN, col=col)
