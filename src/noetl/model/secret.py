"""Secret: a text that shows itself to nobody by accident."""

from __future__ import annotations

from typing import Final

#: what stands where a secret stood
MASK: Final = "[redacted]"


class Secret:
    """A text that must be asked for by name: neither `print` nor a traceback nor an encoder shows it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret cannot be written")
