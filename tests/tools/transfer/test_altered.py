"""Values of JSON that do not fit the type of their column are told, wherever they go, and never changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ends import asked, data, failing, file, move, table
from tool_world import Workshop

pytest.importorskip("duckdb")

#: beyond the rows from which types are told
FAR = 24_001
PLACES = {"duckdb": table(), "parquet": file("o.parquet"), "csv": file("o.csv")}


def written(world: Workshop, odd: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    rows = [usual] * 25_000
    rows[FAR - 1] = {**usual, **odd}
    (world.folder / "in.ndjson").write_text("\n".join(map(json.dumps, rows)))
    return file("in.ndjson")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ({"a": 2.5}, "BIGINT"),
        ({"a": True}, "BIGINT"),
        ({"a": "7"}, "BIGINT"),
        ({"b": "true"}, "BOOLEAN"),
        ({"b": 1}, "BOOLEAN"),
        ({"c": False}, "DOUBLE"),
    ],
)
async def test_a_value_far_behind_that_is_of_another_type_is_told(
    world: Workshop, place: str, odd: dict[str, Any], kind: str
) -> None:
    error = await failing(world, written(world, odd, {"a": 1, "b": True, "c": 0.5, "d": "x"}), PLACES[place])
    ((column, value),) = odd.items()
    shown = json.dumps(value)
    assert error["kind"] == "type"
    assert (error["column"], error["row"], error["value"]) == (column, FAR, shown)
    assert f"column `{column}`, row 24,001: {shown} is not of type {kind}" in error["message"]


async def test_values_far_behind_that_are_the_same_in_their_type_go_through(world: Workshop) -> None:
    odd = {"a": 2.0, "b": None, "c": 3, "d": 4}
    await move(world, written(world, odd, {"a": 1, "b": True, "c": 0.5, "d": "x"}), *PLACES.values())
    assert asked(world, "SELECT * FROM t WHERE a = 2") == [(2, None, 3.0, "4")]


async def test_text_becomes_what_the_author_says_far_behind_too(world: Workshop) -> None:
    source = written(world, {"a": "8", "b": "false"}, {"a": "7", "b": "true"})
    await move(world, {**source, "columns": {"a": "BIGINT", "b": "BOOLEAN"}}, table())
    assert asked(world, "SELECT DISTINCT a, b FROM t ORDER BY a") == [(7, True), (8, False)]


@pytest.mark.parametrize(
    ("odd", "column", "shown"),
    [
        ({"a": 2.5, "b": True}, "a", "2.5"),
        ({"a": 2, "b": 7}, "b", "7"),
        ({"a": True, "b": True}, "a", "true"),
        ({"a": "2.5", "b": True}, "a", '"2.5"'),
    ],
)
@pytest.mark.parametrize("mode", ["append", "upsert"])
async def test_a_value_of_a_later_chunk_is_not_changed_to_fit_a_table(
    world: Workshop, odd: dict[str, Any], column: str, shown: str, mode: str
) -> None:
    rows = data({"id": 1, "a": 1, "b": True}, {"id": 2, **odd})
    error = await failing(world, rows, table(mode=mode, key="id"), chunk={"size": 1})
    assert (error["kind"], error["column"], error["row"], error["value"]) == ("type", column, 2, shown)
    assert asked(world, "SELECT * FROM t WHERE id = 2") == []


async def test_text_that_says_the_same_fits_a_table(world: Workshop) -> None:
    await move(world, data({"n": 1, "yes": True, "d": 1.5}), table())
    await move(world, data({"n": "2", "yes": "false", "d": 3}), table())
    assert asked(world, "SELECT * FROM t ORDER BY n") == [(1, True, 1.5), (2, False, 3.0)]
