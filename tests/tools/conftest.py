"""Tests of tools are coroutines, and have a world and a database."""

from __future__ import annotations

import pytest
from databases import Db
from servers import Database
from tool_fixtures import pytest_pyfunc_call, world
from tool_world import Workshop

__all__ = ["db", "pytest_pyfunc_call", "world"]


@pytest.fixture
def db(world: Workshop, database: Database) -> Db:
    return Db(world, database)
