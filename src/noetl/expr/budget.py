"""How far one evaluation may go."""

from __future__ import annotations

from typing import Final

import msgspec


class Budget(msgspec.Struct, frozen=True):
    """The limits of one evaluation. Beyond them it ends with `TemplateLimit`."""

    #: units of work, a visited value being one; the default is spent in about half a second
    steps: int = 4_000_000
    #: characters and bytes of text, lists and maps made on the way, all together
    size: int = 8_000_000


DEFAULT_BUDGET: Final = Budget()
