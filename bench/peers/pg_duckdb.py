"""What DuckDB does with its extensions for PostgreSQL and S3, of the version that they are there for.

pg_duckdb.py csv FILE TARGET | s3 SOURCE ENDPOINT KEY SECRET BUCKET    prints seconds
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb


def extension(name: str) -> str:
    """The file of an extension that came as a package."""
    found = find_spec(f"duckdb_extension_{name}")
    assert found is not None
    assert found.origin is not None
    return str(next(Path(found.origin).parent.rglob("*.duckdb_extension")))


def opened(*extensions: str) -> Any:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    for name in extensions:
        connection.execute(f"LOAD '{extension(name)}'")
    return connection


def csv(file: str, target: str) -> float:
    connection = opened("postgres_scanner")
    connection.execute(f"ATTACH '{target}' AS pg (TYPE postgres)")
    started = time.perf_counter()
    connection.execute(f"COPY pg.t FROM '{file}' (HEADER)")
    connection.close()
    return time.perf_counter() - started


def s3(source: str, endpoint: str, key: str, secret: str, bucket: str) -> float:
    connection = opened("postgres_scanner", "httpfs")
    connection.execute(f"ATTACH '{source}' AS pg (TYPE postgres, READ_ONLY)")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{endpoint.removeprefix('http://')}', "
        "URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )
    started = time.perf_counter()
    connection.execute(f"COPY (FROM pg.s) TO 's3://{bucket}/peer.parquet' (FORMAT parquet)")
    connection.close()
    return time.perf_counter() - started


print({"csv": csv, "s3": s3}[sys.argv[1]](*sys.argv[2:]))
