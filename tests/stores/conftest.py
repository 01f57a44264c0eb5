"""Tests of stores may be coroutines, and every log keeps the contract of tests/ports."""

import sys
from pathlib import Path

from coroutines import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]

sys.path.insert(0, str(Path(__file__).parents[1] / "ports"))
