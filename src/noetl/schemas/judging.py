"""One value held against one schema: what was found so far, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: of all that a value violates, as much is gathered
_MOST_VIOLATIONS: Final = 1_000
#: characters of a value that a message quotes, and values inside of it
_MOST_QUOTED: Final = 200
_MOST_PARTS: Final = 60

#: the way to a part of the value, from its end: the last key and the way before; None: the value itself
Trail = tuple[Any, Any] | None


class SchemaLimit(Exception):
    """The schema asks for more work than one check may take."""


class UnknownReference(Exception):
    """The schema refers to something that is not in it; carries the reference."""


class Violated(Exception):
    """Something is violated, where that is all that matters."""


class Violation(NamedTuple):
    """One thing that a schema forbids."""

    path: tuple[str | int, ...]
    #: the keyword that forbids it, and what the schema says there
    keyword: str
    limit: Any
    #: the part of the value that is meant
    value: Any
    message: str


class Seen:
    """Which members of a map or a list some keyword has looked at, for `unevaluatedProperties` and its like."""

    __slots__ = ("indexes", "names", "until")

    def __init__(self) -> None:
        self.names: set[str] = set()
        #: all items before this one, and those at some indexes
        self.until = 0
        self.indexes: set[int] = set()

    def add(self, other: Seen) -> None:
        """See what another has seen."""
        self.names |= other.names
        self.until = max(self.until, other.until)
        self.indexes |= other.indexes


class Judgement:
    """Of one value. Everything is paid for before it is done."""

    __slots__ = ("_quiet", "_violations", "left", "resources", "seen")

    def __init__(self, steps: int) -> None:
        #: tenths of a microsecond
        self.left = steps
        self._violations: list[Violation] = []
        self._quiet = False
        #: what was seen of the value at hand; None: nobody asks
        self.seen: Seen | None = None
        #: the schema resources that were entered on the way, for `$dynamicRef`
        self.resources: list[str] = []

    @property
    def violations(self) -> list[Violation]:
        """What was found, in the order of the places."""
        return sorted(self._violations, key=lambda one: _spelled(one.path))

    def pay(self, steps: int) -> None:
        """Pay for work."""
        self.left -= steps
        if self.left < 0:
            raise SchemaLimit

    def report(self, trail: Trail, keyword: str, limit: Any, value: Any, message: Callable[[], str]) -> None:
        """Say that something is violated."""
        if self._quiet:
            raise Violated
        self.pay(100)
        if len(self._violations) < _MOST_VIOLATIONS:
            self._violations.append(Violation(_path(trail), keyword, limit, value, message()))

    def holds(self, check: Callable[[Judgement, Any, Trail], Seen | None], value: Any) -> bool:
        """Whether a value fits another schema as well; what that one saw is seen."""
        self.pay(8)
        outer, quiet, depth = self.seen, self._quiet, len(self.resources)
        self._quiet = True
        try:
            found = check(self, value, None)
        except Violated:
            self.seen = outer
            del self.resources[depth:]
            return False
        finally:
            self._quiet = quiet
        if found is not None and outer is not None:
            self.merge(found)
        return True

    def merge(self, found: Seen | None) -> None:
        """See what another schema saw of the same value."""
        if found is not None and self.seen is not None:
            self.pay(len(found.names) + len(found.indexes))
            self.seen.add(found)


def _path(trail: Trail) -> tuple[str | int, ...]:
    keys: list[str | int] = []
    while trail is not None:
        keys.append(trail[0])
        trail = trail[1]
    return tuple(reversed(keys))


def _spelled(path: tuple[str | int, ...]) -> str:
    return str(list(path))


def say(text: str) -> Callable[[], str]:
    """A message that costs nothing to make."""
    return lambda: text


def quote(value: Any) -> str:
    """A value as messages show it: as it is written, unless it is long."""
    if isinstance(value, str):
        # A cut is marked as redaction expects it of a text whose middle is gone.
        half = _MOST_QUOTED // 2
        return repr(value if len(value) <= _MOST_QUOTED else f"{value[:half]} … {value[-half:]}")
    if isinstance(value, (list, dict)) and _is_long(value):
        return f"{'a list' if isinstance(value, list) else 'a map'} of {len(value):,}"
    if isinstance(value, int) and value.bit_length() > 8 * _MOST_QUOTED:
        return "a number of very many digits"
    text = repr(value)
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"


def _is_long(value: Any) -> bool:
    """Whether a list or map has more parts or longer texts than a message shows."""
    parts, length, pending = 0, 0, [value]
    while pending:
        one = pending.pop()
        parts += 1
        if isinstance(one, str):
            length += len(one)
        elif isinstance(one, (list, dict)):
            if len(one) > _MOST_PARTS:
                return True
            pending.extend(one if isinstance(one, list) else [*one.keys(), *one.values()])
        if parts > _MOST_PARTS or length > _MOST_QUOTED:
            return True
    return False
