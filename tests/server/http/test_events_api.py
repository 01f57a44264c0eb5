"""Following an execution through the API: pages, streams, and going on where one broke off."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from apiserver import APPROVAL, DOUBLE, Api

from noetl.server.http import events


def test_events_come_in_pages(api: Api) -> None:
    execution_id = api.run(DOUBLE)["execution_id"]
    whole = api.get(f"/api/executions/{execution_id}/events").data
    assert [one["seq"] for one in whole["events"]] == list(range(1, whole["after"] + 1))
    assert whole["over"]
    first = api.get(f"/api/executions/{execution_id}/events?limit=3").data
    assert (len(first["events"]), first["after"], first["over"]) == (3, 3, False)
    rest = api.get(f"/api/executions/{execution_id}/events?after=3").data
    assert first["events"] + rest["events"] == whole["events"]
    assert api.get(f"/api/executions/{execution_id}/events?after=999").data == {
        "events": [],
        "after": 999,
        "over": True,
    }
    assert api.get(f"/api/executions/{execution_id}/events?after=no").status == 400


def test_a_page_waits_for_something_to_happen(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LONGEST_WAIT", 600)
    execution_id = api.start(APPROVAL)
    seq = api.get(f"/api/executions/{execution_id}/events").data["after"]
    while api.get(f"/api/executions/{execution_id}/events?after={seq}").data["events"]:
        seq = api.get(f"/api/executions/{execution_id}/events").data["after"]
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(api.get, f"/api/executions/{execution_id}/events?after={seq}&wait=600")
        time.sleep(0.3)
        assert not waiting.done()
        api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok"})
        assert waiting.result().data["events"][0]["name"] == "signal.received"
        assert time.monotonic() - began < 300


def test_a_stream_tells_everything_and_ends_with_the_execution(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    stream = api.stream(f"/api/executions/{execution_id}/events")
    assert next(stream) == ("id", "1")
    api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok", "data": 5})
    told = list(stream)
    assert told[-3:-1] == [("event", "end"), ("id", told[-2][1])]
    names = [json.loads(value).get("name") for field, value in told if field == "data"]
    assert names[0] == "playbook.execution.requested"
    assert names[-2:] == ["playbook.processed", None]


def test_a_stream_that_broke_off_goes_on_behind_the_last_event(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    seen = [value for field, value in islice(api.stream(f"/api/executions/{execution_id}/events"), 6) if field == "id"]
    assert seen == ["1", "2", "3"]
    api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok"})
    api.ended(execution_id)
    rest = [value for field, value in api.stream(f"/api/executions/{execution_id}/events", Last_Event_ID="3") if field == "id"]  # fmt: skip
    last = rest[-1]
    assert rest == [*map(str, range(4, int(last) + 1)), last]
    # There is nothing more to come, which is how a browser is told to stop asking.
    assert list(api.stream(f"/api/executions/{execution_id}/events", Last_Event_ID=last)) == [("status", "204")]
    assert ("status", "400") in list(api.stream(f"/api/executions/{execution_id}/events", Last_Event_ID="x"))


def test_a_stream_in_which_nothing_happens_says_that_it_is_alive(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    execution_id = api.start(APPROVAL)
    assert ("comment", "still here") in api.stream(f"/api/executions/{execution_id}/events")


def test_whoever_stops_following_is_forgotten(api: Api, capfd: pytest.CaptureFixture[str]) -> None:
    execution_id = api.start(APPROVAL)
    for _ in range(5):
        stream = api.stream(f"/api/executions/{execution_id}/events")
        next(stream)
        stream.close()
    api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok"})
    assert api.ended(execution_id)["status"] == "completed"
    assert "Traceback" not in capfd.readouterr().err


def test_whoever_follows_does_not_keep_a_server_from_ending(api: Api) -> None:
    execution_id = api.start(APPROVAL)
    stream = api.stream(f"/api/executions/{execution_id}/events")
    next(stream)
    api.__exit__()  # which waits for its end
    list(stream)
    api.__enter__()
    assert api.get(f"/api/executions/{execution_id}").data["status"] == "running"


def test_a_signal_that_no_wait_takes_is_refused_and_not_recorded(api: Api) -> None:
    asks = APPROVAL.replace("signal: ok", "signal: ok, schema: {type: number}")
    assert asks != APPROVAL
    execution_id = api.start(asks)
    while "task.started" not in [
        one["name"] for one in api.get(f"/api/executions/{execution_id}/events").data["events"]
    ]:
        time.sleep(0.02)
    refused = api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok", "data": "x"})
    assert refused.status == 422
    assert "does not fit its schema" in refused.data["detail"]
    names = [one["name"] for one in api.get(f"/api/executions/{execution_id}/events").data["events"]]
    assert "signal.received" not in names
    assert api.call("POST", f"/api/executions/{execution_id}/signal", {"name": "ok", "data": 5}).status == 200
    assert api.ended(execution_id)["status"] == "completed"
