"""The line that an event is told in."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.cli.commands.inspect.events import detail
from noetl.model.events import Event


@pytest.mark.parametrize(("data", "told"), [(0, "0"), (False, "false"), (7, "7"), (None, ""), ([], ""), ("", "")])
def test_what_a_task_yielded_is_told_even_if_it_is_nothing_much(data: Any, told: str) -> None:
    output = {"status": "ok", "data": data, "error": None}
    event = Event(
        "e", "x", 1, "2026-01-01T00:00:00+00:00", "worker", "task.done", "task", "a.b", "success", {"output": output}
    )
    assert detail(event) == told
