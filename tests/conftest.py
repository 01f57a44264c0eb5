"""Whatever a test leaves behind in a store must be sound."""

from __future__ import annotations

import atexit
import gc
import os
import time
from collections.abc import Iterator

import hatchery
import pytest
from hypothesis import HealthCheck, settings
from nursery import Nursery
from servers import bucket, database, nats, nats_server, postgres_server, s3_server
from soundness import unsound

__all__ = ["bucket", "database", "nats", "nats_server", "postgres_server", "s3_server"]

# Commands freeze what they have loaded; a process that runs many of them would never let go of what DuckDB wants back.
atexit.register(gc.unfreeze)
hatchery.install()
# How fast a machine makes up examples, and goes through them, says nothing of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_xdist_auto_num_workers() -> int:
    """More processes than there are processors: tests often wait, for a lease to run out or for another process."""
    return PROCESSORS + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that at the end no process waits for another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock does not show UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert time.timezone == 5 * 3600
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts real processes of the command line, at little cost."""
    Nursery.shared = Nursery(tmp_path_factory.mktemp("nursery"))
    yield Nursery.shared
    Nursery.shared.close()
