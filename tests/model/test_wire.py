"""What servers and workers say to each other: nothing twice that is the same for many."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.model.orders import RunPipeline
from noetl.model.wire import ServerReply, WorkAssignment, decode_reply, encode, restore_shared, strip_shared

WORKLOAD: dict[str, Any] = {"items": list(range(100))}


def _assignments(ctx: dict[str, Any], count: int, execution_id: str = "e") -> list[WorkAssignment]:
    return [
        WorkAssignment(
            execution_id,
            RunPipeline("each-1", "each", n, {"workload": WORKLOAD, "ctx": ctx, "iter": {"i": n, "index": n}}),
            f"f-{n}",
        )
        for n in range(count)
    ]


def test_what_is_lightened_and_completed_again_is_as_it_was() -> None:
    given = [*_assignments({"a": 1}, 3), *_assignments({"b": 2}, 1, "other")]
    light, shared = strip_shared(given, {"e": WORKLOAD, "other": WORKLOAD})
    reply = decode_reply(encode(ServerReply(assignments=light, shared=shared)))
    completed = [
        msgspec.structs.replace(one, order=restore_shared(one.order, reply.shared.get(one.execution_id, {}), WORKLOAD))
        for one in reply.assignments
    ]
    assert completed == given


def test_the_scopes_of_many_orders_are_sent_once() -> None:
    ctx = {"large": "x" * 10_000}
    few, many = (
        len(encode(ServerReply(assignments=light, shared=shared)))
        for light, shared in (strip_shared(_assignments(ctx, n), {"e": WORKLOAD}) for n in (2, 100))
    )
    assert many < few + 98 * 300


def test_scopes_that_differ_stay_with_their_orders() -> None:
    """Two values may be equal and still be two: only what is one object is said once."""
    given = _assignments({"a": 1}, 1) + _assignments({"a": 1}, 1)
    light, shared = strip_shared(given, {"e": WORKLOAD})
    assert shared == {}
    assert [one.order.scopes["ctx"] for one in light] == [{"a": 1}, {"a": 1}]


def test_a_workload_that_is_not_the_briefs_is_sent() -> None:
    other = {"items": [1]}
    given = _assignments({}, 2)
    light, shared = strip_shared(given, {"e": other})
    assert shared["e"]["workload"] is WORKLOAD
    assert [restore_shared(one.order, shared["e"], other) for one in light] == [one.order for one in given]
