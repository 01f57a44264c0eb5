"""The one document of a run: what `noetl run --json` prints, and the API answers."""

from __future__ import annotations

from typing import Any

from noetl.model.state import Execution


def document(state: Execution) -> dict[str, Any]:
    """An execution as programs are told of it."""
    steps = {
        name: {"status": info.status, "runs": info.runs} for name, info in state.steps.items() if info.status != ""
    }
    return {
        "execution_id": state.execution_id,
        "status": state.status,
        "output": state.output,
        "ctx": state.ctx,
        "error": state.error,
        "steps": steps,
        "stalled": state.stalled,
        "duration_ms": int(state.took * 1000),
    }
