"""The same work in DBOS on PostgreSQL, the peer of a cluster.

dbos_cluster.py chain|queue|many|work N URL    prints items per second; `work` only takes from the queue, until it is ended
"""

from __future__ import annotations

import logging
import signal
import sys
import time

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found]

logging.disable(logging.CRITICAL)
MODE, COUNT, URL = sys.argv[1], int(sys.argv[2]), sys.argv[3]
DBOS(config={"name": "bench", "system_database_url": URL, "run_admin_server": False, "application_version": "1"})


@DBOS.step()
def step(value: int) -> int:
    return value


@DBOS.workflow()
def chain(count: int) -> int:
    for value in range(count):
        step(value)
    return count


@DBOS.workflow()
def item(value: int) -> int:
    return step(value)


def queue(count: int) -> None:
    handles = [DBOS.enqueue_workflow("items", item, value) for value in range(count)]
    assert sum(handle.get_result(polling_interval_sec=0.05) for handle in handles) == sum(range(count))


def many(count: int) -> None:
    handles = [DBOS.start_workflow(chain, 5) for _ in range(count)]
    for handle in handles:
        handle.get_result()


DBOS.launch()
DBOS.register_queue("items", worker_concurrency=8, polling_interval_sec=0.1)
if MODE == "work":
    print("ready", flush=True)
    signal.pause()
with SetWorkflowID(f"warm-{time.time()}"):
    chain(2)
started = time.perf_counter()
if MODE == "queue":
    queue(COUNT)
elif MODE == "many":
    many(COUNT)
else:
    chain(COUNT)
print(COUNT / (time.perf_counter() - started), flush=True)
DBOS.destroy()
