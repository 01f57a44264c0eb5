"""Short words for transfers in tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
from tool_world import Workshop


async def move(world: Workshop, source: dict[str, Any], *targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The data of a transfer that goes well."""
    output = await world.task(kind="transfer", source=source, targets=list(targets), **more)
    assert output["error"] is None, output["error"]
    return dict(output["data"])


async def failing(world: Workshop, source: dict[str, Any], *targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The error of one that does not."""
    output = await world.task(kind="transfer", source=source, targets=list(targets), **more)
    assert output["status"] == "error", output
    return dict(output["error"])


def file(path: str, **more: Any) -> dict[str, Any]:
    """A file, as a source or target."""
    return {"kind": "file", "path": path, **more}


def data(*rows: Any) -> dict[str, Any]:
    """Rows in hand."""
    return {"kind": "data", "data": list(rows)}


def table(**more: Any) -> dict[str, Any]:
    """A table, as a source or target."""
    return {"kind": "duckdb", "file": "o.duckdb", "table": "t", **more}


def asked(world: Workshop, query: str, name: str = "o.duckdb") -> list[Any]:
    """What a database answers."""
    with duckdb.connect(str(world.folder / name), read_only=True) as connection:
        return list(connection.execute(query).fetchall())


def lines(path: Path) -> list[Any]:
    """The values of a file with one a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]
