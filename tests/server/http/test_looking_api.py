"""State, lines, pictures, playbooks, payloads and figures through the API."""

from __future__ import annotations

import json
import threading
from urllib.parse import quote

import msgspec
import pytest
from apiserver import APPROVAL, DOUBLE, HEAD, Api
from waiting import wait_until

from noetl.model.state import Execution
from noetl.server.http import routes
from noetl.server.http.app import ROUTES

PRINTS = HEAD % "prints" + "  - {step: end, tool: {kind: shell, cmd: 'echo one; echo two >&2'}}\n"
LARGE = HEAD % "large" + '  - {step: end, tool: {kind: python, code: "def main():\\n  return [{\'n\': n} for n in range(20000)]"}}\n'  # fmt: skip


def test_the_state_is_seen_at_any_event(api: Api) -> None:
    execution_id = api.run(DOUBLE)["execution_id"]
    now = msgspec.json.decode(api.get(f"/api/executions/{execution_id}/state").raw, type=Execution)
    then = msgspec.json.decode(api.get(f"/api/executions/{execution_id}/state?at=3").raw, type=Execution)
    assert (now.status, now.output, then.status, then.seq) == ("completed", 6, "running", 3)
    assert api.get(f"/api/executions/{execution_id}/state?at=999").status == 400
    assert api.get(f"/api/executions/{execution_id}/snapshot").status == 204


def test_what_tools_wrote_is_read_behind_a_position(api: Api) -> None:
    execution_id = api.run(PRINTS)["execution_id"]
    found = api.get(f"/api/executions/{execution_id}/logs").data
    assert {(one["line"]["stream"], one["line"]["text"].strip()) for one in found["lines"]} == {("stdout", "one"), ("stderr", "two")}  # fmt: skip
    assert api.get(f"/api/executions/{execution_id}/logs?after={found['after']}").data["lines"] == []


def test_the_net_of_an_execution_is_drawn(api: Api) -> None:
    execution_id = api.run(DOUBLE)["execution_id"]
    answer = api.get(f"/api/executions/{execution_id}/graph")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.raw.startswith(b"<svg")


def test_the_text_of_what_was_run_is_kept(api: Api) -> None:
    found = api.run(DOUBLE)
    assert api.get(f"/api/sources/{found['playbook']}").data["text"] == DOUBLE
    assert api.get("/api/sources?path=double").data["hash"] == found["playbook"]
    assert api.get("/api/sources/beef").status == api.get("/api/sources?path=nothing").status == 404


def test_a_large_result_is_sent_as_it_lies_there_or_a_part_of_it(api: Api) -> None:
    found = api.run(LARGE)
    ref = found["output"]["ref"]
    whole = api.call("POST", "/api/results", {"ref": ref})
    assert whole.status == 200
    assert "attachment" in whole.headers["content-disposition"]
    by_address = api.get(f"/api/results?ref={quote(json.dumps(ref))}&start=19998")
    assert [json.loads(line) for line in by_address.raw.splitlines()] == [{"n": 19998}, {"n": 19999}]
    part = api.call("POST", "/api/results", {"ref": ref, "start": 5, "stop": 7})
    assert [json.loads(line) for line in part.raw.splitlines()] == [{"n": 5}, {"n": 6}]
    full = api.get(f"/api/executions/{found['execution_id']}?full_output=true").data["output"]
    assert full == found["output"] or len(full) == 20000


@pytest.mark.parametrize(
    ("ref", "status"),
    [
        ({"type": "blob"}, 400),
        ({"type": "blob", "locator": {"path": "../../tokens.json"}, "auth_reference": None, "meta": {}}, 400),
        ({"type": "blob", "locator": {"path": "/etc/passwd"}, "auth_reference": None, "meta": {}}, 400),
        ({"type": "object_store", "locator": {"bucket": "b", "key": "k"}, "auth_reference": None, "meta": {}}, 400),
    ],
    ids=str,
)
def test_a_reference_leads_nowhere_but_to_results(api: Api, ref: object, status: int) -> None:
    assert api.call("POST", "/api/results", {"ref": ref}).status == status


def test_a_playbook_is_checked(api: Api) -> None:
    assert api.call("POST", "/api/validate", {"playbook": DOUBLE}).data == {"valid": True, "diagnostics": []}
    found = api.call("POST", "/api/validate", {"playbook": DOUBLE.replace("noop", "nop")}).data
    assert (found["valid"], found["diagnostics"][0]["code"]) == (False, "unknown-kind")


def test_figures_are_told(api: Api) -> None:
    api.start(APPROVAL)
    told = api.get("/metrics").raw.decode()
    assert 'noetl_executions{status="running"} 1' in told
    assert 'noetl_http_requests_total{method="POST",route="/api/executions",status="201"} 1' in told
    assert api.get("/api/workers").data == {"workers": []}
    assert api.get("/ready").status == 200


def test_the_api_describes_itself(api: Api) -> None:
    told = api.get("/api/openapi.json").data
    assert told["openapi"].startswith("3.1")
    for route in ROUTES:
        assert told["paths"][route.path][route.method.lower()]["x-permission"] == route.permission
    names = [one["operationId"] for path in told["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


def test_health_is_answered_while_the_log_is_slow(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.stores.sqlite_log import SqliteLog

    execution_id = api.run(DOUBLE)["execution_id"]
    slow, waiting = threading.Event(), []
    monkeypatch.setattr(SqliteLog, "lines", lambda *_args, **_more: waiting.append(1) or (slow.wait(60) and []))
    asked = [threading.Thread(target=api.get, args=(f"/api/executions/{execution_id}/logs",)) for _ in range(8)]
    for one in asked:
        one.start()
    wait_until(lambda: len(waiting) == routes._READERS)
    assert api.get("/health").status == 200
    ready = api.get("/ready")
    assert (ready.status, "has not answered" in ready.data.get("detail", "")) == (503, True)
    slow.set()
    for one in asked:
        one.join()
