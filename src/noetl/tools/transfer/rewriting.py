"""Files made readable first: text of another encoding as UTF-8, a JSON array as an object a line."""

from __future__ import annotations

import codecs
import gzip
import io
from pathlib import Path
from typing import IO, Any, cast

from noetl.tools.datahost.databases import opened
from noetl.tools.datahost.failing import Failing
from noetl.tools.datahost.host import Running
from noetl.tools.transfer.naming import is_zipped

_AT_ONCE = 10_000
_BLOCK = 1 << 20
_SPACE = b" \t\r\n"


def open_text(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_zipped(path) else path.open("rb")


def in_utf8(path: Path, encoding: str | None, scratch: Path) -> Path:
    """A file whose text is UTF-8: the file itself, or another. Failing: it is not of that encoding."""
    if encoding is None or _is_utf8(encoding):
        return path
    made = scratch / f"utf8-{path.name.removesuffix('.gz')}"
    with open_text(path) as file, made.open("w", encoding="utf-8", newline="") as out:
        text = io.TextIOWrapper(file, encoding, newline="")
        try:
            while block := text.read(_BLOCK):
                out.write(block.removeprefix("\ufeff") if not out.tell() else block)
        except UnicodeError as error:
            why = error.reason if isinstance(error, UnicodeDecodeError) else error
            raise Failing("type", f"the source: `{path}` is not {encoding}: {why}", at="source") from None
    return made


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")
    except LookupError:
        message = (
            f"`source.encoding`: nobody knows an encoding {encoding!r}; utf-8, latin-1, cp1252 and utf-16 are some"
        )
        raise Failing("type", message) from None


def one_a_line(path: Path, running: Running, config: Any, scratch: Path) -> Path:
    """A JSON file that is an array, with one of its objects a line."""
    _refuse_cut_off(path)
    lines = scratch / "array.ndjson"
    with opened(running, None, config) as connection, lines.open("wb") as file:
        connection.execute("SELECT json(json) FROM read_json_objects($1, format = 'auto')", [str(path)])
        while some := connection.fetchmany(_AT_ONCE):
            file.write(b"".join(row[0].encode() + b"\n" for row in some))
    return lines


def _refuse_cut_off(path: Path) -> None:
    """Failing: an array has no end. DuckDB takes one that ends behind a comma."""
    first = last = b""
    with open_text(path) as file:
        if not is_zipped(path) and path.stat().st_size > 2 * _BLOCK:
            first = file.read(_BLOCK).strip(_SPACE)[:1]
            file.seek(-_BLOCK, io.SEEK_END)
        while block := file.read(_BLOCK):
            held = block.strip(_SPACE)
            first, last = first or held[:1], held[-1:] or last
    if first == b"[" and last != b"]":
        message = f"the source: the array in `{path}` has no end: the file was cut off"
        raise Failing("type", message, at="source")
