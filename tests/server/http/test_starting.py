"""Starting executions through the API: once for each key, and nothing that is too large."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from apiserver import APPROVAL, DOUBLE, HEAD, Api

from noetl.server.http import bodies

CALLER = HEAD % "caller" + "  - {step: end, tool: {kind: playbook, path: %s}}\n"


def post(api: Api, wish: dict[str, Any], key: str) -> tuple[int, dict[str, Any]]:
    answer = api.call("POST", "/api/executions", wish, Idempotency_Key=key)
    return answer.status, answer.data


def test_a_playbook_runs_and_its_end_is_told(api: Api) -> None:
    answer = api.call("POST", "/api/executions", {"playbook": DOUBLE, "payload": {"n": 5}})
    assert answer.status == 201
    assert answer.headers["location"] == f"/api/executions/{answer.data['execution_id']}"
    found = api.ended(answer.data["execution_id"])
    assert (found["status"], found["output"], found["steps"]) == (
        "completed",
        10,
        {"end": {"status": "done", "runs": 1}},
    )


def test_each_execution_has_the_file_it_was_started_from_or_else_the_name_of_its_playbook(api: Api) -> None:
    files = [None, "/away/one.yaml", "/away/two.yaml"]
    started = [api.call("POST", "/api/executions", {"playbook": DOUBLE, "file": file}).data for file in files]
    found = [api.ended(one["execution_id"]) for one in started]
    assert [one["file"] for one in found] == ["double", "/away/one.yaml", "/away/two.yaml"]
    said = api.call("POST", "/api/executions", {"playbook": "nonsense"}).data
    assert said["detail"] == "the playbook is invalid"


def test_the_same_key_starts_the_same_execution_once(api: Api) -> None:
    wish = {"playbook": DOUBLE, "payload": {"n": 1, "m": 2}}
    status, first = post(api, wish, "k1")
    assert (status, first["repeated"]) == (201, False)
    # The same, spelled differently.
    again = json.dumps({"payload": {"m": 2, "n": 1}, "playbook": DOUBLE}, indent=2).encode()
    answer = api.call("POST", "/api/executions", again, Idempotency_Key="k1")
    assert (answer.status, answer.data["execution_id"], answer.data["repeated"]) == (200, first["execution_id"], True)
    assert post(api, wish, "k2")[1]["execution_id"] != first["execution_id"]
    assert len(api.get("/api/executions").data["executions"]) == 2


def test_the_same_key_with_another_wish_is_a_conflict(api: Api) -> None:
    first = post(api, {"playbook": DOUBLE}, "k")[1]
    status, said = post(api, {"playbook": DOUBLE, "payload": {"n": 4}}, "k")
    assert (status, said["execution_id"]) == (409, first["execution_id"])


def test_a_key_is_remembered_by_the_next_server(api: Api) -> None:
    first = post(api, {"playbook": APPROVAL}, "k")[1]["execution_id"]
    api.__exit__()
    api.__enter__()
    assert post(api, {"playbook": APPROVAL}, "k") == (200, {"execution_id": first, "status": "running", "path": "approval", "repeated": True})  # fmt: skip
    assert post(api, {"playbook": DOUBLE}, "k")[0] == 409
    assert api.call("POST", f"/api/executions/{first}/signal", {"name": "ok", "data": 7}).status == 200
    assert api.ended(first)["output"] == 7


def test_many_who_ask_for_the_same_at_once_get_the_same(api: Api) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: post(api, {"playbook": DOUBLE}, "k"), range(16)))
    assert len({one["execution_id"] for _, one in found}) == 1
    assert sorted(status for status, _ in found) == [200] * 15 + [201]
    assert len(api.get("/api/executions").data["executions"]) == 1


def test_two_servers_that_are_asked_for_the_same_at_once_start_it_once(api: Api) -> None:
    with Api(api.home) as other, ThreadPoolExecutor(8) as pool:
        for key in ("a", "b", "c"):
            asked = [pool.submit(post, one, {"playbook": DOUBLE}, key) for one in (api, other) * 4]
            found = [one.result() for one in asked]
            assert len({said["execution_id"] for _, said in found}) == 1
            assert sorted(status for status, _ in found) == [200] * 7 + [201]
        for one in (api, other):
            assert len(one.get("/api/executions").data["executions"]) == 3


def test_a_body_that_does_not_come_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_BODY_S", 0.2)
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as line:
        line.sendall(
            b"POST /api/validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %b\r\nContent-Length: 100\r\n\r\n{" % api.owner.encode()
        )
        assert b"408" in line.recv(4096)[:20]


def test_keys_of_different_callers_do_not_meet(api: Api) -> None:
    ann, bob = api.add_token("ann", "author"), api.add_token("bob", "author")
    ids = {
        api.call("POST", "/api/executions", {"playbook": DOUBLE}, token, Idempotency_Key="1").data["execution_id"]
        for token in (ann, bob)
    }
    assert len(ids) == 2
    first = api.call("GET", f"/api/executions/{ids.pop()}/events?limit=1", token=ann).data["events"][0]
    assert first["payload"]["asked"]["by"] in ("ann", "bob")


def test_an_invalid_playbook_is_answered_by_all_its_mistakes(api: Api) -> None:
    answer = api.call("POST", "/api/executions", {"playbook": DOUBLE.replace("kind: noop", "kind: nop, why: 1")})
    assert answer.status == 422
    assert {one["code"] for one in answer.data["diagnostics"]} == {"unknown-kind"}
    assert api.get("/api/executions").data["executions"] == []


def test_a_payload_that_does_not_fit_is_refused_before_anything_runs(api: Api) -> None:
    typed = DOUBLE.replace("{name: double}", "{name: double, schema: {type: object, properties: {n: {type: integer}}}}")
    answer = api.call("POST", "/api/executions", {"playbook": typed, "payload": {"n": "many"}})
    assert (answer.status, [one["name"] for one in answer.data["misfits"]]) == (422, ["workload.n"])


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({}, 400),
        ({"playbook": DOUBLE, "path": "double"}, 400),
        ({"playbook": DOUBLE, "payload": [1]}, 400),
        ({"playbook": DOUBLE, "stray": 1}, 400),
        ({"playbook": 3}, 400),
        ({"path": "nobody/ran/this"}, 404),
        (b"[", 400),
        (b"\xff", 400),
        ({"playbook": DOUBLE, "payload": {"x": "y" * 256_000}}, 413),
        ({"playbook": DOUBLE + "#" * 1_000_000}, 413),
        ({"playbook": DOUBLE, "calls": [{"text": "#" * 1_000_001, "file": "f.yaml", "names": ["f"]}]}, 413),
        (b'{"playbook": "x", "payload": {"a": ' + b"[" * 80 + b"]" * 80 + b"}}", 400),
        (b'{"playbook": "x", "payload": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400),
        (b"x" * 8_000_001, 413),
    ],
    ids=lambda given: str(given)[:60],
)
def test_what_cannot_be_started_is_told(api: Api, wish: Any, status: int) -> None:
    answer = api.call("POST", "/api/executions", wish)
    assert (answer.status, answer.data["status"]) == (status, status)
    assert api.get("/health").status == 200


def test_a_body_that_does_not_say_how_long_it_is_ends_at_the_limit(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as line:
        line.sendall(
            b"POST /api/validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer %b\r\nTransfer-Encoding: chunked\r\n\r\n" % api.owner.encode()
        )
        block = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sent = 0
        try:
            while sent < 1000:
                line.sendall(block)
                sent += 1
        except OSError:
            pass  # it has hung up
        assert b"413" in line.recv(4096)[:20]


def test_compressed_bodies_are_not_unpacked(api: Api) -> None:
    assert api.call("POST", "/api/validate", b"\x1f\x8b" + b"0" * 100, Content_Encoding="gzip").status == 415


def test_playbooks_that_are_called_come_along_and_go_on_to_children(api: Api) -> None:
    calls = [
        {"text": CALLER % "grandchild", "file": "/away/child.yaml", "names": ["child"]},
        {"text": DOUBLE, "file": "/away/double.yaml", "names": ["grandchild", "/away/again"]},
    ]
    found = api.run(CALLER % "child", file="/away/top.yaml", calls=calls)
    assert (found["status"], found["output"]) == ("completed", 6)
    # By its path it is run as it was then, with what it calls.
    again = api.call("POST", "/api/executions", {"path": "caller"}).data["execution_id"]
    assert api.ended(again)["status"] == "completed"


def test_a_name_behind_the_folder_of_its_caller_wins(api: Api) -> None:
    calls = [
        {"text": DOUBLE, "file": "/away/six.yaml", "names": ["it"]},
        {"text": DOUBLE.replace("* 2", "* 3"), "file": "/away/nine.yaml", "names": ["/away/it"]},
    ]
    assert api.run(CALLER % "it", file="/away/top.yaml", calls=calls)["output"] == 9
    assert api.run(CALLER % "it", file="/elsewhere/top.yaml", calls=calls)["output"] == 6


def test_a_called_playbook_with_errors_fails_the_call(api: Api) -> None:
    calls = [{"text": "nonsense", "file": "/away/child.yaml", "names": ["child"]}]
    found = api.run(CALLER % "child", file="/away/top.yaml", calls=calls)
    assert (found["status"], found["error"]["kind"]) == ("failed", "playbook")
