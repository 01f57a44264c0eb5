"""The same work in DBOS on SQLite, the fastest embedded peer.

dbos_peer.py chain|fan|many|cold N FILE    prints items per second
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from dbos import DBOS  # type: ignore[import-not-found]

logging.disable(logging.CRITICAL)
MODE, COUNT, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{FILE}", "run_admin_server": False})


@DBOS.step()
def step(value: int) -> int:
    return value


@DBOS.step()
async def async_step(value: int) -> int:
    return value


@DBOS.workflow()
def chain(count: int) -> int:
    for value in range(count):
        step(value)
    return count


@DBOS.workflow()
async def fan(count: int) -> int:
    return sum(await asyncio.gather(*[async_step(value) for value in range(count)]))


def many(count: int) -> None:
    handles = [DBOS.start_workflow(chain, 5) for _ in range(count)]
    for handle in handles:
        handle.get_result()


DBOS.launch()
started = time.perf_counter()
if MODE == "fan":
    assert asyncio.run(fan(COUNT)) == sum(range(COUNT))
elif MODE == "many":
    many(COUNT)
else:
    chain(COUNT)
print(COUNT / (time.perf_counter() - started), flush=True)
DBOS.destroy()
