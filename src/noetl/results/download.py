"""Payloads on their way out: the file as it lies there, or elements as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from noetl.errors import UsageError
from noetl.model.output import JSON, NDJSON, PARQUET
from noetl.ports import ResultDamaged, ResultGone
from noetl.results import codec
from noetl.results.external_rows import is_external
from noetl.results.store import PayloadStore

#: elements that are encoded together
_RUN = 1_000


class PayloadStream(msgspec.Struct):
    """What is sent, and of which kind it is."""

    content_type: str
    blocks: Iterator[bytes]


class PayloadSender:
    """A result store, as far as others are shown of it."""

    def __init__(self, store: PayloadStore) -> None:
        self._store = store

    def open(self, reference: Mapping[str, Any], start: int, stop: int | None) -> PayloadStream:
        """A payload, or some elements of a list."""
        found = None if is_external(reference) else self._store.find(reference)
        whole = start == 0 and stop is None
        if found is not None and not whole and not self._store.is_list(found):
            raise UsageError("a range is of a list, and this is none")
        if found is not None and whole and found.content_type in (JSON, NDJSON, PARQUET):
            return PayloadStream(found.content_type, codec.blocks(found.path))
        return PayloadStream(NDJSON, self._lines(reference, start, stop))

    def _lines(self, reference: Mapping[str, Any], start: int, stop: int | None) -> Iterator[bytes]:
        count = None if stop is None else max(0, stop - start)
        elements = islice((one for run in self._store.elements(reference, start) for one in run), count)
        while some := list(islice(elements, _RUN)):
            yield msgspec.json.Encoder().encode_lines(some)

    def owner(self, reference: Mapping[str, Any]) -> str | None:
        """The execution that has stored a payload; None: it is outside of the result store."""
        return None if is_external(reference) else self._store.find_owner(reference)

    def small(self, reference: Mapping[str, Any], most: int) -> tuple[Any] | None:
        """A payload of no more than so many bytes; None: it is larger, or gone."""
        try:
            return self._store.small(reference, most)
        except (ResultGone, ResultDamaged):
            return None
