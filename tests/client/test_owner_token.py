"""The token that a server leaves for its owner: who finds it, for which address, and for how long."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from peers import peer, plain
from server.http.apiserver import DOUBLE, Api

from noetl.client import Client, TokenSource
from noetl.client.address import parse_address
from noetl.client.owner_token import (
    OwnerToken,
    find_owner_token,
    loopback_of,
    make_home_private,
    publish_owner_token,
)
from noetl.config import Secret
from noetl.errors import AccessDenied, UsageError

LEFT = OwnerToken("127.0.0.1", 8090, "noetl_owner")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    make_home_private(made)
    return made


def found(home: Path, url: str) -> str | None:
    left = find_owner_token(home, parse_address(url))
    return left.token if left is not None else None


def test_the_file_is_its_owners_alone_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        with publish_owner_token(home, LEFT):
            (file,) = (home / "owner").iterdir()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE((home / "owner").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert list((home / "owner").iterdir()) == []


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("http://127.0.0.1:8090", True),
        ("http://localhost:8090", True),
        ("http://127.0.0.1:8091", False),
        ("http://127.0.0.2:8090", False),
        ("http://[::1]:8090", False),
        ("http://192.0.2.1:8090", False),
        ("http://localhost.evil.example:8090", False),
        ("https://127.0.0.1:8090", False),
        ("http://127.0.0.1:8090/proxied", False),
        ("http://me:pass@127.0.0.1:8090", False),
    ],
)
def test_the_token_is_for_the_address_of_its_server_alone(home: Path, url: str, is_sent: bool) -> None:
    with publish_owner_token(home, LEFT):
        assert found(home, url) == ("noetl_owner" if is_sent else None)


def test_localhost_is_the_address_at_which_the_server_listens_and_no_other(home: Path) -> None:
    """Else somebody else could listen at the other address of that name, and would be sent the token."""
    with publish_owner_token(home, LEFT):
        address, token = TokenSource(None, home).read(parse_address("http://localhost:8090"))
    assert token == Secret("noetl_owner")
    assert (address.host, address.authority) == ("127.0.0.1", "localhost:8090")


def test_a_token_that_was_given_goes_before_the_owners(home: Path) -> None:
    with publish_owner_token(home, LEFT):
        assert TokenSource(Secret("noetl_mine"), home).read(parse_address("http://127.0.0.1:8090"))[1] == Secret(
            "noetl_mine"
        )
        assert TokenSource(None, None).read(parse_address("http://127.0.0.1:8090"))[1] is None


def test_a_server_that_was_killed_leaves_a_token_that_is_sent_to_nobody(home: Path) -> None:
    """Whoever listens at its port then is somebody else."""
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from noetl.client.owner_token import OwnerToken, publish_owner_token\n"
        "with publish_owner_token(Path(sys.argv[1]), OwnerToken('127.0.0.1', 8090, 'noetl_owner')):\n"
        "    print('left', flush=True); signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "left\n"
        assert found(home, "http://127.0.0.1:8090") == "noetl_owner"
        server.kill()
        server.wait()
    assert len(list((home / "owner").iterdir())) == 1
    assert found(home, "http://127.0.0.1:8090") is None


def test_a_server_that_starts_again_takes_the_place_of_what_was_left(home: Path) -> None:
    (home / "owner").mkdir(mode=0o700)
    (home / "owner" / "127.0.0.1_8090.json").write_text('{"host":"127.0.0.1","port":8090,"token":"noetl_old"}')
    assert found(home, "http://127.0.0.1:8090") is None
    with publish_owner_token(home, LEFT):
        assert found(home, "http://127.0.0.1:8090") == "noetl_owner"


def test_several_servers_of_a_home_have_a_token_each(home: Path) -> None:
    other = OwnerToken("::1", 8090, "noetl_other")
    with publish_owner_token(home, LEFT), publish_owner_token(home, other):
        assert found(home, "http://127.0.0.1:8090") == "noetl_owner"
        assert found(home, "http://[::1]:8090") == "noetl_other"


@pytest.mark.parametrize("text", ["", "[", "{}", '{"host": "127.0.0.1", "port": 1, "token": "x"}'])
def test_a_file_that_says_something_else_is_none(home: Path, text: str) -> None:
    with publish_owner_token(home, LEFT):
        (home / "owner" / "127.0.0.1_8090.json").write_text(text)
        assert found(home, "http://127.0.0.1:8090") is None


def test_a_link_in_place_of_the_file_is_not_followed(home: Path, tmp_path: Path) -> None:
    with publish_owner_token(tmp_path_home(tmp_path), LEFT):
        (home / "owner").mkdir()
        (home / "owner" / "127.0.0.1_8090.json").symlink_to(tmp_path / "elsewhere" / "owner" / "127.0.0.1_8090.json")
        assert found(home, "http://127.0.0.1:8090") is None


def tmp_path_home(tmp_path: Path) -> Path:
    make_home_private(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize(
    ("bound", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("127.0.0.9", "127.0.0.9"),
        ("::1", "::1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("192.0.2.1", None),
        ("example.com", None),
    ],
)
def test_a_server_leaves_a_token_for_its_address_of_loopback(bound: str, loopback: str | None) -> None:
    assert loopback_of(bound) == loopback


# --- the home ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o777 & ~0o002])
def test_a_home_that_is_there_is_made_private(tmp_path: Path, mode: int) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(mode)
    make_home_private(tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o702])
def test_a_folder_for_all_users_is_no_home_and_stays_as_it_is(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    with pytest.raises(UsageError, match="a folder for all users"):
        make_home_private(tmp_path / "shared")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == mode


def test_a_folder_of_another_user_is_no_home(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        make_home_private(tmp_path / "theirs")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_this_machine_neither_reads_the_token_nor_is_admitted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Api(tmp_path / "home") as api:
        make_home_private(api.home)
        # What it needs is imported before it becomes somebody else, who may not read the folder of this Python.
        code = (
            "import os, socket, sys; 'x'.encode('idna'); os.setgid(12345); os.setuid(12345)\n"
            "try: os.listdir(sys.argv[1])\n"
            "except PermissionError: print('not read')\n"
            "line = socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
            "line.sendall(b'GET /api/executions HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
            "print(line.recv(100).split()[1].decode())\n"
        )
        command = [sys.executable, "-c", code, str(api.home), str(api.port)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[:2] == ["not read", "401"]


# --- clients -----------------------------------------------------------------------------------------------------------


def test_a_client_goes_on_when_its_server_was_restarted_with_another_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NOETL_TOKEN", raising=False)
    api = Api(tmp_path / "home")
    with api:
        first = api.owner
        client = Client(f"http://localhost:{api.port}")
        execution_id = client.start(text=DOUBLE).execution_id
    with api:
        assert api.owner != first
        assert client.status(execution_id).execution_id == execution_id
    client.close()


def test_a_server_elsewhere_is_sent_no_token_of_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NOETL_TOKEN", raising=False)
    with Api(tmp_path / "home"), peer(plain(b"{}", "401 Unauthorized")) as trap, Client(trap.url) as client:
        with pytest.raises(AccessDenied):
            client.executions()
        assert b"authorization" not in b"".join(trap.requests).lower()
