"""The slot loop: asks the store for the slots that pipelines wait for, and returns those that are free."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from noetl.dispatch import Dispatcher, Moves
from noetl.errors import NoetlError
from noetl.model.limits import ASK_AGAIN_S
from noetl.model.output import failure
from noetl.model.wire import Key
from noetl.ports import Slots

#: seconds after which a store that does not answer is asked again
TROUBLE_S = 0.5


class SlotLoop:
    """Runs as long as a pipeline waits for a slot, or holds one that is to be returned."""

    def __init__(self, slots: Slots, dispatcher: Dispatcher, carry_out: Callable[[Moves], None]) -> None:
        self.slots = slots
        self._dispatcher, self._carry_out = dispatcher, carry_out
        self._to_release: set[Key] = set()
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def release(self, key: Key) -> None:
        """Return a slot, as soon as the store takes it."""
        self._to_release.add(key)
        self.nudge()

    def forget(self, execution_id: str) -> None:
        """Leave the slots of an execution to the process that continues it."""
        self._to_release = {key for key in self._to_release if key[0] != execution_id}

    def nudge(self) -> None:
        """Begin the next round now."""
        self._bell.set()
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        """End."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._to_release or self._dispatcher.slots:
                self._bell.clear()
                after = await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(after):
                        await self._bell.wait()
        finally:
            self._task = None

    async def _round(self) -> float:
        """Return slots, then ask for some; the seconds until the next round."""
        try:
            await self._release()
            requests = self._dispatcher.slot_requests()
            answers = await self.slots.take([one.ask for one in requests]) if requests else []
        except NoetlError:
            return TROUBLE_S
        except Exception as error:  # noqa: BLE001  a mistake of ours: no pipeline may wait for ever
            said = f"its limits cannot be told: {type(error).__name__}: {error}"
            self._carry_out(self._dispatcher.refuse_slots(failure("limit", said)))
            return TROUBLE_S
        for request, answer in zip(requests, answers, strict=True):
            self._carry_out(self._dispatcher.answer_slot(request, answer, now=monotonic()))
        if requests and all(answer.verdict != "wait" for answer in answers):
            return 0.0
        return min((one.after for one in answers if one.verdict == "wait"), default=ASK_AGAIN_S)

    async def _release(self) -> None:
        """Return what is free before anything is asked for: a pipeline may ask again for the slot that it returns."""
        free = list(self._to_release)
        if free:
            await self.slots.release(free)
            self._to_release.difference_update(free)
