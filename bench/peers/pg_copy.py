"""What psycopg does by itself: COPY out of one database into another, or a file into a table.

pg_copy.py tables SOURCE TARGET | csv FILE TARGET    prints seconds
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg

PIECE = 1 << 20


def tables(source: str, target: str) -> None:
    with (
        psycopg.connect(source) as reading,
        psycopg.connect(target) as writing,
        reading.cursor().copy("COPY s TO STDOUT") as out,
        writing.cursor().copy("COPY t FROM STDIN") as into,
    ):
        for block in out:
            into.write(block)


def csv(file: str, target: str) -> None:
    with (
        psycopg.connect(target) as writing,
        writing.cursor().copy("COPY t FROM STDIN (FORMAT csv, HEADER)") as into,
        Path(file).open("rb") as given,
    ):
        while piece := given.read(PIECE):
            into.write(piece)


started = time.perf_counter()
{"tables": tables, "csv": csv}[sys.argv[1]](*sys.argv[2:])
print(time.perf_counter() - started)
