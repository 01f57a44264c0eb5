"""Files as sources: what is in them is what arrives, or it is said why not."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from ends import asked, data, failing, file, lines, move, table
from tool_world import Workshop

from noetl.tools.transfer.file_sources import FedSource

pytest.importorskip("duckdb")


async def test_a_stray_quote_is_a_character_like_others(world: Workshop) -> None:
    rows = "".join(f"{n},{'5' + chr(34) + ' pipe' if n == 20 else 'x'}\n" for n in range(100))
    (world.folder / "in.csv").write_text("id,note\n" + rows)
    told = await move(world, file("in.csv"), table(mode="replace"), chunk={"size": 7})
    assert (told["rows"], told["chunks"]) == (100, 15)
    assert asked(world, "SELECT count(*), count(DISTINCT id) FROM t") == [(100, 100)]
    assert asked(world, "SELECT note FROM t WHERE id = 20") == [('5" pipe',)]


@pytest.mark.parametrize("note", ['5" pipe', 'a "b" c"'])
async def test_a_stray_quote_far_behind_is_no_beginning_either(world: Workshop, note: str) -> None:
    rows = "".join(f'{n},"x, y"\n' if n % 2 else f"{n},{note if n == 29_990 else 'x'}\n" for n in range(30_000))
    (world.folder / "in.csv").write_text("id,note\n" + rows)
    told = await move(world, file("in.csv"), table(), chunk={"size": 7_000})
    assert told["rows"] == 30_000
    assert asked(world, "SELECT note FROM t WHERE id >= 29990 LIMIT 2") == [(note,), ("x, y",)]


async def test_a_quote_that_is_never_closed_is_called_that(world: Workshop) -> None:
    rows = "".join(f'{n},"{n}"\n' for n in range(30_000))
    text = "id,note\n" + rows + '30000,"open\n'
    (world.folder / "in.csv").write_text(text + "1,x\n")
    found = await failing(world, file("in.csv"), file("o.csv"))
    assert found["message"].startswith("the source: row 30,001 opens a quote that is never closed: '30000,\"open")
    (world.folder / "in.csv").write_text(text + rows)
    found = await failing(world, file("in.csv"), file("o.csv"))
    assert found["message"].startswith("the source: row 30,001 opens a quote that is not closed where the field ends: ")


async def test_digits_of_decimals_in_csv_are_kept(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("id,v,w\n1,9007199254740993,0.1\n2,0.5,0.30000000000000004\n")
    await move(world, file("in.csv"), file("o.ndjson"), table())
    assert lines(world.folder / "o.ndjson") == [
        {"id": 1, "v": "9007199254740993.0", "w": 0.1},
        {"id": 2, "v": 0.5, "w": 0.30000000000000004},
    ]
    assert asked(world, "SELECT typeof(v), typeof(w) FROM t LIMIT 1") == [("DECIMAL(38,1)", "DOUBLE")]


async def test_numbers_of_too_many_digits_stay_text(world: Workshop) -> None:
    (world.folder / "in.csv").write_text(f"v\n{'9' * 30}.{'1' * 20}\n0.5\n")
    await move(world, file("in.csv"), file("o.ndjson"))
    assert lines(world.folder / "o.ndjson") == [{"v": f"{'9' * 30}.{'1' * 20}"}, {"v": "0.5"}]


async def test_types_delimiter_and_encoding_can_be_given(world: Workshop) -> None:
    (world.folder / "in.csv").write_bytes("id;zip;name;v\n1;01234;Zoë;1,5\n2;1;é;2,5\n".encode("latin-1"))
    source = file("in.csv", encoding="latin-1", delimiter=";", columns={"id": "VARCHAR", "zip": "BIGINT"})
    await move(world, source, file("o.ndjson"), table())
    assert lines(world.folder / "o.ndjson")[0] == {"id": "1", "zip": 1234, "name": "Zoë", "v": "1,5"}
    assert asked(world, "SELECT typeof(id), typeof(zip) FROM t LIMIT 1") == [("VARCHAR", "BIGINT")]


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.ndjson"])
async def test_text_of_two_bytes_a_character_is_read(world: Workshop, name: str) -> None:
    text = '{"a": "é"}\n{"a": "\u4e2d"}\n' if "json" in name else "a,b\né,1\n\u4e2d,2\n"
    body = text.encode("utf-16")
    (world.folder / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    await move(world, file(name, encoding="utf-16"), file("o.ndjson"))
    assert [row["a"] for row in lines(world.folder / "o.ndjson")] == ["é", "\u4e2d"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"encoding": "klingon"}, "`source.encoding`: nobody knows an encoding 'klingon'"),
        ({"encoding": "utf-16"}, "is not utf-16"),
        ({"columns": {"c": "BIGINT"}}, "`source.columns` names `c`, the file has `a`, `b`"),
        ({"columns": {"a": "BIGNUMBER"}}, "`source.columns.a`: Type with name BIGNUMBER does not exist"),
        ({"columns": {"a": "INT); DROP TABLE x"}}, "is no type"),
    ],
)
async def test_what_cannot_be_heeded_says_so(world: Workshop, more: dict[str, Any], said: str) -> None:
    (world.folder / "in.csv").write_text("a,b\n1,2\n3,4")
    found = await failing(world, file("in.csv", **more), file("o.csv"))
    assert (found["kind"], said in found["message"]) == ("type", True), found


@pytest.mark.parametrize("before", [1, 25_000])
async def test_text_of_another_encoding_is_called_that(world: Workshop, before: int) -> None:
    (world.folder / "in.csv").write_bytes(b"id,v\n" + b"1,x\n" * before + "2,é\n".encode("latin-1"))
    found = await failing(world, file("in.csv"), file("o.csv"))
    assert "is not UTF-8; say in `source.encoding` what it is, such as latin-1" in found["message"]
    assert found["message"].startswith("the source: ")


async def test_a_row_with_too_many_columns_is_a_fault_of_the_source_and_counted_to_its_end(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("a,b,c\n" + "1,2,3\n" * 25_000 + "1,2,3,4,5\n")
    found = await failing(world, file("in.csv"), file("o.csv", on_error="warn"))
    assert found["message"] == "the source: row 25,001 has 5 columns, the others have 3: '1,2,3,4,5'"


@pytest.mark.parametrize("name", ["in.json", "in.json.gz"])
async def test_an_array_that_was_cut_off_is_not_taken_for_a_whole_one(world: Workshop, name: str) -> None:
    body = b'[\n{"a":1},\n{"a":2},\n'
    (world.folder / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    found = await failing(world, file(name), file("o.ndjson"))
    assert "has no end: the file was cut off" in found["message"]


async def test_a_header_without_rows_makes_the_table_and_the_files(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("id,name\n")
    told = await move(world, file("in.csv"), table(), file("o.csv"), file("o.parquet"), file("o.json"))
    assert (told["rows"], told["chunks"]) == (0, 0)
    assert asked(world, "SELECT column_name FROM (DESCRIBE t)") == [("id",), ("name",)]
    assert (world.folder / "o.csv").read_text() == "id,name\n"
    await move(world, file("o.parquet"), table(table="p", mode="replace"))
    assert asked(world, "SELECT count(*) FROM p") == [(0,)]
    assert (world.folder / "o.json").read_text() == "[]\n"


async def test_what_knows_no_columns_makes_none_up(world: Workshop) -> None:
    (world.folder / "in.csv").write_text("")
    await move(world, file("in.csv"), table(), file("o.csv"), file("{{ chunk.index }}.csv"))
    (world.folder / "head.csv").write_text("id,name\n")
    mapped = table(table="u", mapping={"x": "{{ row.id ~ '!' }}"})
    await move(world, file("head.csv"), file("{{ chunk.index }}.csv"), mapped)
    assert asked(world, "SELECT table_name FROM duckdb_tables()") == []
    assert (world.folder / "o.csv").read_text() == ""
    assert not (world.folder / "0.csv").exists()


async def test_rows_are_counted_as_they_are_written(world: Workshop) -> None:
    (world.folder / "one.csv").write_text("a\n1\n\n2\n\n")
    told = await move(world, file("one.csv"), table())
    assert [(told["rows"],)] == asked(world, "SELECT count(*) FROM t") == [(4,)]
    (world.folder / "in.ndjson").write_bytes(b'\xef\xbb\xbf{"a": 1}\n   \n{"a": 2}\n')
    told = await move(world, file("in.ndjson"), table(table="u"))
    assert [(told["rows"],)] == asked(world, "SELECT count(*) FROM u") == [(2,)]


def test_rows_in_hand_are_cut_up_in_a_time_that_grows_with_their_number(tmp_path: Path) -> None:
    held = FedSource({"total": 40}, tmp_path, 10)
    held.feed(b"\n".join(b'{"n":%d}' % n for n in range(25)), ended=False, cut=False)
    reading = held.chunks(None, {}, together=False)  # type: ignore[arg-type]  nothing runs
    found = [next(reading), next(reading)]
    assert held.wants
    held.feed(b"\n".join(b'{"n":%d}' % n for n in range(25, 40)), ended=True, cut=False)
    found += list(reading)
    assert [one.chunk.first for one in found] == [0, 10, 20, 30]
    assert [row["n"] for one in found for row in one.chunk.rows(None)] == list(range(40))
    assert [one.last for one in found] == [False, False, False, True]


async def test_a_source_and_a_target_in_one_file_get_on_under_restrictions(world: Workshop) -> None:
    await move(world, data({"id": 1}, {"id": 2}), table(table="a"))
    told = await move(world, table(table="a"), table(table="b", mode="replace"), spec={"isolation": "strict"})
    assert told["rows"] == 2
    assert asked(world, "SELECT count(*) FROM b") == [(2,)]
