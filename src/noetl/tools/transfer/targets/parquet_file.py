"""Parquet files: chunks are files of their own, put together at the end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from noetl.model.output import PARQUET
from noetl.rows.duck import literal
from noetl.rows.exact_sql import parquet_row
from noetl.rows.parquet_join import IncompatibleFiles, join
from noetl.tools.transfer.diagnosis import explain_error, find_misfit
from noetl.tools.transfer.mapping import Column, MappedChunk, Projection
from noetl.tools.transfer.targets.chunk_file import Announce, Format, select_column, sync_file
from noetl.tools.transfer.targets.target import TargetChunk

#: DuckDB collects values for a dictionary until there are so many, a fifth of all if nobody says, and then writes them without:
#: for columns whose values are all different that took a quarter of the time
_OPTIONS = "(FORMAT parquet, DICTIONARY_SIZE_LIMIT 4000)"


class ParquetFormat(Format):
    """Parquet: chunks are files of their own, put together at the end."""

    content_type = PARQUET

    def __init__(self, path: Path, token: str, *, append: bool) -> None:
        super().__init__(path, token, append=append)
        #: the types that columns have since the first chunk that has them
        self._types: dict[str, str] | None = None
        #: of the last chunk: what it was made of, and what was selected
        self._before: tuple[tuple[list[Column], dict[str, str]], tuple[str, str]] | None = None

    def begin(self) -> int:
        self.abandon()  # parts of an attempt that nobody knows of any more
        self.work.mkdir(parents=True, exist_ok=True)
        return 0

    def _part(self, index: int) -> Path:
        return self.work / f"{index:09}.parquet"

    def add(self, given: TargetChunk, projection: Projection, announce: Announce | None = None) -> int:  # noqa: ARG002
        mapped = projection.of(given.chunk, given.about, given.connection)
        part = self._part(given.index)
        connection = given.connection
        types = mapped.chunk.columns()
        source = mapped.chunk.relation(connection, {})
        try:
            row, wanted = self._build_select(mapped, source, connection)
            connection.execute(
                f"COPY (SELECT {row} FROM (SELECT {wanted} FROM {source})) TO {literal(str(part))} {_OPTIONS}"
            )
        except Exception as error:
            sources = {one.source: types[one.source] for one in mapped.columns if one.source}
            raise explain_error(error, mapped.chunk, connection, sources) from error
        return part.stat().st_size

    def _build_select(self, mapped: MappedChunk, source: str, connection: Any) -> tuple[str, str]:
        """What is selected of a chunk, and of what: as of the one before, if it is made of the same columns."""
        made_of = (mapped.columns, dict(mapped.chunk.columns()))
        if self._before is not None and self._before[0] == made_of:
            return self._before[1]
        wanted = ", ".join(select_column(one) for one in mapped.columns)
        described = connection.execute(f"SELECT {wanted} FROM {source} LIMIT 0").description
        cast = self._settle({column[0]: str(column[1]) for column in described}, mapped, connection)
        wanted = ", ".join(select_column(one, cast.get(one.name)) for one in mapped.columns)
        described = connection.execute(f"SELECT {wanted} FROM {source} LIMIT 0").description
        found = parquet_row([(column[0], column[1]) for column in described]), wanted
        # What is cast is looked at each time, for whether it fits.
        self._before = None if cast else (made_of, found)
        return found

    def _settle(self, found: dict[str, str], mapped: MappedChunk, connection: Any) -> dict[str, str]:
        """The columns that are to be cast to the type they had in earlier chunks. Failing: a value does not fit that."""
        if self._types is None:
            self._types = self._read_existing_types(connection)
        cast = {key: self._types[key] for key, kind in found.items() if self._types.setdefault(key, kind) != kind}
        for one in mapped.columns:
            if one.name in cast and one.source:
                odd = find_misfit(mapped.chunk, connection, one.source, cast[one.name])
                if odd is not None:
                    raise odd
        return cast

    def _read_existing_types(self, connection: Any) -> dict[str, str]:
        """The types of what an earlier attempt wrote, and of what it is appended to."""
        files = [*([self.path] if self.append and self.path.exists() else []), *sorted(self.work.glob("*.parquet"))]
        if not files:
            return {}
        source = f"read_parquet({literal([str(one) for one in files])}, union_by_name = true)"
        return {one[0]: str(one[1]) for one in connection.execute(f"FROM {source} LIMIT 0").description}

    def has(self, size: int) -> bool:  # noqa: ARG002
        return self.work.is_dir()

    def truncate(self, size: int, chunks: int) -> None:  # noqa: ARG002
        for part in self.work.glob("*.parquet"):
            if int(part.stem) >= chunks:
                part.unlink()

    def abandon(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def publish(self) -> None:
        whole = self.work / "whole"
        parts = sorted(self.work.glob("*.parquet")) if self.work.exists() else []
        if parts and not whole.exists():
            self._make(whole, parts)
        # As long as there are parts, somebody who goes on after a crash would put them together again.
        for part in parts:
            part.unlink(missing_ok=True)
        if whole.exists():
            whole.replace(self.path)
        self.abandon()

    def _make(self, whole: Path, parts: list[Path]) -> None:
        """The file as it will be seen, on the disk when it has its name."""
        made = self.work / "unfinished"
        first = [self.path] if self.append and self.path.exists() else []
        if len(parts) == 1 and not first:
            made = parts[0]
        else:
            _join_parts([*first, *parts], made)
        sync_file(made)
        made.replace(whole)


def _join_parts(parts: list[Path], whole: Path) -> None:
    """One file of the rows of all; those that lack a column that others have are read and written again."""
    try:
        join(parts, whole)
    except IncompatibleFiles:
        from noetl.rows.duck import duckdb

        with duckdb().connect(":memory:", config={"memory_limit": "200MB"}) as connection:
            source = f"read_parquet({literal([str(one) for one in parts])}, union_by_name = true)"
            connection.execute(f"COPY (FROM {source}) TO {literal(str(whole))} (FORMAT parquet)")
