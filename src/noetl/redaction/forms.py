"""The forms in which a secret may turn up in text: as it is, encoded, escaped, turned round."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator

#: a value that is shorter is not looked for: it would be found everywhere
SHORTEST_SECRET = 4
#: a line of a longer secret that is shorter is not looked for by itself
_SHORTEST_LINE = 8
#: what programs leave as it is when they write a value into an address
_SAFE = ("", "/", "~", "/!$'()*+,;:@~", "/!$&'()*+,;=:@?~")
#: what programs write by its number in JSON, though they need not: nothing, as Go does, Jinja, Gson, .NET
_NUMBERED = ("", "&<>", "&<>'", "&<>'=", "&<>'+`\"")
_UNICODE = re.compile(r"(?<!\\)\\u[0-9a-f]{4}")
#: what some shells make of backslashes
_BACKSLASHES = re.compile(r"\\([abcfnrtv\\]|0[0-7]{0,3}|[1-7][0-7]{0,2})")
_LETTERS = dict(zip("abfnrtv\\", "\a\b\f\n\r\t\v\\", strict=True))
#: how double and single quotes are written in HTML and XML
_QUOTES = (
    ('"', "'"),
    ("&quot;", "&#x27;"),
    ("&quot;", "&#39;"),
    ("&#34;", "&#39;"),
    ("&quot;", "&apos;"),
    ("&quot;", "&#039;"),
)
#: base64 of so many bytes is often wrapped, and a line may end right behind its beginning
_WRAPPED = 45


def spellings(secret: str) -> set[str]:
    """All forms of a secret that are long enough to be looked for."""
    return {form for form in _forms(secret) if len(form) >= SHORTEST_SECRET}


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST_SECRET:
        return
    for whole in {secret, _echo_output(secret)}:
        for text in (whole, " ".join(whole.split()), *_lines(whole)):
            yield text
            yield text[::-1]
            yield from _escape_forms(text)
    data = secret.encode("utf-8", "surrogatepass")
    yield from _base64_forms(data)
    yield from (data.hex(), data.hex().upper())
    yield from _in_addresses(secret)
    for wide in (secret.encode("utf-16-le", "surrogatepass"), secret.encode("utf-16-be", "surrogatepass")):
        yield from _base64_forms(wide)
        yield wide.hex()
    # UTF-16 that somebody read as if each byte were a character; both byte orders have this in them
    yield "\0".join(secret)


def _lines(secret: str) -> Iterator[str]:
    """A key of several lines may be shown line by line; what frames it says nothing."""
    lines = secret.splitlines()
    if len(lines) > 1:
        stripped = (line.strip() for line in lines)
        yield from (line for line in stripped if len(line) >= _SHORTEST_LINE and not line.startswith("-----"))


def _escape_forms(text: str) -> Iterator[str]:
    import json  # slow to import, as the others are, and most runs have no secrets
    from html import escape

    for escaped in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped)[1:-1]  # JSON within JSON
        for careful in _NUMBERED:
            numbered = _escape_by_number(escaped, careful)
            yield numbered
            yield _UNICODE.sub(lambda found: found[0][:2] + found[0][2:].upper(), numbered)
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    plain = escape(text, quote=False)
    yield from (plain.replace('"', double).replace("'", single) for double, single in _QUOTES)
    yield text.replace("'", "'\"'\"'")  # as shells quote it
    yield text.replace("'", "'\\''")


def _echo_output(text: str) -> str:
    """As the `echo` of some shells prints it, and `printf %b`; a `\\c` ends the output."""
    parts, at = [], 0
    for found in _BACKSLASHES.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        if found[1] == "c":
            at = len(text)
            break
        parts.append(_LETTERS.get(found[1]) or chr(int(found[1], 8) & 0xFF))
    printed = "".join([*parts, text[at:]])
    return printed if len(printed) >= _SHORTEST_LINE else text


def _escape_by_number(escaped: str, careful: str) -> str:
    """JSON in which more characters than it asks for are written by their numbers."""
    escaped = escaped.replace('\\"', "\\u0022") if '"' in careful else escaped
    return "".join(f"\\u{ord(letter):04x}" if letter in careful else letter for letter in escaped)


def _in_addresses(secret: str) -> Iterator[str]:
    from urllib.parse import quote, quote_plus

    for safe in _SAFE:
        encoded = quote(secret, safe=safe, errors="replace")
        yield encoded
        yield "".join(part.lower() if part.startswith("%") else part for part in _percents(encoded))
    yield quote_plus(secret, errors="replace")


def _percents(text: str) -> Iterator[str]:
    """The text in parts, each `%2F` by itself."""
    head, *rest = text.split("%")
    yield head
    for part in rest:
        yield f"%{part[:2]}"
        yield part[2:]


def _base64_forms(data: bytes) -> Iterator[str]:
    """Base64 of it wherever it stands in what was encoded: without what its neighbours have a share in."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode().rstrip("=")
        first = (0, 2, 3)[before]
        last = len(encoded) - ((before + len(data)) % 3 != 0)
        core = encoded[first:last]
        for begin in range(4 if len(data) >= _WRAPPED else 1):
            yield core[begin:]
            yield core[begin:].replace("+", "-").replace("/", "_")
