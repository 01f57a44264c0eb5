"""In the process of a python task: a large result goes to a file that the engine opened, piece by piece."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: elements that are written at a time
_SLICE = 1_000
#: a map or list of so many members is looked into
_FEW = 64


def _is_long(value: Any) -> bool:
    """Whether a value may be large: then it is not to be written in one piece."""
    if type(value) in (list, tuple):
        return len(value) > _SLICE or (len(value) <= _FEW and any(map(_is_long, value)))
    return type(value) is dict and len(value) <= _FEW and any(map(_is_long, value.values()))


def json_pieces(value: Any, encode: Callable[[Any], bytes]) -> Iterator[bytes]:
    """A value as JSON, bit by bit."""
    if not _is_long(value):
        yield encode(value)
    elif type(value) is dict:
        opening = b"{"
        for key, item in value.items():
            yield opening + encode(key) + b":"
            yield from json_pieces(item, encode)
            opening = b","
        yield b"}"
    else:
        yield from _list_pieces(value, encode)


def _list_pieces(value: Any, encode: Callable[[Any], bytes]) -> Iterator[bytes]:
    opening = b"["
    for start in range(0, len(value), _SLICE if len(value) > _FEW else 1):
        yield opening
        if len(value) > _FEW:
            yield encode(value[start : start + _SLICE])[1:-1]
        else:
            yield from json_pieces(value[start], encode)
        opening = b","
    yield b"]"


def spill_result(
    value: Any,
    written: Iterator[bytes],
    task: dict[str, Any],
    ask: Callable[[], int],
) -> dict[str, Any] | bytes:
    """What to answer: the result, if it turns out to be small, or what is to be known of it once it is in a file."""
    held: list[bytes] = []
    size, file = 0, -1
    try:
        for piece in written:
            size += len(piece)
            if size > task["limit"]:
                return {"error": {"kind": "limit", "message": task["over_limit"]}}
            held.append(piece)
            if size > task["spill"]:
                file = file if file >= 0 else ask()
                _write_all(file, b"".join(held))
                held = []
        if file < 0:
            return b'{"data":%b}' % b"".join(held)
        _write_all(file, b"".join(held))
    except _NotWritten as error:
        return {"unwritten": error.args[0]}
    finally:
        if file >= 0:
            os.close(file)
    return {"spilled": size, **_rows(value)}


def _rows(value: Any) -> dict[str, Any]:
    if type(value) not in (list, tuple):
        return {"rows": None, "columns": None}
    from noetl.rows.columns import row_shape

    return {"rows": len(value), "columns": row_shape(list(value))}


class _NotWritten(Exception):
    """The file of the engine takes no more; it has the number of the error. The code is not to blame."""


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError as error:
        raise _NotWritten(error.errno) from None


def receive_file(channel: int) -> int:
    """The descriptor that comes over a socket."""
    import _socket

    socket = _socket.socket(fileno=os.dup(channel))
    try:
        _, ancillary, *_ = socket.recvmsg(1, _socket.CMSG_SPACE(4))
    finally:
        socket.close()
    return int.from_bytes(ancillary[0][2][:4], sys.byteorder)
