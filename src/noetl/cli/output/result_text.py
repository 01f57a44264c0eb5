"""A payload in the form that is asked for, written as it is read."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Protocol

import click
import msgspec

from noetl.cli.output.printing import as_json, note, out
from noetl.errors import NoetlError, RequestRefused, UsageError
from noetl.model.output import JSON
from noetl.results import StoredPayload, codec

if TYPE_CHECKING:
    from noetl.client import Client
    from noetl.model.output import Output
    from noetl.results import StoredPayload


# Payloads of a server's result store: fetched into a file, as large as they may be, and read from there.


class RemoteResults:
    """What of a result store `noetl result` needs; of a list no more is fetched than is asked for."""

    def __init__(self, client: Client, some: tuple[int, int | None]) -> None:
        self._client = client
        self._start, self._stop = some
        self._folder = TemporaryDirectory(prefix="noetl-")
        self._found: StoredPayload | None = None
        click.get_current_context().call_on_close(self._folder.cleanup)
        click.get_current_context().call_on_close(client.close)

    def find(self, reference: Mapping[str, Any]) -> StoredPayload:
        """Fetch a payload, once."""
        if self._found is None:
            file = Path(self._folder.name) / "payload"
            opened = self._client.open_result(reference, start=self._start, stop=self._stop)
            try:
                with opened as stream, file.open("wb") as target:
                    target.writelines(stream)
            except RequestRefused as error:
                raise _as_local(error) from None
            self._found = StoredPayload(file, stream.content_type, "")
        return self._found

    def is_list(self, found: StoredPayload) -> bool:
        """Whether a payload is a list."""
        if found.content_type != JSON:
            return True
        with closing(codec.blocks(found.path)) as blocks:
            return next(blocks, b"").lstrip().startswith(b"[")

    def elements(self, reference: Mapping[str, Any], start: int = 0) -> Generator[list[Any], None, None]:
        """The elements of a list from one on, which is the first that was fetched or a later one."""
        found = self.find(reference)
        yield from codec.read_batches(found.path, found.content_type, start - self._start)


def _as_local(error: RequestRefused) -> NoetlError:
    """Return an error as a store on this machine would raise it, where it has such an error."""
    if error.status == 400:
        return UsageError(error.detail)
    return NoetlError(error.detail) if error.status == 410 else error


#: what a terminal shows of a list, and of anything else
_MOST_ROWS = 100
_MOST_TEXT = 100_000


class PayloadSource(Protocol):
    """Where payloads lie: on this machine, or on a server."""

    def find(self, reference: Mapping[str, Any]) -> StoredPayload:
        """A payload as a file."""

    def is_list(self, found: StoredPayload) -> bool:
        """Whether it has elements."""

    def elements(self, reference: Mapping[str, Any], start: int = 0) -> Generator[list[Any], None, None]:
        """Its elements from one on, some at a time."""


class Payload:
    """What an output holds: in the log, in the result store, or in files that a transfer wrote."""

    def __init__(
        self, value: Any, store: PayloadSource | None, reference: dict[str, Any], some: tuple[int, int | None]
    ):
        self.value = value
        self.store = store
        self.reference = reference
        self.start, self.stop = some
        from noetl.results import is_external

        #: where in the store it lies
        self.found: StoredPayload | None = None
        if store is not None and not is_external(reference):
            self.found = store.find(reference)
        elif store is not None:
            next(store.elements(reference), None)  # whether it can be read at all

    @classmethod
    def of(cls, output: Output, some: tuple[int, int | None]) -> Payload:
        """The payload of an output, or some elements of it."""
        from noetl.app import open_results
        from noetl.cli.target import client
        from noetl.config import settings

        if not output.get("external"):
            return cls(output["data"], None, {}, some)
        if (there := client()) is not None:
            return cls(None, RemoteResults(there, some), output["ref"], some)
        return cls(None, open_results(settings()), output["ref"], some)

    @property
    def is_list(self) -> bool:
        """Whether it has elements."""
        if self.store is None:
            return isinstance(self.value, list)
        return self.found is None or self.store.is_list(self.found)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is asked for."""
        return self.start == 0 and self.stop is None

    def elements(self) -> Generator[Any, None, None]:
        """The elements that are asked for."""
        if not self.is_list:
            what = "--range" if not self.is_whole else "this format"
            raise UsageError(f"{what} is for lists, and this is none; `--format json` prints anything")
        if self.store is None:
            yield from self.value[self.start : self.stop]
            return
        count = None if self.stop is None else max(0, self.stop - self.start)
        with closing(self.store.elements(self.reference, self.start)) as runs:
            yield from islice((one for run in runs for one in run), count)

    def whole(self) -> Any:
        """All of it, in memory."""
        if self.is_list:
            return list(self.elements())
        if not self.is_whole:
            next(self.elements())
        if self.store is None or self.found is None:
            return self.value
        from noetl.results import codec

        return codec.read(self.found.path, self.found.content_type)


def write(payload: Payload, form: str, target: IO[bytes]) -> int:
    """Write a payload; how many bytes that were."""
    size = 0
    for block in _FORMS[form](payload):
        target.write(block)
        size += len(block)
    target.flush()
    return size


def _as_json(payload: Payload) -> Iterator[bytes]:
    from noetl.results import codec

    if payload.is_list:
        opening = b"["
        for one in payload.elements():
            yield opening + msgspec.json.encode(one)
            opening = b","
        yield b"]\n" if opening == b"," else b"[]\n"
    elif payload.found is not None and payload.is_whole:
        yield from codec.blocks(payload.found.path)
        yield b"\n"
    else:
        yield msgspec.json.encode(payload.whole()) + b"\n"


def _as_lines(payload: Payload) -> Iterator[bytes]:
    for one in payload.elements():
        yield msgspec.json.encode(one) + b"\n"


def _as_csv(payload: Payload) -> Iterator[bytes]:
    names: list[str] | None = None
    for number, row in enumerate(payload.elements(), payload.start):
        if not isinstance(row, dict):
            raise UsageError(f"csv has columns, but element {number:,} is no map; `--format ndjson` prints any list")
        if names is None:
            names = list(row)
            yield _csv_line(names)
        if row.keys() - set(names):
            more = ", ".join(sorted(row.keys() - set(names)))
            raise UsageError(f"row {number:,} has a column that the first has not ({more}); use `--format ndjson`")
        yield _csv_line([_cell(row.get(name)) for name in names])


def _csv_line(cells: list[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list | bool):
        return msgspec.json.encode(value).decode()
    return value


def _as_parquet(payload: Payload) -> Iterator[bytes]:
    """The file itself if it lies there so, else a new one."""
    from noetl.model.output import PARQUET
    from noetl.results import codec

    if payload.found is not None and payload.found.content_type == PARQUET and payload.is_whole:
        yield from codec.blocks(payload.found.path)
        return
    if not codec.has_parquet():
        raise UsageError("Parquet needs DuckDB, which comes with the extra `duckdb`; `--format ndjson` needs nothing")
    with TemporaryDirectory() as folder:
        yield from codec.blocks(_convert_to_parquet(payload, Path(folder)))


def _convert_to_parquet(payload: Payload, folder: Path) -> Path:
    from noetl.model.output import NDJSON
    from noetl.results import convert_to_parquet
    from noetl.rows.columns import Columns

    columns, count = Columns(), 0
    lines, made = folder / "lines", folder / "rows.parquet"
    with lines.open("wb") as file, closing(payload.elements()) as elements:
        while some := list(islice(elements, 5_000)):
            columns.add(some)
            count += len(some)
            file.write(msgspec.json.Encoder().encode_lines(some))
    types = columns.types()
    if types is None or not convert_to_parquet(lines, NDJSON, types, count, made):
        raise UsageError("these are no rows with one set of columns; `--format ndjson` takes any list")
    return made


def _as_stored(payload: Payload) -> Iterator[bytes]:
    """A text as it is, Parquet as its file, anything else as JSON."""
    from noetl.model.output import PARQUET

    if payload.found is not None and payload.found.content_type == PARQUET:
        yield from _as_parquet(payload)
        return
    if payload.is_list or not payload.is_whole:
        yield from _as_json(payload)
        return
    value = payload.whole()
    yield value.encode() if isinstance(value, str) else msgspec.json.encode(value) + b"\n"


_FORMS: dict[str, Callable[[Payload], Iterator[bytes]]] = {
    "json": _as_json,
    "ndjson": _as_lines,
    "csv": _as_csv,
    "parquet": _as_parquet,
    "raw": _as_stored,
}


def show_payload(payload: Payload) -> None:
    """Show a payload to a person: lists an element a line, everything else laid out; neither without end."""
    from noetl.lang import escape_controls

    if payload.is_list:
        with closing(payload.elements()) as rows:
            for one in islice(rows, _MOST_ROWS):
                out(f"{escape_controls(msgspec.json.encode(one).decode())}\n")
            more = next(rows, None) is not None
        if more:
            note(f"… and more behind the first {_MOST_ROWS}: --range A:B shows others, --output FILE takes all of them")
        return
    value = payload.whole()
    text = value if isinstance(value, str) else as_json(value)
    sys.stdout.write("".join(f"{escape_controls(line)}\n" for line in text[:_MOST_TEXT].splitlines()))
    if len(text) > _MOST_TEXT:
        note(f"… {len(text) - _MOST_TEXT:,} characters more: --output FILE takes all of it")
