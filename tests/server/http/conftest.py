"""A server with an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as server:
        yield server
