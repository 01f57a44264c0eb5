"""The same table by dlt, with the quicker of its ways to read one.

pg_dlt.py SOURCE TARGET FOLDER    prints seconds
"""

from __future__ import annotations

import logging
import os
import sys
import time

SOURCE, TARGET, FOLDER = sys.argv[1:]
os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "DLT_DATA_DIR": FOLDER, "RUNTIME__LOG_LEVEL": "CRITICAL"}

import dlt  # type: ignore[import-not-found]  # noqa: E402  it reads the environment
from dlt.sources.sql_database import sql_table  # type: ignore[import-not-found]  # noqa: E402

logging.disable(logging.CRITICAL)
started = time.perf_counter()
pipeline = dlt.pipeline(
    "bench", pipelines_dir=FOLDER, destination=dlt.destinations.postgres(TARGET), dataset_name="public"
)
pipeline.run(sql_table(SOURCE, table="s", backend="pyarrow"), table_name="t", write_disposition="append")
print(time.perf_counter() - started)
