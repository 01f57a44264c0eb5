"""When two JSON values are equal: 1 and 1.0 are, true and 1 are not."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.schemas.judging import Judgement

_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(run: Judgement, value: Any) -> str | bytes:
    """The same for equal values and for no others; paid for by the size of the value.

    Text and bytes, because nobody can make many of them that hash alike.
    """
    run.pay(2)
    if value.__class__ is str:
        run.pay(len(value) >> 8)
        return str(value)
    return _encode(_with_plain_numbers(run, value))


def _with_plain_numbers(run: Judgement, value: Any) -> Any:
    """The value with whole numbers written as such, and integers of any size as something that can be encoded."""
    run.pay(3)
    kind = value.__class__
    if kind is float and value.is_integer():
        value, kind = int(value), int
    if kind is int:
        run.pay(value.bit_length() >> 6)
        return value if -(1 << 63) <= value < 1 << 63 else {"": hex(value)}
    if isinstance(value, str):
        run.pay(len(value) >> 8)
        return value
    if isinstance(value, (list, tuple)):
        return [_with_plain_numbers(run, part) for part in value]
    if isinstance(value, dict):
        # A map is told from a large number, which is a map here, by its list.
        return {"m": [{key: _with_plain_numbers(run, part) for key, part in value.items()}]}
    return value
