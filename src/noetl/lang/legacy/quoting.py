"""What an older document said and a migration cannot say for it, quoted where a person is asked to."""

from __future__ import annotations

import json
from collections.abc import Iterable

from noetl.lang.node import Entry, plain


def quoted(entries: Iterable[Entry]) -> str:
    """Keys with their values, in one line."""
    return ", ".join(
        f"`{one.name}: {json.dumps(plain(one.value), ensure_ascii=False, default=str)}`" for one in entries
    )
