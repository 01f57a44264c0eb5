"""Mappings: which column of a target gets what. A plain `{{ row.x }}` is a rename, which SQL does for all rows at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from noetl.drivers.datahost import DataHostFailed
from noetl.errors import TemplateError
from noetl.expr import Template, value
from noetl.tools.transfer.chunks import Chunk, ValuesChunk

_SUBSCRIPT = re.compile(r"""\s*row\s*\[\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*\]\s*""")


class Column(NamedTuple):
    """Where a column of the target comes from: a column of the rows, or a value."""

    name: str
    source: str | None
    value: Any = None


class MappedChunk(NamedTuple):
    """A chunk as a target is to see it."""

    chunk: Chunk
    columns: list[Column]


class Projection:
    """The mapping of one target."""

    def __init__(self, mapping: Any, scopes: Mapping[str, Any], scratch: Path) -> None:
        self._scopes, self._scratch = scopes, scratch
        self._mapping = mapping
        self._whole = value(mapping)
        self._renames: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self.per_row = isinstance(mapping, Template)
        for key, part in mapping.items() if isinstance(mapping, Mapping) else ():
            source = _source_column(part)
            if source is not None:
                self._renames[key] = source
            elif any(reads_row(found) for found in value(part).templates):
                self.per_row = True
            else:
                self._values[key] = part

    @property
    def is_plain(self) -> bool:
        """Whether rows stay as they are."""
        return self._mapping is None

    @property
    def only_renames(self) -> bool:
        """Whether all columns are columns of the rows."""
        return not self.per_row and not self._values

    def of(self, chunk: Chunk, about: Mapping[str, Any], connection: Any) -> MappedChunk:
        """The chunk, with its columns as the target names them. `about` is what templates know as `chunk`."""
        if self._mapping is None:
            if (found := chunk.surplus(connection)) is not None:
                raise _surplus_failure(*found, chunk.columns())
            return MappedChunk(chunk, [Column(key, key) for key in chunk.columns()])
        if self.per_row:
            made = ValuesChunk(self.rows(chunk, about, connection), chunk.first, self._scratch)
            return MappedChunk(made, [Column(key, key) for key in made.columns()])
        known = chunk.columns()
        for key, source in self._renames.items():
            if source not in known:
                raise DataHostFailed(
                    "template", f"`{{{{ row.{source} }}}}` of column `{key}` is undefined: {_describe_columns(known)}"
                )
        scopes = {**self._scopes, "chunk": about}
        columns = [
            Column(key, self._renames[key])
            if key in self._renames
            else Column(key, None, value(self._values[key]).evaluate(scopes))
            for key in self._mapping
        ]
        return MappedChunk(chunk, columns)

    def rows(self, chunk: Chunk, about: Mapping[str, Any], connection: Any) -> list[Any]:
        """The rows as values."""
        rows = chunk.rows(connection)
        if self._mapping is None:
            return rows
        if not self.per_row and all(isinstance(row, dict) for row in rows):
            columns = self.of(chunk, about, connection).columns if rows else []
            return [{one.name: row.get(one.source) if one.source else one.value for one in columns} for row in rows]
        scopes = {**self._scopes, "chunk": about}
        made = []
        for number, row in enumerate(rows, chunk.first + 1):
            scopes["row"] = row
            try:
                found = self._whole.evaluate(scopes)
            except TemplateError as error:
                raise DataHostFailed(
                    error.kind, f"the `mapping`, row {number:,}: {error.message}", row=number
                ) from None
            if not isinstance(found, dict):
                raise DataHostFailed(
                    "type", f"the `mapping` must yield a map, not {type(found).__name__} (row {number:,})"
                )
            made.append(found)
        return made


def render_tree(tree: Any, scopes: Mapping[str, Any]) -> Any:
    """A part of a target's configuration, with all of its templates filled in."""
    return value(tree).evaluate(scopes)


def reads_row(found: Template) -> bool:
    """Whether a template has another value for each row."""
    return any(read.path[0] == "row" for read in found.facts.reads)


def reads_chunk(tree: Any) -> bool:
    """Whether templates want to know anything of the chunk."""
    return any(read.path[0] == "chunk" for found in value(tree).templates for read in found.facts.reads)


def reads_data(tree: Any) -> bool:
    """Whether templates want the rows of the chunk as a list."""
    return any(
        read.path[0] == "chunk" and (len(read.path) < 2 or read.path[1] == "data")
        for found in value(tree).templates
        for read in found.facts.reads
    )


def _source_column(part: Any) -> str | None:
    """The column that a template names, if it does nothing else."""
    if not isinstance(part, Template) or part.expression is None:
        return None
    path = part.expression.path
    if path is not None:
        return path[1] if len(path) == 2 and path[0] == "row" else None
    match = _SUBSCRIPT.fullmatch(part.expression.source)
    return (match[1] if match[1] is not None else match[2]) if match else None


def _surplus_failure(row: int, key: str, columns: Mapping[str, str]) -> DataHostFailed:
    message = (
        f"row {row:,} has a key `{key}` that no row had from which the columns were told: {_describe_columns(columns)}; name all columns "
        "in `mapping` (`{{ row.x | default(none) }}`), or bring a row that has all of them first"
    )
    return DataHostFailed("type", message, column=key, row=row)


def _describe_columns(columns: Mapping[str, str]) -> str:
    return f"the rows have {', '.join(f'`{key}`' for key in columns) or 'no columns'}"
