"""How many generated examples a test looks at: enough of them when all tests are run, the whole lot when THOROUGH is set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def up_to(whole: int, enough: int) -> int:
    """Return a number of examples."""
    return whole if os.environ.get("THOROUGH") else enough


def share(whole: Sequence[T], part: int = 0, parts: int = 3) -> list[T]:
    """Return one part of some examples, such as every third from the second on; all of them when THOROUGH is set."""
    return list(whole) if os.environ.get("THOROUGH") else list(whole[part % parts :: parts])
