"""What holds for all tests: none leaves a process or an unsound store behind, and in CI none is skipped for want of a program."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator

import host_forkserver
import pytest
from forkserver import ForkServer
from hypothesis import HealthCheck, settings
from servers import bucket, database, database_pool, nats, nats_server, postgres_server, s3_server
from skips import pytest_make_collect_report, pytest_runtest_makereport
from soundness import unsound
from supervisor import supervise

__all__ = [
    "bucket",
    "database",
    "database_pool",
    "nats",
    "nats_server",
    "postgres_server",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "s3_server",
]

supervise()
# A test that names no NOETL_HOME must not record its runs among those of whoever runs it.
os.environ["HOME"] = tempfile.mkdtemp(prefix="noetl-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
# Commands freeze what they have loaded; a process that runs many of them would never let go of what DuckDB wants back.
atexit.register(gc.unfreeze)
host_forkserver.install()
# How fast a machine makes up examples, and goes through them, says nothing of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: tests often wait, for a lease to run out or for another process.

    Each further one costs more, in imports and in servers of its own, than the waiting it fills.
    """
    return PROCESSORS + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests themselves, a million objects that stay to the end, out of every garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


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
def forkserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Start real processes of the command line at little cost."""
    ForkServer.shared = ForkServer(tmp_path_factory.mktemp("forkserver"))
    yield ForkServer.shared
    ForkServer.shared.close()
