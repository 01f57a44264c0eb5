"""Fixtures for tests that run tools: a `conftest.py` imports the world and the hook that closes it."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from tool_world import Workshop


@pytest.fixture
def world(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines, each in a loop of its own, and close their world in the same loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def test() -> None:
        try:
            async with asyncio.timeout(300):
                await pyfuncitem.obj(**arguments)
        finally:
            for argument in arguments.values():
                world = getattr(argument, "world", argument)  # something may have one
                if isinstance(world, Workshop):
                    await world.close()

    asyncio.run(test())
    return True
