"""How far a long task is, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from noetl.cli.output.progress_lines import TaskProgress
from noetl.model.events import Event


def event(name: str, second: float, **said: Any) -> Event:
    stamp = datetime.fromtimestamp(1_700_000_000 + second, UTC).isoformat()
    return Event(
        event_id="1", execution_id="e", seq=1, timestamp=stamp, source="worker", name=name, entity_type="task",
        entity_id="load.copy", status="in_progress", payload={"progress": said}, step_run_id="load-1",
    )  # fmt: skip


def words(*events: Event) -> str:
    pace = TaskProgress()
    for one in events:
        pace.record("e", one)
    return pace.words(("e", "load-1", None))


def test_rows_come_with_their_rate_and_the_time_that_is_left() -> None:
    told = words(event("task.progress", 0, rows=0, total=1000), event("task.progress", 2, rows=400, total=1000))
    assert told == "400 of 1,000 rows  200/s  3.0 s left"


def test_without_a_total_the_part_of_the_file_tells_what_is_left() -> None:
    told = words(event("task.progress", 0, rows=0, part=0.0), event("task.progress", 10, rows=5000, part=0.25))
    assert told == "5,000 rows (25%)  500/s  30.0 s left"


def test_where_nothing_else_is_known_there_are_rows_and_a_rate() -> None:
    assert words(event("task.progress", 0, rows=0), event("task.progress", 2, rows=100)) == "100 rows  50/s"


def test_a_task_that_is_over_is_forgotten_and_other_words_are_passed_over() -> None:
    assert words(event("task.progress", 0, rows=1), event("task.done", 1)) == ""
    assert words(event("task.progress", 0, page=1)) == ""


def test_the_tasks_of_a_step_are_listed() -> None:
    pace = TaskProgress()
    pace.record("e", event("task.progress", 0, rows=7))
    assert pace.of("e", "load-1") == [("copy", None, "7 rows")]
    assert pace.of("e", "other-1") == []
