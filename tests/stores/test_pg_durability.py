"""Events in PostgreSQL are durable when an append returns: no path of an append loosens the commit it waits for."""

from __future__ import annotations

import psycopg
import pytest
from log_contract import events
from servers import Database
from test_inline_append import begun

from noetl.stores.postgres.postgres_log import PostgresLog

#: notes the setting that holds when a transaction with events commits
WITNESS = """
CREATE TABLE public.witness (execution_id text, setting text);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.witness VALUES (NEW.execution_id, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER witness AFTER INSERT ON noetl.event
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note();
"""
#: so many that they are copied
MANY = 100


async def append_on_every_path(log: PostgresLog) -> None:
    """By the thread: few and many. Without it: more of an execution, and the first of another."""
    await log.append(events("few", 1, 2), status="running")
    await log.append(events("many", 1, MANY), status="running", snapshot=b"a snapshot")
    await begun(log, "quick")
    await log.append(events("quick", 3, 4), status="running")
    await log.append(events("quick-opened", 1, 1), status="running")
    await log.append(events("many-more", 1, 3 * MANY), status="running")


@pytest.mark.parametrize("durable", ["on", "remote_apply"])
async def test_every_append_commits_with_the_durability_of_the_server(database: Database, durable: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{database.name}" SET synchronous_commit = {durable}'.encode())
        log = PostgresLog(database.url)
        try:
            connection.execute(WITNESS)
            await log.claim("few")  # claims need not be durable, and must leave no trace in what comes after
            await append_on_every_path(log)
        finally:
            await log.close()
        rows = connection.execute("SELECT execution_id, array_agg(DISTINCT setting) FROM public.witness GROUP BY 1")
        assert dict(rows.fetchall()) == {
            name: [durable] for name in ("few", "many", "quick", "quick-opened", "many-more")
        }
