"""The facts that a pipeline reports of itself, not yet numbered."""

from __future__ import annotations

from typing import Any

from noetl.model.events import Fact
from noetl.pipeline.frame import Frame


def task_started_fact(frame: Frame, payload: dict[str, Any]) -> Fact:
    """The attempt is about to take effect."""
    frame.number += 1
    return _task_fact(frame, "task.started", payload, "in_progress")


def task_progress_fact(frame: Frame, said: dict[str, Any]) -> Fact:
    """The attempt under way says how far it is."""
    return _task_fact(frame, "task.progress", {"progress": said}, "in_progress")


def task_done_fact(frame: Frame, payload: dict[str, Any]) -> Fact:
    """The attempt has ended."""
    status = "error" if payload["output"]["error"] is not None else "success"
    return _task_fact(frame, "task.done", payload, status)


def _task_fact(frame: Frame, name: str, payload: dict[str, Any], status: str) -> Fact:
    return Fact(
        name,
        frame.run,
        payload,
        status,
        frame.task.name,
        frame.task_run_id,
        frame.iteration,
        frame.attempt,
        frame.number,
    )  # fmt: skip


def pipeline_fact(frame: Frame, name: str, payload: dict[str, Any], status: str = "success") -> Fact:
    """Something about the pipeline as a whole."""
    return Fact(name, frame.run, payload, status, iteration=frame.iteration)
