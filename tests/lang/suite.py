"""The conformance cases with a playbook of their own, read once for all who go through them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parents[1] / "conformance" / "cases"


@cache
def cases() -> dict[str, dict[str, Any]]:
    """By area and name."""
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # each process of tests reads all of them
    found = {
        f"{path.parent.name}/{path.stem}": yaml.load(path.read_text(encoding="utf-8"), quick)
        for path in sorted(CASES.rglob("*.yaml"))
    }
    return {name: case for name, case in found.items() if isinstance(case.get("playbook"), str)}


PLAYBOOKS = [case["playbook"] for case in cases().values()]
