"""Tests of secrets may be coroutines, and have stand-ins for the services that hand them out."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from secrets_desk import Desk


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines, each in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def test() -> None:
        async with asyncio.timeout(300):
            await pyfuncitem.obj(**arguments)

    asyncio.run(test())
    return True


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
