"""The two rules that a server's dispatcher and a worker's queue share."""

from __future__ import annotations

from noetl.model.orders import RunPipeline


def may_begin(order: RunPipeline, *, paused: bool) -> bool:
    """Whether an order may be carried out now.

    A paused execution begins nothing: the engine orders its pipelines again when it is resumed. Two kinds of order are not
    repeated then, so they pass: one that carries the answer of a suspended task, and one that stores the list of a loop.
    """
    return not paused or order.answer is not None or order.gather is not None


def latest(before: RunPipeline | None, order: RunPipeline) -> RunPipeline:
    """Which of two orders of the same pipeline counts: the later one, unless only the earlier one carries an answer.

    The engine repeats an order when a pause ends, and when a time has come twice. An answer reaches dispatch once.
    """
    return order if before is None or order.answer is not None or before.answer is None else before
