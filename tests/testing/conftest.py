"""Benches for trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from suite_folder import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Callable[[str], Bench]:
    """Makes a folder with a playbook of these steps."""
    return lambda steps: Bench(tmp_path, steps)
