"""Sieve: sees that nothing of what is looked for is in some bytes, at the speed of memory. Pure.

It only answers "surely not" or "maybe". That is worth having where nearly everything is searched in vain: a regular
expression looks at each byte, while to drop or to rename bytes is one pass without a thought.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: what most texts consist of: what is left of them without it is short
_USUAL: Final = b' ,:{}[]\\/"-_.=0123456789abcdefghijklmnopqrstuvwxyz'
#: fewer unusual bytes would be found in many texts
_TELLING: Final = 3
#: digits of all sorts made one: secrets as hexadecimal numbers then look the same, and rarely like anything else
_DIGITS: Final = b"0123456789abcdefABCDEF"
_NUMBERED: Final = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))


class Sieve:
    """Knows needles: bytes of which none may be empty."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        left = {needle: needle.translate(None, _USUAL) for needle in needles}
        telling = sorted({rest for rest in left.values() if len(rest) >= _TELLING})
        self._unusual = re.compile(b"|".join(map(re.escape, telling))) if telling else None
        self._usual = [needle for needle, rest in left.items() if len(rest) < _TELLING]
        self._numbered = {needle.translate(_NUMBERED) for needle in self._usual}

    def may_hold(self, data: bytes) -> bool:
        """Whether a needle may be in it; False is sure."""
        if self._unusual is not None and self._unusual.search(data.translate(None, _USUAL)) is not None:
            return True
        if not self._usual:
            return False
        numbered = data.translate(_NUMBERED)
        if not any(needle in numbered for needle in self._numbered):
            return False
        return any(needle in data for needle in self._usual)
