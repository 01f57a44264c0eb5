"""The result of a python task as JSON, in a file if it is large. Part of the task's process, so it imports next to nothing.

Most data is plain already, and looking at types in bulk (`set(map(type, …))`) tells so at the speed of C: containers are
copied only where something inside of them has to change.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: what JSON holds as it is; whether a number is finite and a text can be encoded is seen when it is written
_PLAIN = {str, int, float, bool, type(None)}
_TEXT = {str}
_DEEPEST = 200
#: digits of a whole decimal that is taken as a number
_MOST_DIGITS = 4_000


class NotJson(Exception):
    """A value that JSON cannot hold, and the way to it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str | int] = []

    def __str__(self) -> str:
        where = "".join(_part(key) for key in self.path)
        return f"`result{where if len(where) < 300 else where[:300] + '…'}` {self.problem}"


def plain(value: Any, depth: int = 0) -> Any:
    """The value with dates as ISO 8601, decimals as numbers or text, bytes as base64, numbers that are keys as text.

    NotJson for anything else.
    """
    if type(value) in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise NotJson(f"is nested deeper than {_DEEPEST} levels, or contains itself")
    if isinstance(value, dict):
        return _map(value, depth)
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) <= _PLAIN:
            return value
        return [_plain_member(index, item, depth) for index, item in enumerate(value)]
    if isinstance(value, (str, int, float)):  # of a class of its own, such as an enum
        return value
    return _convert(value)


def _map(value: dict[Any, Any], depth: int) -> Any:
    if not set(map(type, value)) <= _TEXT:
        value = _with_text_keys(value)
    if set(map(type, value.values())) <= _PLAIN:
        return value
    return {key: _plain_member(key, item, depth) for key, item in value.items()}


def _with_text_keys(value: dict[Any, Any]) -> dict[str, Any]:
    """A map whose keys are text; NotJson: one of them has no text, or another one has the same."""
    made: dict[str, Any] = {}
    for key, item in value.items():
        text = _key_text(key)
        if text in made:
            raise NotJson(f"has two keys that are `{text}` in JSON")
        made[text] = item
    return made


def _key_text(key: Any) -> str:
    """A key as JSON writes it."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        if problem := _leaf_problem(key):
            raise NotJson(f"has a key that {problem}")
        return int.__repr__(key) if isinstance(key, int) else float.__repr__(key)
    raise NotJson(f"has a key that is not text: {short_repr(key)}")


def _plain_member(key: str | int, value: Any, depth: int) -> Any:
    try:
        return plain(value, depth + 1)
    except NotJson as error:
        error.path.insert(0, key)
        raise


def _convert(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        from binascii import b2a_base64

        return b2a_base64(value, newline=False).decode()
    for module, name, convert in _CONVERSIONS:
        # Whoever made such a value has imported its module.
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(value, kind):
            return convert(value)
    raise NotJson(f"is not JSON: {short_repr(value)}")


def _decimal(value: Any) -> Any:
    """A number if no digit is lost, else text."""
    if not value.is_finite():
        raise NotJson(f"is not a number that JSON knows: {value}")
    if value.as_tuple().exponent >= 0 and value.adjusted() < _MOST_DIGITS:
        return int(value)
    number = float(value)
    return number if type(value)(repr(number)) == value else str(value)


_CONVERSIONS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("datetime", "date", lambda value: value.isoformat()),  # a datetime is a date
    ("datetime", "time", lambda value: value.isoformat()),
    ("decimal", "Decimal", _decimal),
    ("uuid", "UUID", str),
)


def locate(value: Any) -> NotJson:
    """Why a plain value could not be written after all: the first number or text in it that JSON has no form for."""
    below: Any = ()
    if isinstance(value, dict):
        for key in value:
            if not _encodes(key):
                return NotJson(f"has a key that is not Unicode text: {key!a}")
        below = value.items()
    elif isinstance(value, (list, tuple)):
        below = enumerate(value)
    for key, item in below:
        if isinstance(item, (dict, list, tuple)):
            error = locate(item)
            if error.problem:
                error.path.insert(0, key)
                return error
        elif problem := _leaf_problem(item):
            error = NotJson(problem)
            error.path.append(key)
            return error
    return NotJson(_leaf_problem(value))


def _leaf_problem(value: Any) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124  NaN
        return f"is not a number that JSON knows: {value}"
    if isinstance(value, int) and not _converts(value):
        return "is a whole number of more than 4,300 digits"
    if isinstance(value, str) and not _encodes(value):
        return f"is not Unicode text: {value[:80]!a}"
    return ""


def _converts(number: int) -> bool:
    try:
        int.__repr__(number)
    except ValueError:
        return False
    return True


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _part(key: str | int) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r}]"


def short_repr(value: Any) -> str:
    """A value for a message: its type, and the beginning of what it looks like."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  it is the author's code that fails, while we report on it
        text = "…"
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:80] + '…'}"


# Results that are large go to a file that the engine opened, piece by piece.


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
