"""Tests of workers may be coroutines."""

from coroutines import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
