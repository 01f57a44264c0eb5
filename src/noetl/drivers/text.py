"""Text: values as templates write them, such as into headers and variables; and what tools write, by whole lines."""

from __future__ import annotations

from typing import Any

#: characters of a line that are held until its end comes; a longer one is handed on in pieces
LONGEST_LINE = 65_536
_SHOWN = 40


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


def summarize_value(value: Any) -> str:
    """A value as messages show it: a short one itself, of a long one what it is."""
    text = as_text(value)
    sort = {str: "the text", dict: "a map", list: "a list", type(None): "null"}.get(type(value), "the value")
    if isinstance(value, (dict, list)) or value is None:
        return sort
    return f"{sort} {text!r}" if len(text) <= _SHOWN else f"a text of {len(text):,} characters"


class WholeLines:
    """Pieces of a stream in, whole lines out; what is left at the end counts as a line."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The lines that are whole by now, as one text."""
        whole, newline, rest = piece.rpartition("\n")
        if not newline:
            self._held += piece
            return self._flush_long_line()
        whole, self._held = f"{self._held}{whole}\n", rest
        return whole + self._flush_long_line()

    def finish(self) -> str:
        """No more comes: the rest."""
        rest, self._held = self._held, ""
        return rest

    def _flush_long_line(self) -> str:
        return self.finish() if len(self._held) > LONGEST_LINE else ""
