"""An execution that nobody runs: requests take effect in its log, and nothing is carried out.

What was ordered meanwhile follows from the log again when somebody resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.engine import NetIndex
from noetl.history import state_at
from noetl.model.events import Event
from noetl.model.net import Net, Planner
from noetl.model.orders import Order, StopChild
from noetl.model.requests import Request
from noetl.ports import EventLog
from noetl.server.core.service import ExecutionService, LiveExecution


class _NullReceiver:
    """Carries out nothing, but knows which children were to end."""

    def __init__(self) -> None:
        self.children: list[str] = []

    def on_events(self, _live: LiveExecution, _events: tuple[Event, ...]) -> None:
        """Nothing was given."""

    def give(self, _live: LiveExecution, orders: Iterable[Order]) -> None:
        self.children += [order.execution_id for order in orders if isinstance(order, StopChild)]

    def on_end(self, _live: LiveExecution) -> None:
        """Nothing was kept."""


async def apply_request(
    log: EventLog,
    execution_id: str,
    net: Net,
    request: Request,
    planner: Planner,
    *,
    clock: Callable[[], float],
    new_id: Callable[[], str],
) -> list[str]:
    """Record what follows from a request to an execution that this process has claimed; the children to end as well."""
    nobody = _NullReceiver()
    service = ExecutionService(log, nobody, planner, clock=clock, new_id=new_id)
    state = state_at(log, execution_id)
    service.live[execution_id] = LiveExecution(state, NetIndex(net, planner).of(state))
    await service.record(execution_id, [request])
    return nobody.children
