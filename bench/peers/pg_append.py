"""The log by itself beside COPY of the same rows into a table of the same shape.

pg_append.py URL    prints events per second: those that `EventLog.append` writes, then those that COPY does
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import psycopg

from noetl.model.events import Event
from noetl.stores.postgres.postgres_log import PostgresLog

EXECUTIONS, APPENDS, EACH = 32, 25, 40
#: rows in a transaction of COPY: as many as all executions append at a time
BATCH = EXECUTIONS * EACH
LIKE = (
    b'CREATE TABLE copied (execution_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, body bytea NOT NULL, '
    b"hash bytea NOT NULL, PRIMARY KEY (execution_id, seq))"
)


def events_of(execution_id: str) -> list[Event]:
    """Events as those of a loop are, whose first opens the execution."""
    made = []
    for seq in range(1, APPENDS * EACH + 1):
        payload: dict[str, Any] = {
            "output": {"status": "ok", "data": seq},
            "attempt": 1,
            "key": f"{execution_id}/{seq}",
        }
        made.append(
            Event(
                execution_id=execution_id,
                seq=seq,
                event_id=f"{execution_id}-{seq}",
                name="task.done",
                timestamp="2026-01-01T00:00:00.000Z",
                source="worker",
                entity_type="task",
                entity_id="each.task",
                status="success",
                payload=payload,
                task_run_id=f"{execution_id}-{seq}",
                step_run_id="each-1",
                iteration=seq,
            )
        )
    return made


async def append_all(url: str, executions: dict[str, list[Event]]) -> float:
    log = PostgresLog(url)

    async def one(events: list[Event]) -> None:
        for at in range(0, len(events), EACH):
            await log.append(events[at : at + EACH], status="running")

    for name in executions:
        await log.claim(name)
    started = time.perf_counter()
    await asyncio.gather(*(one(events) for events in executions.values()))
    took = time.perf_counter() - started
    await log.close()
    return took


def copy_all(url: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(LIKE)
        rows = connection.execute("SELECT execution_id, seq, body, hash FROM noetl.event").fetchall()
        connection.execute("CHECKPOINT")
        started = time.perf_counter()
        for at in range(0, len(rows), BATCH):
            with (
                connection.transaction(),
                connection.cursor() as cursor,
                cursor.copy("COPY copied (execution_id, seq, body, hash) FROM STDIN (FORMAT binary)") as copy,
            ):
                copy.set_types(["text", "int8", "bytea", "bytea"])
                for row in rows[at : at + BATCH]:
                    copy.write_row(row)
        return time.perf_counter() - started


def main() -> None:
    """Measure the one, then the other."""
    executions = {f"execution{number:08}": events_of(f"execution{number:08}") for number in range(EXECUTIONS)}
    count, url = EXECUTIONS * APPENDS * EACH, sys.argv[1]
    print(count / asyncio.run(append_all(url, executions)), count / copy_all(url))


if __name__ == "__main__":
    main()
