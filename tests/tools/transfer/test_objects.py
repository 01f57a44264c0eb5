"""Transfers out of and into object stores, with a real S3 server."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import threading
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from forkserver import ForkServer
from servers import Bucket
from test_resume import MORTAL, attempt
from tool_world import Workshop

from noetl.drivers.object_stores import Bucket as Objects

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.usefixtures("forkserver")

ROWS = [{"id": n, "name": f"n {n}", "part": n / 4} for n in range(10)]
IDS = list(range(10))


def put(bucket: Bucket, key: str, body: bytes) -> None:
    with NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        Objects("s3", bucket.name, bucket.credential).put(key, Path(file.name))


def left(folder: Path) -> list[str]:
    """What is still there of drafts, beside what processes that were killed have left."""
    return [path.name for path in (folder / ".drafts").iterdir() if path.suffix != ".scratch"]


def task(
    bucket: Bucket, source: dict[str, Any], *targets: dict[str, Any], size: int = 3, **more: Any
) -> dict[str, Any]:
    auths = {"lake": {**bucket.credential, "kind": "s3_credential"}}
    return {
        "kind": "transfer",
        "source": source,
        "targets": list(targets),
        "chunk": {"size": size},
        "auths": auths,
        **more,
    }


def s3(bucket: Bucket, path: str, **more: Any) -> dict[str, Any]:
    return {"kind": "s3", "bucket": bucket.name, "path": path, "auth": "lake", **more}


def written(rows: list[dict[str, Any]], form: str, folder: Path) -> bytes:
    if form == "json":
        return json.dumps(rows).encode()
    if form == "ndjson":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if form == "csv.gz":
        return gzip.compress(written(rows, "csv", folder))
    lines = folder / "rows.ndjson"
    lines.write_bytes(written(rows, "ndjson", folder))
    made = folder / f"rows.{form}"
    duckdb.connect().execute(f"COPY (FROM '{lines}') TO '{made}'")
    return made.read_bytes()


def ids(bucket: Bucket, key: str) -> list[int]:
    path = bucket.folder / key
    if path.suffix == ".parquet":
        return [row[0] for row in duckdb.connect().execute("SELECT id FROM read_parquet($1)", [str(path)]).fetchall()]
    text = path.read_text()
    if path.suffix == ".csv":
        return [int(row["id"]) for row in csv.DictReader(io.StringIO(text))]
    return [row["id"] for row in (json.loads(text) if path.suffix == ".json" else map(json.loads, text.splitlines()))]


def keys(bucket: Bucket) -> list[str]:
    return sorted(str(path.relative_to(bucket.folder)) for path in bucket.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet", "csv.gz"])
async def test_an_object_is_read_as_a_file_is(world: Workshop, bucket: Bucket, form: str, tmp_path: Path) -> None:
    put(bucket, f"in/rows.{form}", written(ROWS, form, tmp_path))
    output = await world.task(**task(bucket, s3(bucket, f"in/rows.{form}"), {"kind": "file", "path": "out.json"}))
    assert output["error"] is None, output["error"]
    assert (output["data"]["rows"], output["data"]["chunks"]) == (10, 4)
    assert json.loads((tmp_path / "out.json").read_text()) == ROWS


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet"])
@pytest.mark.parametrize("mode", ["replace", "append"])
async def test_an_object_is_written_as_a_file_is(
    world: Workshop, bucket: Bucket, form: str, mode: str, tmp_path: Path
) -> None:
    put(bucket, f"out/rows.{form}", written([{"id": -1, "name": "before", "part": 0.5}], form, tmp_path))
    wanted = task(bucket, {"kind": "data", "data": ROWS}, s3(bucket, f"out/rows.{form}", mode=mode))
    output = await world.task(**wanted)
    assert output["error"] is None, output["error"]
    target = output["data"]["targets"][0]
    assert (target["kind"], target["mode"], target["rows"]) == ("s3", mode, 10)
    assert target["ref"]["type"] == "object_store"
    assert target["ref"]["locator"] == {"bucket": bucket.name, "key": f"out/rows.{form}"}
    assert target["ref"]["auth_reference"] == "keychain/lake"
    assert target["bytes"] == (bucket.folder / f"out/rows.{form}").stat().st_size
    assert ids(bucket, f"out/rows.{form}") == ([-1, *IDS] if mode == "append" else IDS)
    assert left(tmp_path) == []


async def test_append_makes_the_object_that_is_missing(world: Workshop, bucket: Bucket) -> None:
    output = await world.task(**task(bucket, {"kind": "data", "data": ROWS}, s3(bucket, "new.csv", mode="append")))
    assert output["error"] is None, output["error"]
    assert ids(bucket, "new.csv") == IDS


async def test_a_path_that_speaks_of_the_chunk_makes_an_object_each(world: Workshop, bucket: Bucket) -> None:
    path = "x/{{ execution_id }}/chunk_{{ chunk.index }}.parquet"
    output = await world.task(**task(bucket, {"kind": "data", "data": ROWS}, s3(bucket, path)))
    assert output["error"] is None, output["error"]
    assert keys(bucket) == [f"x/e/chunk_{n}.parquet" for n in range(4)]
    assert [ids(bucket, key) for key in keys(bucket)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    ref = output["data"]["targets"][0]["ref"]
    assert ref["locator"] == {"bucket": bucket.name, "keys": [f"x/e/chunk_{n}.parquet" for n in range(4)]}
    assert ref["meta"]["rows"] == 10


@pytest.mark.parametrize(
    ("path", "more"),
    [("s3://{bucket}/a/b.csv", {}), ("/a/b.csv", {"bucket": "{bucket}"}), ("a/b.csv", {"in_entry": True})],
    ids=["address", "beside", "entry"],
)
async def test_the_bucket_may_be_said_in_three_places(
    world: Workshop, bucket: Bucket, path: str, more: dict[str, Any]
) -> None:
    target = {"kind": "s3", "path": path.format(bucket=bucket.name), "auth": "lake"}
    if "bucket" in more:
        target["bucket"] = bucket.name
    wanted = task(bucket, {"kind": "data", "data": ROWS}, target)
    if "in_entry" in more:
        wanted["auths"]["lake"]["bucket"] = bucket.name
    output = await world.task(**wanted)
    assert output["error"] is None, output["error"]
    assert keys(bucket) == ["a/b.csv"]


async def test_a_body_takes_the_place_of_the_rows(world: Workshop, bucket: Bucket) -> None:
    each = s3(bucket, "{{ chunk.index }}.json", body={"n": "{{ chunk.size }}", "rows": "{{ chunk.data }}"})
    text = s3(bucket, "all.txt", body="{{ chunk.size }} rows", format="json")
    output = await world.task(**task(bucket, {"kind": "data", "data": ROWS}, each, text))
    assert output["error"] is None, output["error"]
    assert json.loads((bucket.folder / "3.json").read_text()) == {"n": 1, "rows": [ROWS[9]]}
    assert (bucket.folder / "all.txt").read_text() == "3 rows\n3 rows\n3 rows\n1 rows"


@pytest.mark.parametrize(("form", "expected"), [("csv", b""), ("json", b"[]\n"), ("ndjson", b"")])
async def test_no_rows_make_an_empty_object(world: Workshop, bucket: Bucket, form: str, expected: bytes) -> None:
    output = await world.task(**task(bucket, {"kind": "data", "data": []}, s3(bucket, f"e.{form}")))
    assert output["error"] is None, output["error"]
    assert (bucket.folder / f"e.{form}").read_bytes() == expected
    assert output["data"]["rows"] == 0


@pytest.mark.parametrize("form", ["csv", "ndjson", "json"])
async def test_an_empty_object_has_no_rows(world: Workshop, bucket: Bucket, form: str, tmp_path: Path) -> None:
    put(bucket, f"e.{form}", b"id,name\n" if form == "csv" else b"[]" if form == "json" else b"")
    output = await world.task(**task(bucket, s3(bucket, f"e.{form}"), {"kind": "file", "path": "o.json"}))
    assert output["error"] is None, output["error"]
    assert json.loads((tmp_path / "o.json").read_text()) == []


NAMES = ["ä ö/ü.csv", "a+b%20c/d?e#f.csv", "deep/" * 60 + "x.csv", "y" * 400 + ".csv", "a.csv/b.csv", 'it\'s "so".csv']


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_of_an_object_has_a_file_of_its_own(name: str) -> None:
    from noetl.drivers.object_stores import ObjectAddress
    from noetl.tools.transfer.targets.object_target import address_in, file_of

    address = ObjectAddress("s3", "my-bucket.x", name)
    file = file_of(address)
    assert address_in(file) == address
    assert max(len(part) for part in file.parts) <= 200
    assert file.suffix == ".csv"


# --- what goes wrong -----------------------------------------------------------------------------------------------------


async def failure(world: Workshop, wanted: dict[str, Any]) -> dict[str, Any]:
    output = await world.task(**wanted)
    assert output["status"] == "error"
    error: dict[str, Any] = output["error"]
    secret = wanted["auths"]["lake"]["secret_access_key"]
    assert secret not in json.dumps([output, world.written, world.said])
    return error


@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_bucket_that_does_not_exist_is_named(world: Workshop, bucket: Bucket, end: str) -> None:
    nowhere = {"kind": "s3", "bucket": "no-such-bucket", "path": "a.csv", "auth": "lake"}
    data, file = {"kind": "data", "data": ROWS}, {"kind": "file", "path": "o.csv"}
    wanted = task(bucket, nowhere, file) if end == "source" else task(bucket, data, nowhere)
    error = await failure(world, wanted)
    assert error["kind"] == "fail"
    assert "the bucket s3://no-such-bucket does not exist (keychain entry `lake`)" in error["message"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"secret_access_key": "not-the-secret-at-all"},
            "the secret key is not the one that belongs to the access key",
        ),
        ({"access_key_id": "nobody"}, "the service does not know the access key"),
    ],
)
@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_wrong_key_is_told_by_its_entry_and_never_shown(
    world: Workshop, bucket: Bucket, end: str, change: dict[str, str], why: str
) -> None:
    put(bucket, "a.csv", b"id\n1\n")
    data, file = {"kind": "data", "data": ROWS}, {"kind": "file", "path": "o.csv"}
    lake = s3(bucket, "a.csv", mode="append") if end == "target" else s3(bucket, "a.csv")
    wanted = task(bucket, lake, file) if end == "source" else task(bucket, data, lake)
    wanted["auths"]["lake"].update(change)
    error = await failure(world, wanted)
    assert error["kind"] == "credential"
    assert f"the keychain entry `lake` does not open it: {why}" in error["message"]


async def test_an_object_that_is_not_there_is_named(world: Workshop, bucket: Bucket) -> None:
    error = await failure(world, task(bucket, s3(bucket, "no/such.csv"), {"kind": "file", "path": "o.csv"}))
    assert f"there is no object s3://{bucket.name}/no/such.csv" in error["message"]


async def test_a_line_that_is_no_json_is_told_with_the_objects_name(world: Workshop, bucket: Bucket) -> None:
    put(bucket, "bad.ndjson", b'{"id": 1}\n{"id": \n')
    error = await failure(world, task(bucket, s3(bucket, "bad.ndjson"), {"kind": "file", "path": "o.csv"}))
    assert f"s3://{bucket.name}/bad.ndjson` line 2 is not JSON" in error["message"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"path": "a.csv"}, "says no bucket"),
        ({"path": "ftp://x/a.csv", "bucket": "b"}, "no address of an object"),
        ({"path": "s3://x/a.csv", "bucket": "b"}, "names another bucket"),
        ({"path": "a/../b.csv", "bucket": "b"}, "must not be empty"),
        ({"path": "a.csv", "bucket": "b", "mode": "{{ 'upsert' }}"}, "cannot be updated"),
        ({"path": "a", "bucket": "b"}, "cannot be told by its name"),
    ],
)
async def test_a_target_that_makes_no_sense_is_told(
    world: Workshop, bucket: Bucket, target: dict[str, Any], said: str
) -> None:
    wanted = task(bucket, {"kind": "data", "data": ROWS}, {"kind": "s3", "auth": "lake", **target})
    assert said in (await failure(world, wanted))["message"]


async def test_a_failure_leaves_the_object_as_it_was(world: Workshop, bucket: Bucket, tmp_path: Path) -> None:
    put(bucket, "kept.csv", b"id\n7\n")
    broken = {"kind": "file", "path": "/dev/null/x.csv"}
    await failure(world, task(bucket, {"kind": "data", "data": ROWS}, s3(bucket, "kept.csv"), broken))
    assert ids(bucket, "kept.csv") == [7]
    assert left(tmp_path) == []


async def test_a_target_that_only_warns_lets_the_others_be(world: Workshop, bucket: Bucket) -> None:
    nowhere = {"kind": "s3", "bucket": "no-such-bucket", "path": "a.csv", "auth": "lake", "on_error": "warn"}
    output = await world.task(**task(bucket, {"kind": "data", "data": ROWS}, nowhere, s3(bucket, "b.csv")))
    assert output["error"] is None
    first, second = output["data"]["targets"]
    assert "does not exist" in first["error"]["message"]
    assert first["ref"] is None
    assert second["rows"] == 10
    assert ids(bucket, "b.csv") == IDS


# --- what ends in the middle ---------------------------------------------------------------------------------------------

EVERYWHERE = ["r.csv", "r.json", "r.ndjson", "r.parquet"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [2, 3, 5])
def test_a_killed_transfer_goes_on_and_no_row_is_there_twice(
    tmp_path: Path, bucket: Bucket, nth: int, when: str
) -> None:
    put(bucket, "in.csv", b"id,v\n" + b"".join(b"%d,x\n" % n for n in IDS))
    put(bucket, "a.csv", b"id,v\n-1,before\n")
    targets = [s3(bucket, name) for name in EVERYWHERE]
    targets += [s3(bucket, "a.csv", mode="append"), s3(bucket, "c/{{ chunk.index }}.csv")]
    wanted = task(bucket, s3(bucket, "in.csv"), *targets)
    assert attempt(tmp_path, wanted, nth, when) is None
    assert keys(bucket) == ["a.csv", "in.csv"]
    assert ids(bucket, "a.csv") == [-1]
    output = attempt(tmp_path, wanted)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert [target["rows"] for target in output["data"]["targets"]] == [10] * len(targets)
    for name in EVERYWHERE:
        assert ids(bucket, name) == IDS, name
    assert ids(bucket, "a.csv") == [-1, *IDS]
    assert [ids(bucket, f"c/{n}.csv") for n in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert left(tmp_path) == []


def test_an_object_that_changed_meanwhile_is_read_from_its_beginning(tmp_path: Path, bucket: Bucket) -> None:
    put(bucket, "in.csv", b"id\n" + b"".join(b"%d\n" % n for n in IDS))
    wanted = task(bucket, s3(bucket, "in.csv"), s3(bucket, "out.csv"))
    assert attempt(tmp_path, wanted, 3, "after") is None
    put(bucket, "in.csv", b"id\n" + b"".join(b"%d\n" % (n + 100) for n in IDS))
    output = attempt(tmp_path, wanted)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert ids(bucket, "out.csv") == [n + 100 for n in IDS]


def test_a_transfer_that_is_killed_while_it_uploads_does_so_again(
    tmp_path: Path, bucket: Bucket, forkserver: ForkServer
) -> None:
    import time

    targets = [s3(bucket, "{{ chunk.index }}.csv")]
    wanted = task(bucket, {"kind": "data", "data": [{"id": n} for n in range(1_000)]}, *targets, size=1)
    arguments = (str(tmp_path), json.dumps(wanted), "0", "after")
    running = forkserver.start(*arguments, cwd=tmp_path, env=os.environ, program=MORTAL)
    until = time.monotonic() + 60
    while not keys(bucket):  # the first object is there, most are not
        assert time.monotonic() < until
        time.sleep(0.001)
    running.kill()
    running.wait()
    output = attempt(tmp_path, wanted)
    assert output is not None
    assert output["error"] is None, output["error"]
    assert (output["data"]["rows"], len(keys(bucket))) == (1_000, 1_000)
    assert sorted(one for key in keys(bucket) for one in ids(bucket, key)) == list(range(1_000))
    assert left(tmp_path) == []


def test_a_server_that_comes_back_is_waited_for(tmp_path: Path, bucket: Bucket, s3_server: Any) -> None:
    put(bucket, "in.csv", b"id\n" + b"".join(b"%d\n" % n for n in IDS))
    s3_server.stop()
    starting = threading.Timer(2.0, s3_server.start)
    starting.start()
    try:
        output = attempt(tmp_path, task(bucket, s3(bucket, "in.csv"), s3(bucket, "out.parquet")))
    finally:
        starting.join()
    assert output is not None
    assert output["error"] is None, output["error"]
    assert ids(bucket, "out.parquet") == IDS
