"""Tests of drivers may be coroutines, and run tools that use them."""

from tool_fixtures import pytest_pyfunc_call, world

__all__ = ["pytest_pyfunc_call", "world"]
