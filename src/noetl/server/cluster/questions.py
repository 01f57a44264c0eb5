"""Questions: what a server asks of its workers, because only they could know."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from noetl.model.wire import CredentialCheck, CredentialCheckResult, ExecutionBrief


class WorkerQuestions:
    """Those that are open; `call` has a worker come who might answer."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._numbers = itertools.count(1)
        self._open: dict[int, CredentialCheck] = {}
        self._asked: dict[int, asyncio.Future[dict[str, Any] | None]] = {}

    async def ask(self, execution_id: str, brief: ExecutionBrief, seconds: float) -> dict[str, Any] | None:
        """What stands in the way of an execution where pipelines are run; None as well if no worker says so in time."""
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._open[number] = CredentialCheck(number, execution_id, brief)
        self._call()
        try:
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            return None
        finally:
            self._asked.pop(number, None)
            self._open.pop(number, None)

    def take(self) -> list[CredentialCheck]:
        """What a worker that is here might answer; each is put to one."""
        found, self._open = list(self._open.values()), {}
        return found

    def on_answer(self, answer: CredentialCheckResult) -> None:
        """Hear what a worker found."""
        waiting = self._asked.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.problem)
