"""The body of a response: held, or left in a file if it is large and nobody looks into it."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO

import aiohttp
import msgspec

from noetl.drivers.spilled_data import escape_json, guard_disk_full
from noetl.model.output import Spilled
from noetl.ports import World
from noetl.rows.json_stream import NotJsonText, examine

_BLOCK = 1 << 20
#: the codecs of charsets that text comes in. Others of Python's decode to lone surrogates (UTF-7, unicode_escape), which no
#: JSON can hold, or take a time that grows with the square of the length (punycode).
_CHARSET = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp(437|8\d\d|9[345]\d|125\d)|koi8-[rtu]|mac-\w+|tis-620"
    r"|shift_jis\w*|euc_\w+|iso2022_\w+|gb2312|gbk|gb18030|hz|big5\w*|johab|kz1048|ptcp154"
)


class TooLarge(Exception):
    """The body has more bytes than it may have."""


class InvalidJson(msgspec.Struct, frozen=True):
    """A body that says it is JSON and is not."""

    why: str
    begins: str


class ResponseBody:
    """The body of one response, decompressed. TooLarge before more than the limit is taken."""

    def __init__(self, response: aiohttp.ClientResponse, world: World, limit: int, spill: int | None) -> None:
        self._response = response
        self._world = world
        self._limit = limit
        self._spill = spill
        self._size = 0
        self._file: IO[bytes] | None = None

    async def receive(self) -> bytes | None:
        """All of it; None: it went to a file."""
        parts = []
        async for part in self._response.content.iter_any():
            self._count(part)
            parts.append(part)
            if self._spill is not None and self._size > self._spill:
                await self._write_file(parts)
                return None
        return b"".join(parts)

    def _count(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._response.close()
            raise TooLarge

    async def _write_file(self, parts: list[bytes]) -> None:
        """Write what there is and what comes, as JSON: what is JSON already, or one text."""
        convert = self._conversion()
        file = self._file = self._world.open_unnamed()
        is_text = not is_json_response(self._response)
        try:
            with guard_disk_full(self._world):
                file.write(b'"' if is_text else b"")
                file.writelines(map(convert, parts))
                async for part in self._response.content.iter_any():
                    self._count(part)
                    file.write(convert(part))
                file.write(convert(b""))
                file.write(b'"' if is_text else b"")
                file.flush()
        except BaseException:
            file.close()
            raise

    def _conversion(self) -> Callable[[bytes], bytes]:
        """What is written for each part; nothing comes last."""
        encoding = read_encoding(self._response)
        if is_json_response(self._response) and encoding == "utf-8":
            return bytes
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        if is_json_response(self._response):
            return lambda part: decoder.decode(part, not part).encode()
        return lambda part: escape_json(decoder.decode(part, not part))

    async def finish_spill(self) -> Spilled | InvalidJson:
        """The file, and what is to be known of it."""
        assert self._file is not None
        with self._file as file:
            if not is_json_response(self._response):
                return await self._world.adopt_spill(file)
            try:
                rows, columns = await asyncio.to_thread(lambda: examine(_blocks(file)))
            except NotJsonText as error:
                file.seek(0)
                return InvalidJson(str(error), file.read(1_000).decode("utf-8", "replace"))
            return await self._world.adopt_spill(file, rows=rows, columns=columns)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    yield from iter(lambda: file.read(_BLOCK), b"")


def is_json_response(response: aiohttp.ClientResponse) -> bool:
    """Whether a response calls itself JSON."""
    return response.content_type.endswith(("/json", "+json"))


def read_encoding(response: aiohttp.ClientResponse) -> str:
    """Return the codec of its text: UTF-8 if none is named, or the named one is no charset of text."""
    try:
        named = codecs.lookup(response.charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return named if _CHARSET.fullmatch(named) else "utf-8"


def replace_undecoded(text: str) -> str:
    """Return a header's text with a replacement character for each byte that is no UTF-8; aiohttp keeps those as surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
