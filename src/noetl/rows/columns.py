"""Rows: a list of maps that all have the same keys. Which types their columns have, so that nothing changes on the way.

Part of the process of a python task too, so it imports next to nothing.
"""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

_SIMPLE = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_NOTHING = type(None)


class Columns:
    """The columns of rows that come bit by bit."""

    def __init__(self) -> None:
        self.alike = True
        self._names: tuple[str, ...] = ()
        self._kinds: dict[str, set[type]] = {}
        #: columns with a number that has no place in 64 bits
        self._wide: set[str] = set()

    def add(self, items: list[Any]) -> bool:
        """Take more elements; whether all up to now are rows of one shape."""
        self.alike = self.alike and bool(items) and self._fits(items)
        if self.alike:
            for name in self._names:
                self._record(name, list(map(itemgetter(name), items)))
        return self.alike

    def _fits(self, items: list[Any]) -> bool:
        if set(map(type, items)) != {dict}:
            return False
        if not self._kinds:
            names = tuple(items[0])
            # DuckDB's names do not tell capitals apart, none is empty, and none has in it what ends texts in C.
            if not names or "" in names or "\0" in "".join(names):
                return False
            if len({name.casefold() for name in names}) < len(names):
                return False
            self._names, self._kinds = names, {name: set() for name in names}
        if set(map(tuple, items)) == {self._names}:
            return True
        return all(row.keys() == self._kinds.keys() for row in items)  # the same keys in another order

    def _record(self, name: str, values: list[Any]) -> None:
        kinds = set(map(type, values))
        self._kinds[name] |= kinds
        if int in kinds and name not in self._wide and self._kinds[name] <= {int, _NOTHING}:
            numbers = [value for value in values if value is not None] if _NOTHING in kinds else values
            if min(numbers) < -(2**63) or max(numbers) >= 2**63:
                self._wide.add(name)

    def types(self) -> dict[str, str] | None:
        """Column → SQL type; None: these are no rows of one shape.

        What has no type that gives back just what was written (numbers of two kinds, maps, lists) is kept as JSON.
        """
        return {name: self._type(name) for name in self._names} if self.alike and self._names else None

    def _type(self, name: str) -> str:
        kinds = self._kinds[name] - {_NOTHING}
        if len(kinds) != 1 or name in self._wide:
            return "JSON"
        return _SIMPLE.get(next(iter(kinds)), "JSON")


def row_shape(value: Any) -> dict[str, str] | None:
    """Column → SQL type, of a list of maps that have one shape; None of anything else."""
    if not isinstance(value, list):
        return None
    columns = Columns()
    columns.add(value)
    return columns.types()
