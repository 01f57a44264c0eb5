"""Tests of secrets may be coroutines, and have stand-ins for the services that hand them out."""

from __future__ import annotations

from pathlib import Path

import pytest
from coroutines import pytest_pyfunc_call
from credential_home import Desk

__all__ = ["desk", "pytest_pyfunc_call"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
