"""Payloads of a server's result store: fetched into a file, as large as they may be, and read from there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from noetl.errors import NoetlError, RequestRefused, UsageError
from noetl.model.output import JSON
from noetl.results import StoredPayload, codec

if TYPE_CHECKING:
    from noetl.client import Client


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
                with opened as (content_type, blocks), file.open("wb") as target:
                    target.writelines(blocks)
            except RequestRefused as error:
                raise _as_local(error) from None
            self._found = StoredPayload(file, content_type.partition(";")[0], "")
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
