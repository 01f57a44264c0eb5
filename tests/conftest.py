"""Whatever a test leaves behind in a store must be sound."""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
from collections.abc import Iterator

import hatchery
import pytest
from nursery import Nursery
from servers import bucket, database, nats, nats_server, postgres_server, s3_server
from soundness import unsound

__all__ = ["bucket", "database", "nats", "nats_server", "postgres_server", "s3_server"]

# Commands freeze what they have loaded; a process that runs many of them would never let go of what DuckDB wants back.
atexit.register(gc.unfreeze)
hatchery.install()


PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_xdist_auto_num_workers() -> int:
    """More processes than there are processors: tests often wait, for a lease to run out or for another process."""
    return PROCESSORS + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is held to a time and what takes longest, so that at the end no process waits for another."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("timed", "slow")])


@pytest.fixture(autouse=True)
def calm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """While a test runs that is held to a time, there are no more processes of tests than processors."""
    timed = request.node.get_closest_marker("timed") is not None
    surplus = worker_id != "master" and int(worker_id.removeprefix("gw")) >= PROCESSORS
    if not timed and not surplus:
        yield
        return
    common = tmp_path_factory.getbasetemp().parent if worker_id != "master" else tmp_path_factory.getbasetemp()
    with (common / "calm.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if timed else fcntl.LOCK_SH)
        if not timed:
            fcntl.flock(file, fcntl.LOCK_UN)
        yield


@pytest.fixture(autouse=True)
def stores_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the stores under a test's folder, unless the test damages them on purpose."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    # The store's own tests write events that no engine made.
    exempt = request.node.get_closest_marker("damages") is not None or "stores" in request.node.path.parts
    if folder is None or exempt:
        return
    for store in folder.rglob("noetl.db"):
        assert unsound(store) == []


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts real processes of the command line, at little cost."""
    Nursery.shared = Nursery(tmp_path_factory.mktemp("nursery"))
    yield Nursery.shared
    Nursery.shared.close()
