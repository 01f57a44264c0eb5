"""Tests that are coroutines: a `conftest.py` that imports the hook runs those of its folder."""

from __future__ import annotations

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own. The limit only ends a test that hangs."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def test() -> None:
        async with asyncio.timeout(300):
            await pyfuncitem.obj(**arguments)

    asyncio.run(test())
    return True
