from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from noetl.services.__main__ import services
from noetl.services.servers import NotStarted


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below pytest's own folder, which a PostgreSQL that root starts cannot enter.
    with TemporaryDirectory(prefix="noetl-services-") as name:
        Path(name).chmod(0o755)
        yield Path(name) / "services"


def test_at_the_next_start_servers_have_the_same_ports_passwords_and_data(folder: Path) -> None:
    with services(folder, nats=True) as first, psycopg.connect(first["PG"]) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS n")
    with services(folder) as again, psycopg.connect(again["PG"]) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (7,)
        assert again == {name: first[name] for name in ("PG", "LAKE")}
    kept = (folder / "services.json").read_text()
    assert first["NATS"].rpartition(":")[2] in kept


def test_passwords_are_in_files_of_their_owner_and_one_starts_them_at_a_time(folder: Path) -> None:
    with services(folder):
        for name in ("services.json", "exports"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        with pytest.raises(NotStarted, match="run already"), services(folder):
            pass


def test_files_that_everybody_could_read_are_their_owners_alone_from_the_next_start_on(folder: Path) -> None:
    folder.mkdir()
    for name in ("services.json", "exports", "exports.new", "services.lock"):
        (folder / name).touch()
        (folder / name).chmod(0o666)
    with (folder / "exports").open() as opened_before, services(folder) as told:
        for name in ("services.json", "exports", "services.lock"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert told["PG"] in (folder / "exports").read_text()
        assert opened_before.read() == ""
    assert not list(folder.glob("*.new"))


def test_a_port_that_is_taken_meanwhile_is_told_and_what_was_started_ends(folder: Path) -> None:
    with services(folder) as told:
        port = int(told["LAKE"].partition("127.0.0.1:")[2].partition('"')[0])
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(NotStarted, match=f"port {port} is taken"), services(folder):
            pass
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(told["PG"])
