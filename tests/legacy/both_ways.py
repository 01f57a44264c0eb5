"""An older playbook run twice, as it stands with `--legacy` and migrated without: what came of it must be the same."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.cli.app import run as main

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from fixture import Fixture  # type: ignore[import-not-found]

Route = Mapping[str, Any]
#: as a server says in its answers
#: of a reference to a file: made with a key of the home
_SEAL = re.compile(r'"seal": "[^"]*"')
_DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT")


@dataclass
class Outcome:
    """What a run left behind, without what differs from run to run: the folder, the server's port, the execution's id."""

    status: str
    output: Any
    ctx: dict[str, Any]
    steps: dict[str, Any]
    error: Any
    #: in the order of their content, since tasks beside one another come in any order
    requests: list[dict[str, Any]]
    #: by name: the text of a file; the rows of each table of a database
    files: dict[str, Any]


@dataclass
class Scene:
    """What stands around a playbook."""

    routes: Sequence[Route] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    #: by name of a database file, what makes its tables
    tables: Mapping[str, str] = field(default_factory=dict)


def call(*arguments: str) -> tuple[int, str, str]:
    """A command line in this process: starting Python for each would take most of the time."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return code, texts[0], texts[1]


@contextmanager
def _place(folder: Path, scene: Scene) -> Iterator[Any]:
    """A folder with the scene's files, which is the current one, an empty home, and the scripted server."""
    work = folder / "work"
    for name, given in scene.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given if isinstance(given, str) else json.dumps(given), encoding="utf-8")
    work.mkdir(parents=True, exist_ok=True)
    for name, statements in scene.tables.items():
        with duckdb.connect(str(work / name)) as database:
            database.execute(statements)
    server = Fixture(scene.routes)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setenv("NOETL_HOME", str(folder / "home"))
        for name, value in scene.env.items():
            patch.setenv(name, value)
        try:
            yield server
        finally:
            server.close()


def perform(text: str, folder: Path, scene: Scene, *flags: str) -> Outcome:
    """Run a playbook in a folder of its own."""
    with _place(folder, scene) as server:
        Path("playbook.yaml").write_text(text, encoding="utf-8")
        before = {path for path in Path().rglob("*") if path.suffix != ".duckdb"}
        payload = {"api_url": server.base, "tmp_dir": str(folder / "work"), **scene.payload}
        _, out, err = call("run", "playbook.yaml", "--json", "--payload", json.dumps(payload), *flags)
        document = json.loads(out)
        assert "status" in document, f"{out}{err}\n{text}"
        written = {str(path): _content(path) for path in sorted(Path().rglob("*")) if path not in before}
        asked = [_asked(request) for request in server.seen]
        found = {
            "status": document["status"],
            "output": document.get("output"),
            "ctx": document.get("ctx") or {},
            "steps": document.get("steps") or {},
            "error": document.get("error"),
            "requests": sorted(asked, key=json.dumps),
            "files": {name: content for name, content in written.items() if content is not None},
        }
        masks = {str(document["execution_id"]): "EXECUTION", server.base: "API", str(folder / "work"): "FOLDER"}
    masked = json.dumps(found, default=str)
    for value, mask in masks.items():
        masked = masked.replace(value, mask)
    masked = _SEAL.sub('"seal": "SEAL"', _DATE.sub("DATE", masked))
    return Outcome(**json.loads(masked))


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Of a request, what a playbook decides."""
    asked = {key: request[key] for key in ("method", "path", "query", "body")}
    authorization = request["headers"].get("authorization")
    return asked if authorization is None else {**asked, "authorization": authorization}


def _content(path: Path) -> Any:
    """What stands in a file, told so that two of them can be compared."""
    if path.is_dir() or path.name.endswith((".wal", ".lock", ".pyc")):
        return None
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as database:
            tables = database.sql("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
            return {
                table if schema == "main" else f"{schema}.{table}": _rows(
                    database.sql(f'SELECT * FROM "{schema}"."{table}" ORDER BY ALL')
                )
                for schema, table in tables
                if not schema.startswith("_") and not table.startswith(("_", "noetl"))
            }
    if path.suffix == ".parquet":
        return _rows(duckdb.connect().sql(f"SELECT * FROM read_parquet('{path}') ORDER BY ALL"))
    return path.read_text(encoding="utf-8")


def _rows(relation: Any) -> list[dict[str, Any]]:
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def migrated(text: str, folder: Path) -> str:
    """What `migrate` makes of a playbook; it must be one of today, and stay as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "playbook.yaml"
    file.write_text(text, encoding="utf-8")
    assert call("migrate", str(file))[0] == 0
    result = file.read_text(encoding="utf-8")
    code, out, _ = call("validate", str(file), "--format", "json")
    assert code == 0, f"{out}\n{result}"
    assert "legacy-" not in out, f"{out}\n{result}"
    assert call("migrate", str(file), "--check")[0] == 0
    return result


def both_ways(
    text: str, folder: Path, scene: Scene, *, only_migrated: Sequence[str] = (), without: Collection[str] = ()
) -> Outcome:
    """What came of it, which was the same both ways.

    `only_migrated` are keys of ctx that the older text has no use for, `without` those that differ from run to run.
    """
    old = perform(text, folder / "old", scene, "--legacy")
    made = migrated(text, folder)
    new = perform(made, folder / "new", scene)
    for key in only_migrated:
        assert key in new.ctx
        del new.ctx[key]
    for outcome in (old, new):
        for key in without:
            outcome.ctx.pop(key, None)
    before, after = asdict(old), asdict(new)
    differences = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert differences == {}, made
    return old
