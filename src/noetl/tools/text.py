"""Values as templates write them into text: for what a tool hands on as text, such as headers and variables."""

from __future__ import annotations

from typing import Any


def as_text(value: Any) -> str:
    """JSON for maps and lists, `true`/`false`, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        import json  # slow to import, and validation loads this module

        return json.dumps(value, ensure_ascii=False)
    return str(value)
