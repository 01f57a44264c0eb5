"""Values and limits in the words of messages: what something is, which keys it has, and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.model.nearest import nearest

#: keys of a map that are listed, and characters of a text that are shown
_KEYS: Final = 8
_SHOWN: Final = 40
#: keys among which a near one is looked for
_SEARCHED: Final = 200
#: numbers beyond are not written out
_LARGE: Final = 10**30

#: where a template has reached its limits, this is where to go on
ELSEWHERE: Final = "do it in a `kind: python` task, whose limits can be set"


def sort_of(value: Any) -> str:
    """What a value is, in a word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, (list, tuple)) else type(value).__name__


def shown(value: Any) -> str:
    """A value as messages show it: what it is, and a short one itself."""
    if isinstance(value, str):
        # All of it or nothing: what is cut short of a secret could not be told from other text.
        return f"the text {value!r}" if len(value) <= _SHOWN else f"a text of {len(value):,} characters"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}" if abs(value) < _LARGE else "a number"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{sort_of(value)} of {len(value)}"
    return sort_of(value)


def what_there_is(name: str, of: Any) -> str:
    """Behind "`name` is missing in `…`": what the value has instead."""
    if isinstance(of, Mapping):
        keys = [key for key, _ in zip(of, range(_SEARCHED), strict=False) if isinstance(key, str)]
        meant = nearest(name, keys)
        if meant is not None:
            return f"; did you mean `{meant}`?"
        more = ", …" if len(of) > _KEYS else ""
        return f"; it has {', '.join(f'`{key[:_SHOWN]}`' for key in keys[:_KEYS])}{more}" if keys else ""
    if isinstance(of, (list, tuple)):
        return f", which is a list of {len(of)}"
    return f", which is {sort_of(of)}" if of is None or isinstance(of, (str, int, float)) else ""


def unfit(sign: str, left: Any, right: Any) -> str:
    """Why an operator cannot be applied, and what may help."""
    return f"`{sign}` cannot take {shown(left)} and {shown(right)}{_way_out(sign, left, right)}"


def _way_out(sign: str, left: Any, right: Any) -> str:
    one, other = (left, right) if isinstance(left, str) or left is None else (right, left)
    if one is None:
        return "; `| default(0, true)` puts a value in place of null"
    if isinstance(one, str) and isinstance(other, (int, float)) and not isinstance(other, bool):
        if _is_number(one):
            return "; `| int` or `| float` makes a number of text"
        return "; `~` joins values to text" if sign == "+" else ""
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
