"""Zstandard frames: compressing in pieces, and the bytes of a frame a block at a time.

The codec is Python's own, which is new in 3.14; earlier versions have it from a backport with the same names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import IO

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = ["ZstdCompressor", "ZstdError", "decompress_blocks", "open_compressor"]

#: bytes that are read, and that are yielded, at a time
_READ, _BLOCK = 1 << 17, 1 << 18


def open_compressor(level: int, *, threaded: bool) -> ZstdCompressor:
    """A compressor of one frame; `threaded` compresses on all processors while the caller goes on."""
    options: dict[int, int] = {CompressionParameter.compression_level: level}
    if threaded:
        # A codec that was built without threads accepts no workers at all.
        _, most = CompressionParameter.nb_workers.bounds()
        options[CompressionParameter.nb_workers] = min(os.cpu_count() or 1, most)
    return ZstdCompressor(options=options)


def decompress_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a file's frame, some at a time; ZstdError: it is damaged, or its end is missing."""
    frame = ZstdDecompressor()
    while not frame.eof:
        data = file.read(_READ) if frame.needs_input else b""
        if frame.needs_input and not data:
            raise ZstdError("the file ends within the frame")
        if block := frame.decompress(data, _BLOCK):
            yield block
