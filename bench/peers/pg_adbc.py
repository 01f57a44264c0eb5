"""What ADBC and Arrow do: batches of columns, without a row in Python.

pg_adbc.py csv FILE TARGET | s3 SOURCE ENDPOINT KEY SECRET BUCKET    prints seconds
"""

from __future__ import annotations

import os
import sys
import time

# Not every server takes checksums behind the body.
os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"

import adbc_driver_postgresql.dbapi as adbc  # type: ignore[import-not-found]
import pyarrow as pa  # type: ignore[import-not-found]
from pyarrow import (
    csv as arrow_csv,  # type: ignore[import-not-found]
    fs,
    parquet as pq,  # type: ignore[import-not-found]
)

TYPES = {
    "id": pa.int64(), "name": pa.string(), "city": pa.string(), "amount": pa.float64(), "qty": pa.int64(),
    "day": pa.date32(), "flag": pa.bool_(), "note": pa.string(),
}  # fmt: skip


def csv(file: str, target: str) -> None:
    options = arrow_csv.ConvertOptions(column_types=TYPES, true_values=["t"], false_values=["f"])
    with adbc.connect(target) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("t", arrow_csv.open_csv(file, convert_options=options), mode="append")
        connection.commit()


def s3(source: str, endpoint: str, key: str, secret: str, bucket: str) -> None:
    store = fs.S3FileSystem(
        access_key=key, secret_key=secret, endpoint_override=endpoint, region="us-east-1", scheme="http"
    )
    with adbc.connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM s")
        reader = cursor.fetch_record_batch()
        with pq.ParquetWriter(f"{bucket}/peer.parquet", reader.schema, filesystem=store) as writer:
            for batch in reader:
                writer.write_batch(batch)


started = time.perf_counter()
{"csv": csv, "s3": s3}[sys.argv[1]](*sys.argv[2:])
print(time.perf_counter() - started)
