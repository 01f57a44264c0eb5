"""The body of a response: held, or left in a file if it is large and nobody looks into it."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Iterator
from typing import IO

import aiohttp
import msgspec

from noetl.model.output import Spilled
from noetl.ports import World
from noetl.tools.elements import NotJsonText, examine
from noetl.tools.spilling import escaped

_BLOCK = 1 << 20


class TooLarge(Exception):
    """The body has more bytes than it may have."""


class Broken(msgspec.Struct, frozen=True):
    """A body that says it is JSON and is not."""

    why: str
    begins: str


class Body:
    """The body of one response, decompressed. TooLarge before more than the limit is taken."""

    def __init__(self, response: aiohttp.ClientResponse, world: World, limit: int, spill: int | None) -> None:
        self._response = response
        self._world = world
        self._limit = limit
        self._spill = spill
        self._size = 0
        self._file: IO[bytes] | None = None

    async def received(self) -> bytes | None:
        """All of it; None: it went to a file."""
        parts = []
        async for part in self._response.content.iter_any():
            self._count(part)
            parts.append(part)
            if self._spill is not None and self._size > self._spill:
                await self._to_file(parts)
                return None
        return b"".join(parts)

    def _count(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._response.close()
            raise TooLarge

    async def _to_file(self, parts: list[bytes]) -> None:
        """Write what there is and what comes, as JSON: what is JSON already, or one text."""
        convert = self._conversion()
        file = self._file = self._world.unnamed()
        is_text = not says_json(self._response)
        try:
            file.write(b'"' if is_text else b"")
            file.writelines(map(convert, parts))
            async for part in self._response.content.iter_any():
                self._count(part)
                file.write(convert(part))
            file.write(convert(b""))
            file.write(b'"' if is_text else b"")
        except BaseException:
            file.close()
            raise

    def _conversion(self) -> Callable[[bytes], bytes]:
        """What is written for each part; nothing comes last."""
        encoding = encoding_of(self._response)
        if says_json(self._response) and encoding == "utf-8":
            return bytes
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        if says_json(self._response):
            return lambda part: decoder.decode(part, not part).encode()
        return lambda part: escaped(decoder.decode(part, not part))

    async def spilled(self) -> Spilled | Broken:
        """The file, and what is to be known of it."""
        assert self._file is not None
        with self._file as file:
            if not says_json(self._response):
                return await self._world.spilled(file)
            try:
                rows, columns = await asyncio.to_thread(lambda: examine(_blocks(file)))
            except NotJsonText as error:
                file.seek(0)
                return Broken(str(error), file.read(1_000).decode("utf-8", "replace"))
            return await self._world.spilled(file, rows=rows, columns=columns)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    yield from iter(lambda: file.read(_BLOCK), b"")


def says_json(response: aiohttp.ClientResponse) -> bool:
    """Whether a response calls itself JSON."""
    return response.content_type.endswith(("/json", "+json"))


def encoding_of(response: aiohttp.ClientResponse) -> str:
    """How its text is encoded; UTF-8 if that is not said, or nobody has heard of it."""
    said = response.charset or "utf-8"
    try:
        b"x".decode(said, "replace")  # of nothing at all, any name would do
    except LookupError:
        return "utf-8"
    return codecs.lookup(said).name
