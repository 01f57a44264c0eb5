"""Lists, single executions, and acting on them through the API; also on those of other processes, and of none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from apiserver import APPROVAL, DOUBLE, HEAD, Api

SLEEPS = HEAD % "sleeps" + "  - {step: one, tool: {kind: wait, seconds: 60}}\n"


UNDONE = (
    HEAD % "undone"
    + """\
  - {step: a, spec: {policy: {compensation: {kind: wait, signal: undo}}}, tool: {kind: noop}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: wait, seconds: 60}}
"""
)


def act(api: Api, execution_id: str, verb: str, **given: object) -> tuple[int, dict[str, object]]:
    answer = api.call("POST", f"/api/executions/{execution_id}/{verb}", given)
    return answer.status, answer.data


def test_a_list_is_read_page_by_page(api: Api) -> None:
    made = [api.run(DOUBLE, payload={"n": n})["execution_id"] for n in range(5)]
    waits = api.start(APPROVAL)
    seen: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"/api/executions?limit=2&cursor={cursor}").data
        seen += [one["execution_id"] for one in page["executions"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == [waits, *reversed(made)]
    unfinished = api.get("/api/executions?unfinished=true").data["executions"]
    assert [one["execution_id"] for one in unfinished] == [waits]
    assert api.get("/api/executions?parent=nobody").data == {"executions": [], "cursor": None}
    assert api.get("/api/executions?limit=many").status == 400
    assert api.get("/api/executions?unfinished=perhaps").status == 400


def test_the_beginning_of_an_id_is_enough(api: Api) -> None:
    execution_id = api.run(DOUBLE)["execution_id"]
    found = api.get(f"/api/executions/{execution_id[:8]}?view=summary").data
    assert (found["execution_id"], "steps" in found) == (execution_id, False)


def test_an_execution_is_paused_and_goes_on(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    status, said = act(api, execution_id, "pause")
    assert (status, said["status"], said["event"]) == (200, "paused", "execution.paused")
    assert act(api, execution_id, "pause")[1]["seq"] is None
    assert act(api, execution_id, "unpause")[1]["status"] == "running"
    assert act(api, execution_id, "signal", name="ok", data={"by": "ann"})[1]["event"] == "signal.received"
    assert api.ended(execution_id)["output"] == {"by": "ann"}


def test_an_execution_is_cancelled_once(api: Api) -> None:
    execution_id = api.start(SLEEPS)
    assert act(api, execution_id, "cancel", why="enough")[1]["status"] == "cancelled"
    assert api.ended(execution_id)["error"]["message"] == "enough"
    assert act(api, execution_id, "cancel")[0] == 409
    assert act(api, "nobody", "cancel")[0] == 404


def test_an_execution_whose_compensations_run_is_not_cancelled_again(api: Api) -> None:
    execution_id = api.start(UNDONE)
    assert act(api, execution_id, "cancel", why="enough")[0] == 200
    status, said = act(api, execution_id, "cancel")
    assert status == 409
    assert "its compensations are running" in str(said["detail"])
    act(api, execution_id, "signal", name="undo")
    assert api.ended(execution_id)["steps"]["a"] == {"status": "done", "runs": 1, "undone": 1}


def test_a_signal_reaches_an_execution_of_another_process(api: Api, tmp_path: Path) -> None:
    (tmp_path / "approval.yaml").write_text(APPROVAL)
    running = subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "approval.yaml", "--json"],
        cwd=tmp_path,
        env={
            "NOETL_HOME": str(api.home),
            "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
            "PATH": "/usr/bin:/bin",
        },
        stdout=subprocess.PIPE,
    )
    while not api.get("/api/executions").data["executions"]:
        pass
    found = api.get("/api/executions").data["executions"][0]
    status, said = act(api, found["execution_id"], "signal", name="ok", data=3)
    assert (status, said["event"]) == (200, "signal.received")
    out, _ = running.communicate(timeout=120)
    assert json.loads(out)["output"] == 3


def test_a_signal_to_an_execution_that_nobody_runs_lets_the_server_go_on_with_it(api: Api, tmp_path: Path) -> None:
    (tmp_path / "approval.yaml").write_text(APPROVAL)
    running = subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "approval.yaml"],
        cwd=tmp_path,
        env={
            "NOETL_HOME": str(api.home),
            "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
            "PATH": "/usr/bin:/bin",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while "waits for the signal" not in running.stderr.readline():
        pass
    running.kill()
    running.communicate()
    found = api.get("/api/executions").data["executions"][0]
    assert act(api, found["execution_id"], "signal", name="ok", data=4)[0] == 200
    assert api.ended(found["execution_id"])["output"] == 4


def test_what_is_asked_for_has_to_make_sense(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    assert act(api, execution_id, "signal")[0] == 400
    assert act(api, execution_id, "pause", why="because")[0] == 400
    assert act(api, execution_id, "signal", name="ok", data="x" * 300_000)[0] == 413
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    assert act(api, execution_id, "signal", name="ok", data=deep)[0] == 400
