"""The older playbooks among the examples run: as they stand with `--legacy`, and migrated without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from both_ways import Scene, both_ways
from test_older_examples_on_servers import EXAMPLES as ON_SERVERS

FOLDER = Path(__file__).parents[2] / "examples" / "legacy"
ORDERS = [{"id": number} for number in range(5)]
#: by name: what the server answers, and what comes of it
EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "branches-and-join": (
        {"/users/5": {"name": "Ann"}, "/users/5/orders": ORDERS},
        {"output": {"name": "Ann", "orders": 5}},
    ),
    "chunks-to-duckdb": (
        {"/orders": {"data": {"orders": ORDERS}}},
        {"files": {"orders.duckdb": {"orders": ORDERS}}, "ctx": {"answer": {"data": {"orders": ORDERS}}}},
    ),
    "loop-and-eval": ({"/weather/Oslo": {"degrees": 4}, "/weather/Porto": {"degrees": 19}}, {}),
    "v10-retry": ({"/weather": {"degrees": 4}}, {"ctx": {"degrees": 4}}),
}


def test_every_older_example_is_run_here_or_on_servers() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == EXAMPLES.keys() | ON_SERVERS.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_older_example_runs_as_it_stands_and_migrated_with_the_same_outcome(name: str, tmp_path: Path) -> None:
    answers, expected = EXAMPLES[name]
    # The first request of each is turned away where the playbook tries again.
    late = [{"status": 503, "json": {}}] if name in ("loop-and-eval", "v10-retry") else []
    routes = [{"path": path, "replies": [*late, {"json": answer}]} for path, answer in answers.items()]
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").replace("delay: 1", "delay: 0.01")
    found = both_ways(text, tmp_path, Scene(routes))
    assert found.status == "completed", found.error
    assert len(found.requests) == len(answers) * (1 + len(late))
    for part, value in expected.items():
        assert getattr(found, part) == value
