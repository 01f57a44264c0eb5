"""Payloads on their way into the store: what tools have spilled loses its secrets, stays readable, and leaves no draft."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.config import Settings
from noetl.model.events import Fact
from noetl.model.output import JSON, PARQUET, Spilled
from noetl.redaction.redactor import MASK, Redactor
from noetl.results.backend_addresses import open_payloads
from noetl.worker.outgoing import CleanResults, holds_secret, open_unnamed_file, redact_fact, redact_facts

TOKEN = "tok-93af-5521-zz"


def store(folder: Path, *secrets: str) -> CleanResults:
    return CleanResults(open_payloads(Settings(folder), {}.get, lambda: 0.0), Redactor(secrets))


def drafts(folder: Path) -> list[str]:
    return [path.name for path in (folder / "results" / "drafts").glob("*")]


def kept(results: CleanResults, data: bytes, **about: Any) -> tuple[dict[str, Any], Any]:
    """What becomes of bytes that a tool has written to a file without a name."""

    async def keep() -> tuple[dict[str, Any], Any]:
        file = open_unnamed_file(results.draft("").parent)
        file.write(data)
        ref = await results.keep("e1", await results.adopt(file, Spilled("", **about)))
        return ref, await results.read(ref)

    return asyncio.run(keep())


def test_a_number_with_a_secret_inside_stays_a_number_and_a_secret_number_becomes_text(tmp_path: Path) -> None:
    value = {"rows": [{"n": 912340000 + n} for n in range(1000)], "pin": 1234}
    ref, read = kept(store(tmp_path, "1234"), json.dumps(value).encode())
    assert read == {**value, "pin": MASK}
    assert ref["meta"]["redacted"] is True


def test_rows_with_a_secret_number_are_kept_as_rows(tmp_path: Path) -> None:
    rows = [{"n": 912340000 + n, "t": "x"} for n in range(5000)]
    ref, read = kept(
        store(tmp_path, "912340000"), json.dumps(rows).encode(), rows=5000, columns={"n": "BIGINT", "t": "VARCHAR"}
    )
    assert read == [{"n": MASK, "t": "x"}, *rows[1:]]
    assert ref["meta"]["rows"] == 5000
    assert drafts(tmp_path) == []


def test_a_column_named_by_a_secret_is_renamed_in_every_row(tmp_path: Path) -> None:
    rows = [{TOKEN: n, "t": "x"} for n in range(3000)]
    _, read = kept(
        store(tmp_path, TOKEN), json.dumps(rows).encode(), rows=3000, columns={TOKEN: "BIGINT", "t": "VARCHAR"}
    )
    assert read == [{MASK: n, "t": "x"} for n in range(3000)]


def test_what_holds_no_secret_is_taken_as_it_is(tmp_path: Path) -> None:
    results = store(tmp_path, TOKEN)
    file = open_unnamed_file(results.draft("").parent)
    file.write(b'{"a": 1}')
    file.flush()
    inode = Path(f"/proc/self/fd/{file.fileno()}").stat().st_ino
    spilled = asyncio.run(results.adopt(file, Spilled("")))
    assert Path(spilled.path).stat().st_ino == inode
    assert spilled.redacted is False


@pytest.mark.parametrize("border", range(1_048_560, 1_048_580, 3))
def test_a_secret_across_the_border_of_two_blocks_is_found(tmp_path: Path, border: int) -> None:
    text = "x" * (border - 10) + TOKEN + "y" * 100
    _, read = kept(store(tmp_path, TOKEN), json.dumps(text).encode())
    assert read == text.replace(TOKEN, MASK)


def parquet(path: Path, token: str, rows: int) -> Spilled:
    duckdb.execute(
        f"COPY (SELECT i, CASE WHEN i = {rows - 2} THEN '{token}' ELSE 'row ' || i END AS t FROM range({rows}) r(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    return Spilled(str(path), PARQUET, rows)


@pytest.mark.parametrize("token", [TOKEN, "nothing"])
def test_rows_in_parquet_are_gone_through_some_at_a_time(tmp_path: Path, token: str) -> None:
    results = store(tmp_path, TOKEN)
    results.load = None  # type: ignore[assignment]  # nobody may ask for all of it
    spilled = parquet(results.draft(".parquet"), token, 30_000)

    async def keep() -> tuple[dict[str, Any], Any]:
        ref = await results.keep("e1", spilled)
        return ref, await results.rows(ref, 29_997, 30_000)

    ref, rows = asyncio.run(keep())
    shown = MASK if token == TOKEN else token
    assert rows == [{"i": 29_997, "t": "row 29997"}, {"i": 29_998, "t": shown}, {"i": 29_999, "t": "row 29999"}]
    assert ref["meta"]["rows"] == 30_000
    assert ref["meta"].get("redacted", False) is (token == TOKEN)
    assert drafts(tmp_path) == []


def test_a_disk_that_is_full_leaves_neither_the_draft_nor_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    results = store(tmp_path, TOKEN)
    left = results.draft(".json")
    left.write_text(json.dumps([TOKEN] * 1000))

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("noetl.worker.outgoing.JsonRedactor.through", full)
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(results.keep("e1", Spilled(str(left), JSON)))
    assert drafts(tmp_path) == []


def test_a_secret_may_lie_anywhere_in_blocks(tmp_path: Path) -> None:
    data = json.dumps({"a": ["x" * 50, TOKEN, "y"]}).encode()
    for size in (1, 5, 20, 1000):
        blocks = [data[at : at + size] for at in range(0, len(data), size)]
        assert holds_secret(blocks, Redactor([TOKEN]))
        assert not holds_secret(blocks, Redactor(["another-secret"]))


def test_progress_keeps_its_numbers() -> None:
    fact = Fact("task.progress", "s-1", {"progress": {"rows": 600000, "at": "600000"}}, "in_progress")
    assert redact_fact(fact, Redactor(["600000"])).payload == {"progress": {"rows": 600000, "at": MASK}}


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("task.started", {"part": "finally"}),
        ("task.started", {"wait": {"signal": "go", "until": 1.5, "limit": 1234.0}}),
        ("task.done", {"output": {"status": "ok", "data": None, "ref": None, "error": None}, "do": "jump", "ends": "before"}),
        ("loop.started", {"items": [], "mode": "sequential"}),
    ],
    ids=["part", "wait", "end", "loop"],
)  # fmt: skip
def test_words_by_which_the_engine_decides_stay_though_a_secret_reads_like_them(
    name: str, payload: dict[str, Any]
) -> None:
    redactor = Redactor(["finally", "before", "sequential", "1234.0", "jump"])
    assert redact_fact(Fact(name, "s-1", payload), redactor).payload == payload


def test_one_fact_with_a_secret_does_not_hide_what_became_of_the_others() -> None:
    def done(data: Any, ref: dict[str, Any] | None = None) -> Fact:
        output = {"status": "success", "data": data, "ref": ref, "error": None}
        return Fact("task.done", "s-1", {"output": output, "do": "continue"})

    clean, secret, elsewhere = done([1, "a"]), done(f"Bearer {TOKEN}"), done(None, {"meta": {"redacted": True}})
    found = redact_facts([clean, secret, elsewhere], Redactor([TOKEN]))
    assert found[0] is clean
    assert found[1].payload["output"]["data"] == f"Bearer {MASK}"
    assert [fact.payload.get("redacted") for fact in found] == [None, ["output"], ["output"]]


def test_what_was_redacted_in_the_store_is_said_although_the_facts_hold_no_secret() -> None:
    output = {"status": "success", "data": None, "ref": {"meta": {"redacted": True}}, "error": None}
    fact = Fact("task.done", "s-1", {"output": output, "do": "continue"})
    assert redact_facts([fact], Redactor([TOKEN]))[0].payload["redacted"] == ["output"]
    assert redact_facts([fact], Redactor()) == [fact]
