"""Ids of executions: short, sortable by the time of the start, and unique."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
#: bits after the millisecond
_CHANCE: Final = 30


class ExecutionIds:
    """The ids that one process gives: ten characters for the millisecond of the start, six that begin at random.

    Those of the same millisecond are counted up, so they sort in the order in which they were given. Two processes may
    still draw the same id, also when their clocks differ; the store then accepts one, and the other draws again.
    """

    def __init__(self, draw_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._draw_bits = draw_bits
        self._last = -1

    def next_id(self, now: float) -> str:
        """Return the next id, for an execution that starts now."""
        first = int(now * 1000) << _CHANCE
        is_same = first <= self._last < first + (1 << _CHANCE) - 1
        self._last = self._last + 1 if is_same else first | self._draw_bits(_CHANCE)
        return _encode(self._last)


def id_of_earlier_key(caller: str, key: str) -> str:
    """Return the id that earlier versions gave the execution of a key: it followed from the key, and holds no time."""
    text = f"{caller}\0{key}".encode("utf-8", "surrogatepass")
    return _encode(int.from_bytes(hashlib.sha256(text).digest()[:10]))


def _encode(number: int) -> str:
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(75, -1, -5))


#: those of this process
new_execution_id: Final = ExecutionIds().next_id
