"""`noetl.client.Client` over a real server: starting, following, acting, and what goes wrong meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers import nobody, peer, plain
from server.http.apiserver import APPROVAL, DOUBLE, Api

from noetl.client import (
    AccessDenied,
    CallInvalid,
    Client,
    ClientError,
    NotFound,
    RequestConflict,
    RequestInvalid,
    ServerUnavailable,
    UnexpectedAnswer,
)
from noetl.client.log import RemoteLog
from noetl.errors import NoetlError, UsageError

LARGE = DOUBLE.replace("double", "large").replace("{{ workload.n * 2 }}", "{{ ['x' * 1000] * 3000 }}")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of the server: clients of its owner find their token there."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NOETL_TOKEN", raising=False)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as server:
        yield server


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    with Client(url_of(api)) as one:
        yield one


def url_of(api: Api) -> str:
    return f"http://127.0.0.1:{api.port}"


def test_a_playbook_is_run_by_its_text_and_again_by_its_path(client: Client) -> None:
    first = client.start(text=DOUBLE, payload={"n": 4})
    assert client.wait(first.execution_id).status == "completed"
    assert client.output(first.execution_id) == 8
    second = client.start("double", {"n": 5})
    assert client.wait(second.execution_id).path == "double"
    assert client.output(second.execution_id) == 10
    assert client.show(second.execution_id)["output"] == 10
    assert [one.execution_id for one in client.executions()] == [second.execution_id, first.execution_id]
    assert [one.execution_id for one in client.executions(limit=1)] == [second.execution_id]


def test_a_run_is_started_once_for_each_key(client: Client) -> None:
    first, again = (client.start(text=DOUBLE, key="order-7") for _ in range(2))
    assert (first.repeated, again.repeated, first.execution_id) == (False, True, again.execution_id)
    with pytest.raises(RequestConflict, match="another request"):
        client.start(text=DOUBLE, payload={"n": 9}, key="order-7")


def test_events_are_followed_until_the_run_is_over(client: Client) -> None:
    run = client.start(text=APPROVAL).execution_id
    names: list[str] = []
    for event in client.follow(run):
        names.append(event.name)
        if event.name == "task.started":
            client.signal(run, "ok", {"by": "ann"})
    assert names[0] == "playbook.execution.requested"
    assert "signal.received" in names
    assert client.status(run).status == "completed"
    assert [event.name for event in client.follow(run)] == names
    assert list(client.follow(run, after=len(names))) == []
    assert [event.name for event in client.events(run).events] == names
    assert client.events(run, after=len(names)).over


def test_a_run_is_paused_and_unpaused_and_cancelled(client: Client) -> None:
    run = client.start(text=APPROVAL).execution_id
    assert client.pause(run).status == "paused"
    assert [one.execution_id for one in client.executions(unfinished=True)] == [run]
    assert client.unpause(run).event == "execution.resumed"
    assert client.cancel(run, "not needed").status == "cancelled"
    with pytest.raises(RequestConflict, match="over"):
        client.pause(run)
    assert client.wait(run).status == "cancelled"


def test_what_is_not_there_and_what_is_wrong_have_errors_of_their_own(client: Client) -> None:
    with pytest.raises(NotFound):
        client.status("nothing")
    with pytest.raises(NotFound):
        next(client.follow("nothing"))
    with pytest.raises(RequestInvalid) as refused:
        client.start(text=DOUBLE.replace("workflow", "workflaw"))
    assert refused.value.problem["diagnostics"]
    for arguments in ({}, {"path": "double", "text": DOUBLE}):
        with pytest.raises(UsageError, match=r"either `path`.* or `text`"):
            client.start(**arguments)
    with pytest.raises(NotFound):
        client.start("never-run")
    with pytest.raises(UsageError, match="does not allow"):
        client.start("double", key="a\r\nb")
    assert issubclass(ClientError, NoetlError)


def test_a_large_output_is_read_by_its_reference(client: Client) -> None:
    run = client.start(text=LARGE).execution_id
    assert client.wait(run).status == "completed"
    with client.open_result(client.output(run)["ref"], start=1, stop=3) as stream:
        lines = b"".join(stream).splitlines()
    assert (stream.content_type, len(lines)) == ("application/x-ndjson", 2)


def test_a_server_that_is_restarted_is_followed_further(tmp_path: Path) -> None:
    api = Api(tmp_path / "home")
    with api:
        client = Client(url_of(api))
        run = client.start(text=APPROVAL).execution_id
        events = client.follow(run)
        seen = [next(events).seq]
    with api:
        after: list[int] = []
        reader = threading.Thread(target=lambda: after.extend(event.seq for event in events))
        reader.start()
        with Client(url_of(api)) as another:
            another.signal(run, "ok")
        reader.join(60)
        assert not reader.is_alive()
        seen += after
        assert seen == list(range(1, client.status(run).seq + 1))
        client.close()


def test_a_server_that_stays_away_ends_the_following(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        client = Client(url_of(api))
        events = client.follow(client.start(text=APPROVAL).execution_id, outage_s=0)
        next(events)
    with pytest.raises(ServerUnavailable):
        list(events)
    client.close()


def test_a_wrong_token_is_told_with_what_to_do(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "other"))
    right = api.add_token("ann", "author")
    with Client(url_of(api), right) as client:
        assert client.executions() == []
    for wrong in ("noetl_wrong", None):
        with Client(url_of(api), wrong) as client, pytest.raises(AccessDenied, match="noetl token add") as refused:
            client.executions()
        assert refused.value.status == 401


def test_the_environment_names_the_server_and_the_token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    token = api.add_token("ann", "author")
    monkeypatch.setenv("NOETL_SERVER", url_of(api))
    monkeypatch.setenv("NOETL_TOKEN", token)
    with Client() as client:
        assert client.executions() == []
        assert client.server == url_of(api)
    monkeypatch.setenv("NOETL_SERVER", "")
    with pytest.raises(UsageError, match="set NOETL_SERVER"):
        Client()


def test_of_several_servers_the_first_that_answers_is_used(api: Api) -> None:
    with nobody() as url, Client(f"{url}, {url_of(api)}") as client:
        assert client.executions() == []
        assert client.server == url_of(api)
        assert client.waits(client.start(text=APPROVAL).execution_id) == []


def test_a_server_behind_a_proxy_is_called_under_its_path() -> None:
    with peer(plain(b'{"executions": []}')) as proxy, Client(f"{proxy.url}/noetl/") as client:
        assert client.executions() == []
        assert proxy.requests[0].startswith(b"GET /noetl/api/executions?")
        assert client.server == f"{proxy.url}/noetl"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/?a=1", "127.0.0.1:1", "http://[x"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(CallInvalid, match="no address") as found:
        Client(url)
    assert isinstance(found.value, ClientError)


@pytest.mark.parametrize(
    "url", ["http://u:s3cret@h:99999", "http://u:s3/cret@h:x", "ftp://u:s3cret@h", "u:s3cret@h", "http://u:s3@cret@[h"]
)
def test_an_address_that_is_refused_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(CallInvalid, match=r"\*\*\*@") as found:
        Client(url)
    assert "s3" not in str(found.value)
    assert "cret@" not in str(found.value)


def test_no_server_at_all_is_an_error_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETL_SERVER", raising=False)
    with pytest.raises(ClientError, match="no server is named"):
        Client()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.start("p", {"a": "caf\udce9"}),
        lambda client: client.start("p", {"a": object()}),
        lambda client: client.start("p", key="a\r\nX: y"),
        lambda client: client.signal("x", "s", object()),
        lambda client: client.status("caf\udce9"),
        lambda client: client.latest_source("caf\udce9"),
        lambda client: client.source("caf\udce9"),
    ],
)
def test_what_cannot_be_sent_is_an_error_of_the_client(call: Callable[[Client], object]) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(CallInvalid):
        call(client)


@pytest.mark.parametrize(
    ("page", "read"),
    [
        (b'{"executions": [], "cursor": "same"}', lambda client: client.executions()),
        (b'{"lines": [], "after": 0, "more": true}', lambda client: client.lines("x")),
    ],
)
def test_pages_without_progress_are_no_answer_of_a_server(page: bytes, read: Callable[[Client], object]) -> None:
    with peer(plain(page)) as other, Client(other.url) as client, pytest.raises(UnexpectedAnswer, match="have no end"):
        read(client)


@pytest.mark.parametrize("body", [b'{"a": "\xff"}', b'{"a": ' + b"[" * 3_000])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_an_answer_that_cannot_be_read_is_an_error_of_the_client(body: bytes, status: str) -> None:
    with peer(plain(body, status)) as other, Client(other.url) as client, pytest.raises(ClientError):
        client.show("x")


def test_escape_sequences_of_a_server_do_not_reach_the_terminal() -> None:
    body = b'{"detail": "bad \\u001b[31mred\\u0007 \\u009b1m"}'
    with peer(plain(body, "400 Bad Request")) as other, Client(other.url) as client:
        with pytest.raises(RequestInvalid) as found:
            client.show("x")
        assert str(found.value) == r"the server: bad \x1b[31mred\x07 \x9b1m"
        assert found.value.detail == r"bad \x1b[31mred\x07 \x9b1m"


def test_something_that_is_no_noetl_server_is_told_as_such() -> None:
    with (
        peer(plain(b"<html>It works!</html>")) as other,
        Client(other.url) as client,
        pytest.raises(UnexpectedAnswer, match="did not answer as a NoETL server"),
    ):
        client.executions()


def test_only_a_stream_of_events_is_followed() -> None:
    page = plain(b"<html>It works!</html>", more="Content-Type: text/html\r\n")
    with peer(page, b"HTTP/1.1 204 No Content\r\n\r\n") as other, Client(other.url) as client:
        with pytest.raises(UnexpectedAnswer, match=r"did not answer as a NoETL server does: .*text/html"):
            list(client.follow("x"))
        assert list(client.follow("x")) == []


def test_a_snapshot_without_a_number_is_no_answer_of_a_server() -> None:
    with (
        peer(plain(b"state", more="noetl-seq: last\r\n")) as other,
        Client(other.url) as client,
        pytest.raises(UnexpectedAnswer, match="did not answer as a NoETL server"),
    ):
        client.snapshot("x")


def test_the_log_of_a_server_reads_like_one_on_this_machine(client: Client) -> None:
    log = RemoteLog(client)
    run = client.start(text=DOUBLE).execution_id
    client.wait(run)
    summary = log.summary(run[:-2])
    assert summary is not None
    assert [event.seq for event in log.read(run, after=1, limit=2)] == [2, 3]
    source = log.source(summary.playbook)
    assert source is not None
    assert (source.text, log.latest("double")) == (DOUBLE, source)
    assert (log.summary("nothing"), log.summary(""), log.source("x"), log.latest("x")) == (None, None, None, None)
    assert (log.under_way([run]), log.lines(run), log.snapshot(run)) == (set(), [], None)
