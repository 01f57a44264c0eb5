"""noetl result and noetl gc."""

from __future__ import annotations

import csv
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from forkserver import ForkServer

    from cli.conftest import Noetl, Running, Shell

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: large}\nworkflow:\n"
ROWS = "[{'id': i, 'name': 'row %d' % i, 'tags': [i, None]} for i in range(1700)]"
STEPS = f"""
  - step: rows
    tool: {{kind: python, code: "def main(): return {ROWS}"}}
    set: {{ctx.rows_ref: "{{{{ output.ref }}}}"}}
    next: {{arcs: [{{step: each}}]}}
  - step: each
    loop: {{in: "{{{{ ctx.rows_ref }}}}", iterator: row, spec: {{mode: parallel}}}}
    tool: {{kind: noop, output: {{n: "{{{{ iter.row.id }}}}", text: "{{{{ 'x' * 60 }}}}"}}}}
    next: {{arcs: [{{step: text}}]}}
  - {{step: text, tool: {{kind: python, code: "def main(): return 'zeile ' * 20000"}}, next: {{arcs: [{{step: little}}]}}}}
  - {{step: little, tool: {{kind: noop, output: {{a: 1}}}}, next: {{arcs: [{{step: end}}]}}}}
  - {{step: end, tool: {{kind: python, code: "def main(): return {{'items': [['y' * 100, i] for i in range(1000)]}}"}}}}
"""


@pytest.fixture(scope="module")
def large_home(tmp_path_factory: pytest.TempPathFactory, forkserver: ForkServer) -> Path:
    """A home with a run of the playbook."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "large.yaml").write_text(HEAD + STEPS)
    environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
    told = forkserver.run("run", "large.yaml", cwd=folder, env=environment)
    assert told.returncode == 0, told.stderr
    assert "in the result store: noetl result" in told.stderr
    return folder / "home"


@pytest.fixture
def execution(noetl: Noetl, folder: Path, home: Path, large_home: Path) -> str:
    """A run, in a home of the test's own."""
    shutil.copytree(large_home, home)
    return json.loads(noetl("show", "last", "--json").out)["execution_id"]


def test_what_an_execution_and_its_steps_yielded_is_printed(noetl: Noetl, execution: str) -> None:
    assert json.loads(noetl("result", execution).out)["items"][7] == ["y" * 100, 7]
    rows = json.loads(noetl("result", "last", "rows").out)
    assert rows[1699] == {"id": 1699, "name": "row 1699", "tags": [1699, None]}
    assert json.loads(noetl("result", "last", "each").out)[5] == {"n": 5, "text": "x" * 60}
    assert json.loads(noetl("result", "last", "each", "--iteration", "5").out) == {"n": 5, "text": "x" * 60}
    assert json.loads(noetl("result", "last", "little").out) == {"a": 1}


@pytest.mark.parametrize("step", ["rows", "each"])
def test_some_rows_are_enough(noetl: Noetl, execution: str, step: str) -> None:
    whole = json.loads(noetl("result", "last", step).out)
    for some, expected in (("10:12", whole[10:12]), (":2", whole[:2]), ("1699:", whole[1699:]), ("5000:6000", [])):
        assert json.loads(noetl("result", "last", step, "--range", some).out) == expected


def test_rows_are_saved_as_lines_as_csv_and_as_parquet(noetl: Noetl, execution: str, folder: Path) -> None:
    import duckdb

    for name in ("rows.ndjson", "rows.csv", "rows.parquet", "rows.json"):
        assert f"{name}: " in noetl("result", "last", "rows", "--output", name).err
    assert json.loads((folder / "rows.ndjson").read_text().splitlines()[9]) == {
        "id": 9,
        "name": "row 9",
        "tags": [9, None],
    }
    with (folder / "rows.csv").open(newline="") as file:
        assert list(csv.reader(file))[10] == ["9", "row 9", "[9,null]"]
    with duckdb.connect() as db:
        assert db.execute(f"SELECT count(*) FROM '{folder}/rows.parquet'").fetchall() == [(1700,)]
    assert len(json.loads((folder / "rows.json").read_text())) == 1700


def test_a_file_that_was_there_stays_as_it_is_when_nothing_can_be_written(
    noetl: Noetl, execution: str, folder: Path
) -> None:
    kept = folder / "kept.csv"
    kept.write_text("mine")
    kept.chmod(0o640)
    assert "is for lists" in noetl("result", "last", "text", "--output", "kept.csv").err
    assert kept.read_text() == "mine"
    assert noetl("result", "last", "rows", "--output", "kept.csv").code == 0
    assert kept.read_text().startswith("id,name,tags")
    assert kept.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in folder.iterdir() if path.name.endswith(".part")] == []
    told = noetl("result", "last", "rows", "--output", "nowhere/x.csv")
    assert (told.code, told.err) == (2, "noetl: nowhere/x.csv: cannot be written (No such file or directory)\n")


def test_the_parts_of_a_loop_become_one_parquet_file(noetl: Noetl, execution: str, folder: Path) -> None:
    import duckdb

    noetl("result", "last", "each", "--range", "100:", "--output", "each.parquet")
    with duckdb.connect() as db:
        found = db.execute(f"SELECT count(*), min(n) FROM '{folder}/each.parquet'").fetchall()
    assert found == [(1600, 100)]
    assert "is for lists" in noetl("result", "last", "little", "--format", "parquet").err


def test_a_text_is_itself_when_it_is_asked_for_raw(noetl: Noetl, execution: str) -> None:
    assert noetl("result", "last", "text", "--format", "raw").out == "zeile " * 20_000


def test_a_reference_does_as_well_as_an_id(noetl: Noetl, execution: str) -> None:
    reference = json.loads(noetl("show", "last", "--json").out)["ctx"]["rows_ref"]
    expected = noetl("result", "last", "rows").out
    assert noetl("result", json.dumps(reference)).out == expected
    assert noetl("result", json.dumps({"ref": reference})).out == expected
    assert noetl("result", reference["locator"]["path"]).out == expected


def test_what_a_transfer_wrote_is_printed_by_its_reference(noetl: Noetl, folder: Path, home: Path) -> None:
    move = "source: {kind: data, data: [{a: 1}, {a: 2}]}, targets: [{kind: file, path: out.csv}]"
    (folder / "move.yaml").write_text(f"{HEAD}  - {{step: move, tool: {{kind: transfer, {move}}}}}\n")
    told = json.loads(noetl("run", "move.yaml", "--json").out)
    reference = told["output"]["targets"][0]["ref"]
    assert json.loads(noetl("result", json.dumps(reference), "--range", "1:").out) == [{"a": 2}]
    del reference["locator"]["seal"]
    assert "no transfer on this machine has made it" in noetl("result", json.dumps(reference)).err


def test_a_person_sees_the_first_rows_and_how_to_get_the_others(execution: str, home: Path, shell: Shell) -> None:
    seen = shell.at_terminal("result", "last", "rows", NOETL_HOME=str(home))
    assert '{"id":99,' in seen
    assert '{"id":100,' not in seen
    assert "--range A:B shows others" in seen
    assert shell.at_terminal("result", "last", "text", NOETL_HOME=str(home)).count("zeile") > 1_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "there is no execution 'nope'"),
        (["last", "eech"], "did you mean `each`?"),
        (["last", "each", "--iteration", "9999"], "counted from 0 to 1699"),
        (["last", "--iteration", "1"], "--iteration is of a step"),
        (["last", "rows", "--range", "1-2"], "such as 0:100"),
        (["last", "little", "--range", "1:2"], "is for lists"),
        (["last", "text", "--format", "csv"], "is for lists"),
        (["last", "end", "--format", "ndjson"], "is for lists"),
        (["../../noetl.db"], "does not lead to a payload"),
        (["/etc/passwd"], "does not lead to a payload"),
        (["drafts/1-2.part"], "does not lead to a payload"),
        (["a/" + "0" * 32 + ".json.zst"], "no longer there"),
        (["{"], "is not JSON"),
        (['{"type": "blob"}'], "this is no reference"),
        (['{"type": "nats", "locator": {}, "auth_reference": null, "meta": {}}'], "this one has `blob`"),
        (['{"type": "blob", "locator": 7, "auth_reference": null, "meta": null}'], "does not say where"),
    ],
)
def test_what_cannot_be_printed_is_told_in_one_line(
    noetl: Noetl, execution: str, arguments: list[str], said: str
) -> None:  # fmt: skip
    told = noetl("result", *arguments)
    assert told.code in (1, 2)
    assert said in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("step", ["rows", "each", "text"])
def test_one_flipped_byte_is_noticed(noetl: Noetl, execution: str, home: Path, step: str) -> None:
    for path in (home / "results" / execution).iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    told = noetl("result", "last", step)
    assert told.code == 1
    assert "was changed: its sha256 is another one" in told.err


def test_a_run_that_yielded_nothing_says_so(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "fails.yaml").write_text(f"{HEAD}  - {{step: a, tool: {{kind: shell, cmd: exit 3}}}}\n")
    noetl("run", "fails.yaml")
    assert "is failed and has no output" in noetl("result", "last").err
    assert "has not ended well" in noetl("result", "last", "a").err


# --- gc --------------------------------------------------------------------------------------------------------------

EXPIRING = f"""
  - step: make
    spec: {{result: {{ttl: TTL}}}}
    tool: {{kind: python, code: "def main(): return {ROWS}"}}
    set: {{ctx.rows_ref: "{{{{ output.ref }}}}"}}
    next: {{arcs: [{{step: later}}]}}
  - {{step: later, tool: {{kind: wait, seconds: 0.3}}, next: {{arcs: [{{step: end}}]}}}}
  - {{step: end, tool: {{kind: resolve, ref: "{{{{ ctx.rows_ref }}}}", range: [1, 2]}}}}
"""


def test_what_has_expired_is_removed_and_told(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "expires.yaml").write_text(HEAD + EXPIRING.replace("TTL", "0.1"))
    done = json.loads(noetl("run", "expires.yaml", "--json").out)
    assert done["error"]["kind"] == "result-expired"
    payloads = home / "results" / done["execution_id"]
    assert len(list(payloads.iterdir())) == 1
    listed = json.loads(noetl("gc", "--dry-run", "--json").out)
    assert [one["path"].split("/")[0] for one in listed["removed"]] == [done["execution_id"]]
    assert listed["bytes"] == next(payloads.iterdir()).stat().st_size
    assert "would be removed" in noetl("gc", "--dry-run").out
    assert noetl("gc").out.startswith("1 file removed, ")
    assert not payloads.exists()
    assert noetl("gc").out == "nothing has expired\n"
    assert "no longer there" in noetl("result", "last", "make").err


@pytest.mark.parametrize("ttl", ["'24h'", "86400", "'1d'"])
def test_what_has_not_expired_stays(noetl: Noetl, folder: Path, home: Path, ttl: str) -> None:
    (folder / "stays.yaml").write_text(HEAD + EXPIRING.replace("TTL", ttl))
    done = json.loads(noetl("run", "stays.yaml", "--json").out)
    assert done["output"] == [{"id": 1, "name": "row 1", "tags": [1, None]}]
    name = next((home / "results" / done["execution_id"]).iterdir()).name
    expires = int(name.split(".")[1].removeprefix("x")) / 1000
    assert abs(expires - time.time() - 86_400) < 60
    assert noetl("gc").out == "nothing has expired\n"


def test_what_a_killed_process_left_half_written_is_removed_after_a_day(noetl: Noetl, home: Path) -> None:
    import os

    drafts = home / "results" / "drafts"
    drafts.mkdir(parents=True)
    for name in ("old.part", "new.part"):
        (drafts / name).write_bytes(b"x" * 1000)
    os.utime(drafts / "old.part", (0, time.time() - 90_000))
    assert noetl("gc").out == "1 file removed, 1.0 kB\n"
    assert [path.name for path in drafts.iterdir()] == ["new.part"]


def test_what_was_stored_and_never_recorded_is_removed_after_a_day(
    noetl: Noetl, folder: Path, home: Path, execution: str
) -> None:
    import os

    payloads = home / "results" / execution
    kept = sorted(path.name for path in payloads.iterdir())
    lost = [payloads / f"{'0' * 32}.json.zst", payloads / "0123456789abcdef-0.notes"]
    for path in lost:
        path.write_bytes(b"x" * 500)
    assert noetl("gc").out == "nothing has expired\n"
    for path in payloads.iterdir():
        os.utime(path, (0, time.time() - 90_000))
    told = json.loads(noetl("gc", "--dry-run", "--json").out)
    assert [one["path"] for one in told["removed"]] == [f"{execution}/{path.name}" for path in lost]
    assert noetl("gc").out == "2 files removed, 1.0 kB\n"
    assert sorted(path.name for path in payloads.iterdir()) == kept
    assert len(json.loads(noetl("result", "last", "each").out)) == 1700


def test_a_transfer_that_was_killed_goes_on_after_a_late_gc_without_a_row_twice(
    noetl: Noetl, start: Callable[..., Running], folder: Path, home: Path
) -> None:
    import os

    pytest.importorskip("duckdb")
    (folder / "in.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(120_000)))
    target = '{kind: file, path: "out.csv", mode: append, mapping: {id: "{{ row.id ~ \'\' }}"}}'
    move = f"source: {{kind: file, path: in.csv}}, chunk: {{size: 1000}}, targets: [{target}]"
    (folder / "move.yaml").write_text(f"{HEAD}  - {{step: move, tool: {{kind: transfer, {move}}}}}\n")
    written = folder / "out.csv"
    for _ in range(5):  # it may be over before anybody looks
        running = start("run", "move.yaml")
        while running.process.poll() is None:
            if list(home.rglob("*.notes")) and written.exists() and written.stat().st_size >= 100_000:
                break
            time.sleep(0.01)
        running.kill()
        if list(home.rglob("*.notes")):
            break
        written.unlink()
    assert list(home.rglob("*.notes"))
    for path in (home / "results").rglob("*"):
        os.utime(path, (0, time.time() - 90_000))
    assert noetl("gc").code == 0
    assert (home / "results" / "drafts").is_dir()
    assert noetl("resume", "last").code == 0
    assert (folder / "out.csv").read_text() == (folder / "in.csv").read_text()
    assert list(home.rglob("*.notes")) == []


def test_where_nothing_is_the_reason_is_told(noetl: Noetl, execution: str, folder: Path) -> None:
    for number in ("1700", "-1", "x"):
        said = noetl("result", "last", "each", "--iteration", number)
        assert said.code == 2
        assert f"there is no iteration {number} of step `each`" in said.err
        assert "they are counted from 0 to 1699" in said.err
    assert "has no loop" in noetl("result", "last", "little", "--iteration", "0").err
    (folder / "branch.yaml").write_text(
        HEAD.replace("large", "branch") + "  - {step: a, tool: {kind: noop}, next: {arcs: [{step: b, when: false}]}}\n"
        "  - {step: b, tool: {kind: noop}}\n"
    )
    noetl("run", "branch.yaml")
    assert "step `b`" in (said := noetl("result", "last", "b").err)
    assert "never ran; `noetl why" in said


def test_a_file_that_cannot_be_written_or_understood_is_named(noetl: Noetl, execution: str, folder: Path) -> None:
    said = noetl("result", "last", "little", "-o", "large.yaml/x.json")
    assert (said.code, said.err.partition(": cannot be written")[0]) == (2, "noetl: large.yaml/x.json")
    said = noetl("result", "last", "little", "-o", "x.xml")
    assert "the name x.xml does not say how to write it: give --format (json, " in said.err
    assert not (folder / "x.xml").exists()
    assert noetl("result", "last", "little", "-o", "x.xml", "--format", "json").code == 0


def test_of_a_list_in_parts_no_bytes_are_told(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "parts.yaml").write_text(
        HEAD
        + STEPS.replace(", next: {arcs: [{step: text}]}", "")
        .partition("  - {step: text")[0]
        .replace("    next: {arcs: [{step: text}]}\n", "")
    )
    assert "output: 1,700 rows in the result store: noetl result" in noetl("run", "parts.yaml").err
