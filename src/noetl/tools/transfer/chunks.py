"""Chunks: rows in whatever form their source has them, to be had as JSON rows or as something SQL can read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from noetl.rows.duck import json_row, literal, name
from noetl.tools.transfer.column_types import SAMPLE, cast_text, cast_value, check_unaltered

_AT_ONCE = 10_000
#: bytes of one JSON object, at least
_OBJECT = 65_536
#: how much of a CSV file DuckDB reads at once: less than a chunk, so that two threads share one; without it eight times as much
BUFFER = "buffer_size = 4194304"


class Chunk:
    """The rows in hand. `first` is the number of rows before it."""

    #: whether SQL can read it without help from Python, and whether its rows are JSON already
    in_sql = True
    is_json = False
    #: whether `relation` leaves columns in the types of the source, whatever is wanted
    keeps_types = False

    def __init__(self, rows: int, first: int, size: int) -> None:
        self.size = rows
        self.first = first
        #: about how long it is
        self.bytes = size

    def columns(self) -> dict[str, str]:
        """The columns with the types that the source gives them."""
        raise NotImplementedError

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:
        """What stands behind FROM; columns in `types` are to be of that type."""
        raise NotImplementedError

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:
        """For looking at what does not fit: what stands behind FROM, and the column as it was written."""
        raise NotImplementedError

    def bodies(self, connection: Any, chosen: str = "*") -> Sequence[bytes]:
        """Each row as JSON; `chosen` are the columns, as SELECT names them."""
        source = f"(SELECT {chosen} FROM {self.relation(connection, {})})"
        described = connection.execute(f"FROM {source} LIMIT 0").description
        row = json_row([(column[0], column[1]) for column in described])
        connection.execute(f"SELECT {row} FROM {source}")
        found: list[bytes] = []
        while some := connection.fetchmany(_AT_ONCE):
            found += [row[0].encode() for row in some]
        return found

    def surplus(self, connection: Any) -> tuple[int, str] | None:  # noqa: ARG002
        """The first row with a key that is none of the columns, and that key: SQL would leave it out."""
        return None

    def row_with(self, column: str) -> int | None:  # noqa: ARG002
        """The number of the first row that has a column, where not all need have it."""
        return None

    def forget(self) -> None:
        """Remove what was written for SQL to read."""

    def rows(self, connection: Any) -> list[Any]:
        """Each row as a value."""
        rows: list[Any] = msgspec.json.decode(b"[" + b",".join(self.bodies(connection)) + b"]")
        return rows


class LazyFile:
    """Text that is written to a file when somebody comes to read it there: targets do at the same time, or never."""

    def __init__(self, path: Path, blocks: Iterable[bytes]) -> None:
        self._path, self._blocks = path, blocks
        self._write_json_lines = False
        self._writing = threading.Lock()

    def path(self) -> Path:
        """The file, with the text in it."""
        with self._writing:
            if not self._write_json_lines:
                with self._path.open("wb") as file:
                    file.writelines(self._blocks)
                self._write_json_lines = True
        return self._path

    def forget(self) -> None:
        """Remove the file."""
        if self._write_json_lines:
            self._path.unlink(missing_ok=True)
            self._write_json_lines = False


class CsvChunk(Chunk):
    """Lines of a CSV file, without a header."""

    #: what separates and what quotes fields, where that says all of how values are written
    dialect: tuple[str, str] | None = None
    #: whether others than DuckDB see the same fields in it; None: nobody has looked
    regular: bool | None = None

    def __init__(self, body: bytes, path: Path, rows: int, first: int, *, types: dict[str, str], options: str) -> None:
        super().__init__(rows, first, len(body))
        self.body, self._file = body, LazyFile(path, [body])
        self._types, self._options = types, options

    def columns(self) -> dict[str, str]:
        return self._types

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:  # noqa: ARG002
        wanted = {key: types.get(key, kind) for key, kind in self._types.items()}
        made = {key: text for key, kind in wanted.items() if (text := self._convert_column(key, kind))}
        return replace_columns(self._read_expression({**wanted, **{key: self._raw(key) for key in made}}), made)

    def _convert_column(self, column: str, wanted: str) -> str | None:
        """What makes of a column as it is read what is wanted; None: it is that."""
        kind = self._types[column]
        if wanted == "DATE" and kind.startswith("TIMESTAMP"):
            return cast_value(name(column), kind, wanted)
        if wanted == "DATE" and "dateformat" in self._options:
            return None  # what is not written that way is refused
        return cast_text(name(column), wanted)

    def _raw(self, column: str) -> str:
        kind = self._types[column]
        return kind if kind.startswith("TIMESTAMP") else "VARCHAR"

    def _read_expression(self, types: Mapping[str, str]) -> str:
        path = literal(str(self._file.path()))
        return f"read_csv({path}, {self._options}, {BUFFER}, columns = {column_map(types)})"

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:  # noqa: ARG002
        return self._read_expression(dict.fromkeys(self._types, "VARCHAR")), name(column)


class JsonLinesChunk(Chunk):
    """JSON objects, one a line, in a file."""

    is_json = True

    #: whether the types were told from these very rows, so that all of their values fit
    sampled = True

    def __init__(self, path: Path, rows: int, first: int, types: dict[str, str], given: Iterable[str] = ()) -> None:
        super().__init__(rows, first, path.stat().st_size)
        self.path, self._types = path, types
        #: columns whose types the author gives: text is to become what they say
        self._given = set(given)
        self._fitting: set[tuple[str, str]] = set()

    def columns(self) -> dict[str, str]:
        return self._types

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:
        """Failing: a value would be another in the type of its column."""
        wanted = {**self._types, **types}
        if self.size:
            self._check(connection, wanted)
        return self._read_as(wanted)

    def _read_as(self, types: Mapping[str, str]) -> str:
        options = f"format = 'newline_delimited', maximum_object_size = {self._largest}"
        return f"read_json({literal(str(self.path))}, {options}, columns = {column_map(types)})"

    def _check(self, connection: Any, wanted: Mapping[str, str]) -> None:
        """Look at the columns of which nobody knows that they fit: DuckDB changes what does not."""
        told = {key for key, kind in wanted.items() if self._types.get(key) == kind}
        unsure = {key: kind for key, kind in wanted.items() if not (self.sampled and key in told)}
        kinds = {key: kind for key, kind in unsure.items() if (key, kind) not in self._fitting}
        source = self._read_as(dict.fromkeys(kinds, "JSON"))
        check_unaltered(connection, source, kinds, told - self._given, self.first)
        self._fitting |= set(kinds.items())

    @property
    def _largest(self) -> int:
        """What DuckDB makes room for: no object is larger than the file."""
        return max(_OBJECT, self.path.stat().st_size + 1)

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:
        return self.relation(connection, dict.fromkeys(self._types, "JSON")), f"{name(column)} ->> '$'"

    def bodies(self, connection: Any, chosen: str = "*") -> Sequence[bytes]:  # noqa: ARG002
        return [line for line in self.path.read_bytes().splitlines() if line.strip()]

    def surplus(self, connection: Any) -> tuple[int, str] | None:
        if self.first + self.size <= SAMPLE:  # the columns are told from these rows, too
            return None
        query = "SELECT DISTINCT unnest(json_keys(json)) FROM read_ndjson_objects($1, maximum_object_size = $2)"
        found = connection.execute(query, [str(self.path), self._largest]).fetchall()
        more = {row[0] for row in found} - self._types.keys()
        return min((row, key) for key in more if (row := self.row_with(key)) is not None) if more else None

    def row_with(self, column: str) -> int | None:
        return _row_with(column, map(msgspec.json.decode, self.bodies(None)), self.first)


class ValuesChunk(Chunk):
    """Rows as values."""

    in_sql = False
    is_json = True

    def __init__(self, rows: list[Any], first: int, scratch: Path, types: dict[str, str] | None = None) -> None:
        super().__init__(len(rows), first, len(msgspec.json.encode(rows)))
        self._rows, self._scratch, self._types = rows, scratch, types
        #: the columns were told from other rows
        self._is_typed = types is not None
        self._lines: JsonLinesChunk | None = None
        self._writing = threading.Lock()

    def columns(self) -> dict[str, str]:
        if self._types is None:
            from noetl.tools.transfer.column_types import columns_of

            self._types = columns_of(self.rows(None), self.first)
        return self._types

    def surplus(self, connection: Any) -> tuple[int, str] | None:  # noqa: ARG002
        if not self._is_typed:
            return None
        columns = self.columns()
        for number, row in enumerate(self.rows(None), self.first + 1):
            for key in row if isinstance(row, dict) else ():
                if key not in columns:
                    return number, key
        return None

    def row_with(self, column: str) -> int | None:
        return _row_with(column, self.rows(None), self.first)

    def rows(self, connection: Any) -> list[Any]:  # noqa: ARG002
        return self._rows

    def bodies(self, connection: Any, chosen: str = "*") -> Sequence[bytes]:  # noqa: ARG002
        return [msgspec.json.encode(row) for row in self._rows]

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:
        return self._write_json_lines().relation(connection, types)

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:
        return self._write_json_lines().raw_column(connection, column)

    def _write_json_lines(self) -> JsonLinesChunk:
        with self._writing:  # targets come for it at the same time
            if self._lines is None:
                path = self._scratch / f"rows-{id(self)}.ndjson"
                path.write_bytes(b"\n".join(self.bodies(None)))
                self._lines = JsonLinesChunk(path, self.size, self.first, self.columns())
            return self._lines

    def forget(self) -> None:
        if self._lines is not None:
            self._lines.path.unlink(missing_ok=True)


class JsonChunk(ValuesChunk):
    """Rows as JSON, looked into only where somebody asks for values."""

    def __init__(self, bodies: list[bytes], first: int, scratch: Path, types: dict[str, str] | None = None) -> None:
        Chunk.__init__(self, len(bodies), first, sum(map(len, bodies)))
        self._bodies, self._scratch, self._types = bodies, scratch, types
        self._is_typed = types is not None
        self._lines: JsonLinesChunk | None = None
        self._writing = threading.Lock()

    def rows(self, connection: Any) -> list[Any]:
        return Chunk.rows(self, connection)

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:
        self._write_json_lines().sampled = not self._is_typed
        return super().relation(connection, types)

    def bodies(self, connection: Any, chosen: str = "*") -> Sequence[bytes]:  # noqa: ARG002
        return self._bodies


class StagedChunk(Chunk):
    """A range of a table in a database of its own, which any connection may attach to read."""

    keeps_types = True

    def __init__(self, stage: Path, first: int, rows: int, size: int, types: dict[str, str]) -> None:
        super().__init__(rows, first, size)
        self._stage, self._types = stage, types

    def columns(self) -> dict[str, str]:
        return self._types

    def relation(self, connection: Any, types: Mapping[str, str]) -> str:  # noqa: ARG002  they are what they are
        alias = f"noetl_{self._stage.stem}"
        connection.execute(f"ATTACH IF NOT EXISTS {literal(str(self._stage))} AS {name(alias)} (READ_ONLY)")
        bounds = f"rowid >= {self.first} AND rowid < {self.first + self.size}"
        return f"(SELECT * FROM {name(alias)}.main.staged WHERE {bounds})"

    def raw_column(self, connection: Any, column: str) -> tuple[str, str]:
        return self.relation(connection, {}), name(column)


def _row_with(column: str, rows: Iterable[Any], first: int) -> int | None:
    return next((number for number, row in enumerate(rows, first + 1) if isinstance(row, dict) and column in row), None)


def replace_columns(source: str, made: Mapping[str, str]) -> str:
    """The same rows with some columns made anew, as what stands behind FROM."""
    if not made:
        return source
    return f"(SELECT * REPLACE ({', '.join(f'{text} AS {name(key)}' for key, text in made.items())}) FROM {source})"


def column_map(types: Mapping[str, str]) -> str:
    """Columns with their types, as readers want them."""
    return "{" + ", ".join(f"{literal(key)}: {literal(kind)}" for key, kind in types.items()) + "}"
