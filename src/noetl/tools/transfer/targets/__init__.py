"""Targets, in the data host: each takes chunks, knows which it has, and can be taken up again after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.tools.transfer.targets.target import Surroundings, Target


def target_of(given: Mapping[str, Any], around: Surroundings) -> Target:
    """The target of a configuration."""
    if given["kind"] == "duckdb":
        from noetl.tools.transfer.targets.table import Table

        return Table(given, around)
    if given["kind"] == "postgres":
        from noetl.tools.transfer.targets.postgres import Postgres

        return Postgres(given, around)
    if given["kind"] == "http":
        from noetl.tools.transfer.targets.requests import Requests

        return Requests(given, around)
    if given["kind"] == "s3":
        from noetl.tools.transfer.targets.objects import Objects

        return Objects(given, around)
    from noetl.tools.transfer.targets.files import Files

    return Files(given, around)
