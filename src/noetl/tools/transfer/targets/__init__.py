"""Targets, in the data host: each takes chunks, knows which it has, and can be taken up again after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.tools.transfer.targets.target import Target, TargetContext


def target_of(given: Mapping[str, Any], around: TargetContext) -> Target:
    """The target of a configuration."""
    if given["kind"] == "duckdb":
        from noetl.tools.transfer.targets.duckdb_target import TableTarget

        return TableTarget(given, around)
    if given["kind"] == "postgres":
        from noetl.tools.transfer.targets.postgres_target import PostgresTarget

        return PostgresTarget(given, around)
    if given["kind"] == "http":
        from noetl.tools.transfer.targets.request_target import RequestTarget

        return RequestTarget(given, around)
    if given["kind"] == "s3":
        from noetl.tools.transfer.targets.object_target import ObjectTarget

        return ObjectTarget(given, around)
    from noetl.tools.transfer.targets.file_target import FileTarget

    return FileTarget(given, around)
