"""Tables of PostgreSQL that transfers make."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from servers import Database

from noetl.drivers.datahost.host import DataHostFailed
from noetl.tools.transfer.postgres_copy import PgClient
from noetl.tools.transfer.targets.postgres_tables import make
from noetl.tools.transfer.targets.postgres_target import Markers


def test_many_who_make_the_same_table_at_once_do_not_get_in_each_others_way(database: Database) -> None:
    clients = [PgClient({"connect": {"conninfo": database.url}, "auth": "db"}) for _ in range(8)]
    try:
        for round_ in range(10):
            with ThreadPoolExecutor(len(clients)) as pool:
                list(pool.map(lambda it, n=round_: make(it, "sales", f"t{n}", {"id": "bigint"}, ["id"]), clients))  # type: ignore[misc]
    finally:
        for client in clients:
            client.close()


def test_of_two_who_begin_the_same_transfer_one_is_told(database: Database) -> None:
    client = PgClient({"connect": {"conninfo": database.url}, "auth": "db"})
    try:
        markers = Markers("public", "one")
        assert markers.read(client) is None
        markers.begin(client, 0, 0)
        with pytest.raises(DataHostFailed, match="another attempt"):
            markers.begin(client, 0, 0)
    finally:
        client.close()
