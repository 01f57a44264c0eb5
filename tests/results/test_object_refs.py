"""References to objects that a transfer has put into a bucket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from servers import Bucket

from noetl.app.local import LocalNode
from noetl.config import Settings
from noetl.errors import UsageError
from noetl.model.state import Execution
from noetl.ports import ResultDamaged, ResultGone, StoreFailed
from noetl.results.backend_addresses import open_payloads
from noetl.stores.memory import MemoryLog

pytest.importorskip("duckdb")

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lake}
keychain: [{name: lake, kind: s3_credential, from: {env: LAKE}}]
workflow:
- step: move
  tool:
    kind: transfer
    source: {kind: data, data: [{id: 1, v: a}, {id: 2, v: b}, {id: 3, v: c}]}
    chunk: {size: 2}
    targets:
    - {kind: s3, auth: lake, path: one.FORM}
    - {kind: s3, auth: lake, path: "many/{{ chunk.index }}.FORM"}
  set: {ctx.one_ref: "{{ output.data.targets[0].ref }}", ctx.many_ref: "{{ output.data.targets[1].ref }}"}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ ctx.many_ref }}", iterator: row}
  tool: {kind: noop, output: "{{ iter.row.v }}"}
  set: {ctx.each: "{{ output.data }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: resolve, ref: "{{ ctx.one_ref }}", range: [1, 3]}}
"""


async def run(folder: Path, bucket: Bucket, form: str) -> Execution:
    file = folder / "lake.yaml"
    file.write_text(PLAYBOOK.replace("FORM", form))
    credential = json.dumps({**bucket.credential, "bucket": bucket.name})
    async with LocalNode(Settings(folder / "home", environment={"LAKE": credential}), MemoryLog()) as node:
        source, loaded = node.catalog.read(file)
        assert loaded.net is not None
        live = await node.start(source, loaded.net, {})
        await asyncio.wait_for(asyncio.shield(live.finished), 60)
        return live.state


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet"])
def test_loops_and_resolve_read_them_with_the_keychain_of_the_run(tmp_path: Path, bucket: Bucket, form: str) -> None:
    state = asyncio.run(run(tmp_path, bucket, form))
    assert (state.status, state.error) == ("completed", None)
    assert state.ctx["each"] == ["a", "b", "c"]
    assert state.output == [{"id": 2, "v": "b"}, {"id": 3, "v": "c"}]


def later(folder: Path, bucket: Bucket, **credentials: Any) -> Any:
    """The store as another process of the same home sees it, which has no keychain but the credential store."""
    known = {"lake": {**bucket.credential, "kind": "s3_credential"}, **credentials}
    return open_payloads(Settings(folder / "home"), known.get, lambda: 0.0)


def test_they_are_read_later_by_the_entry_that_they_name(tmp_path: Path, bucket: Bucket) -> None:
    reference = asyncio.run(run(tmp_path, bucket, "json")).ctx["one_ref"]
    assert asyncio.run(later(tmp_path, bucket).rows(reference, 0, 1)) == [{"id": 1, "v": "a"}]
    with pytest.raises(StoreFailed, match="has no `lake`"):
        asyncio.run(later(tmp_path, bucket, lake=None).read(reference))
    wrong = {**bucket.credential, "kind": "s3_credential", "secret_access_key": "not-the-secret"}
    with pytest.raises(StoreFailed, match="keychain entry `lake` does not open it") as caught:
        asyncio.run(later(tmp_path, bucket, lake=wrong).read(reference))
    assert "not-the-secret" not in str(caught.value)


def test_a_reference_that_somebody_made_up_opens_nothing(tmp_path: Path, bucket: Bucket) -> None:
    reference = asyncio.run(run(tmp_path, bucket, "json")).ctx["one_ref"]
    where = reference["locator"]
    forged = [
        {**where, "key": "many/0.json"},
        {**where, "bucket": "another"},
        {"bucket": where["bucket"], "key": where["key"]},
        {"bucket": where["bucket"], "keys": [where["key"]]},
        {**where, "seal": "0" * 64},
    ]
    for locator in forged:
        with pytest.raises(UsageError):
            asyncio.run(later(tmp_path, bucket).read({**reference, "locator": locator}))


def test_what_was_changed_or_removed_meanwhile_is_noticed(tmp_path: Path, bucket: Bucket) -> None:
    reference = asyncio.run(run(tmp_path, bucket, "json")).ctx["one_ref"]
    from noetl.drivers.object_stores import Bucket as Objects

    other = tmp_path / "other"
    other.write_text('[{"id": 9}]')
    objects = Objects("s3", bucket.name, bucket.credential)
    objects.put("one.json", other)
    with pytest.raises(ResultDamaged, match="not what was written"):
        asyncio.run(later(tmp_path, bucket).read(reference))
    objects.delete("one.json")
    with pytest.raises(ResultGone, match="there is no object"):
        asyncio.run(later(tmp_path, bucket).read(reference))
