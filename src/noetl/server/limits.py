"""Limits: a crew before the crew. What may not run yet waits here, until there is a slot for it or its time has come.

A slot is held by a step run, or by an iteration of its loop, until that has ended and its tools are put away. An execution
that is paused gives it back as soon as its pipeline stands still, and waits for one again when it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from noetl.dispatch.limit_keys import ask_of, displaced, has_limits, held_up_by, refused
from noetl.engine.find import pipes
from noetl.errors import NoetlError, TemplateError
from noetl.expr.assign import failure_of
from noetl.model.events import Event
from noetl.model.limits import ASK_AGAIN_S, Answer, Ask
from noetl.model.orders import RunPipeline, StopPipelines
from noetl.model.output import Failure, failure
from noetl.model.requests import Denied
from noetl.model.state import Path, label_of, parse_label
from noetl.model.wire import Key
from noetl.server.service import Hot
from noetl.slots import Slots

#: events behind which a step run, or an iteration, goes on no more
_ENDS = frozenset({"step.done", "step.failed", "step.cancelled", "loop.iteration.done", "loop.iteration.failed"})
#: of those who wait for the same keys, so many ask at once
_AT_ONCE = 32
#: a store that does not answer is asked again after so many seconds
_TROUBLE_S = 0.5
#: so many of those who were told to leave are remembered
_TOLD = 10_000


class Crew(Protocol):
    """Who runs pipelines, see `errands.Crew`."""

    def run(self, hot: Hot, order: RunPipeline) -> None:
        """Run a pipeline."""

    def stop(self, execution_id: str, order: StopPipelines) -> None:
        """End pipelines."""

    def ended(self, hot: Hot) -> None:
        """An execution is over, or has been given up."""

    def under_way(self, key: Key) -> bool:
        """Whether somebody has a pipeline, be it to put its tools away."""


class _Waiter:
    """A pipeline that waits for a slot, or for its time."""

    __slots__ = ("ask", "hot", "number", "order")

    def __init__(self, number: int, hot: Hot, order: RunPipeline, ask: Ask) -> None:
        self.number, self.hot, self.order, self.ask = number, hot, order, ask

    @property
    def keys(self) -> tuple[str | None, str | None]:
        """What it waits for."""
        cap, pace = self.ask.cap, self.ask.pace
        return cap.key if cap is not None else None, pace.key if pace is not None else None


class Limits:
    """A crew. What has no limits is handed on at once."""

    def __init__(self, crew: Crew, slots: Slots | None, deny: Callable[[str, Denied], None]) -> None:
        self._crew, self._slots = crew, slots
        #: tells an execution, wherever it runs, that one of its pipelines may not go on
        self._deny = deny
        self._numbers = itertools.count()
        #: what they wait for → those who do, in the order in which they came
        self._queues: dict[tuple[str | None, str | None], dict[Key, _Waiter]] = {}
        self._waiting: dict[Key, _Waiter] = {}
        #: execution → those of its pipelines that hold slots
        self._held: dict[str, set[Key]] = {}
        #: slots to be given back, once nobody works with them
        self._leaving: set[Key] = set()
        #: of these, those whose tools may take their time
        self._stopped: set[Key] = set()
        #: executions that were seen here; with limits, as they run
        self._met: set[str] = set()
        self._minded: dict[str, Hot] = {}
        self._told: set[Key] = set()
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    # --- the crew ----------------------------------------------------------------------------------------------------

    def run(self, hot: Hot, order: RunPipeline) -> None:
        """Hand a pipeline on, as soon as it may run."""
        key = (hot.id, order.step_run_id, order.iteration)
        if key in self._held.get(hot.id, ()):
            self._crew.run(hot, order)
            return
        try:
            ask = ask_of(hot.net, order, key)
        except TemplateError as error:
            self._refuse(key, failure_of(error))
            return
        if ask is None:
            self._crew.run(hot, order)
        elif self._slots is None:
            self._refuse(key, failure("limit", "limits cannot be kept here: the log has no place for them"))
        else:
            self._minded[hot.id] = hot
            self._enlist(key, hot, order, ask)

    def _enlist(self, key: Key, hot: Hot, order: RunPipeline, ask: Ask) -> None:
        if self._crew.under_way(key):
            # A worker has it, whoever ordered it: it goes on, and its slot is looked after behind it.
            self._crew.run(hot, order)
            if ask.cap is None:
                return
            ask = Ask(ask.holder, ask.cap, sure=True)
        elif hot.state.paused and order.answer is None:
            return  # it is ordered anew
        known = self._waiting.get(key)
        if known is not None:
            known.order = order if order.answer is not None or known.order.answer is None else known.order
            return
        waiter = self._waiting[key] = _Waiter(next(self._numbers), hot, order, ask)
        self._queues.setdefault(waiter.keys, {})[key] = waiter
        self._nudge()

    def stop(self, execution_id: str, order: StopPipelines) -> None:
        """End pipelines, those that wait among them."""
        self._stopped.update(self._leave(execution_id, order.step_run_id, parse_label(order.iteration)))
        self._crew.stop(execution_id, order)

    def ended(self, hot: Hot) -> None:
        """An execution is over; or it is given up, and whoever goes on with it goes on with its slots."""
        self._met.discard(hot.id)
        if self._minded.pop(hot.id, None) is not None:
            for key in [one for one in self._waiting if one[0] == hot.id]:
                self._withdraw(key)
            held = self._held.pop(hot.id, set())
            if not hot.lost:
                self._leaving |= held
                self._stopped |= held
                self._nudge()
        self._crew.ended(hot)

    def under_way(self, key: Key) -> bool:
        """See `Crew`."""
        return self._crew.under_way(key)

    def waits(self, execution_id: str) -> list[str]:
        """What pipelines of an execution wait for here, in words."""
        mine = (one for one in self._waiting.values() if one.hot.id == execution_id and not one.ask.sure)
        found = Counter(f"{one.order.step} waits for {held_up_by(one.ask)}" for one in mine)
        return [said if many == 1 else f"{said}, {many} of its iterations or runs" for said, many in found.items()]

    def close(self) -> None:
        """Hand nothing more on."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    # --- what is heard -------------------------------------------------------------------------------------------------

    def heard(self, hot: Hot, events: tuple[Event, ...]) -> None:
        """Hear what was decided: whose slots are free, and which executions have come from elsewhere."""
        if hot.id not in self._met:
            self._met.add(hot.id)
            if not (events and events[0].seq == 1) and self._slots is not None and has_limits(hot.net):
                self._minded[hot.id] = hot
                task = asyncio.ensure_future(self._inherit(hot, self._slots))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
        if hot.id not in self._minded:
            return
        for event in events:
            if event.name in _ENDS and event.step_run_id is not None:
                self._over(hot.id, event.step_run_id, event.iteration)
        if hot.state.paused:
            for key, waiter in list(self._waiting.items()):
                if key[0] == hot.id and waiter.order.answer is None and not waiter.ask.sure:
                    self._withdraw(key)  # it is ordered anew
            self._nudge()

    def _over(self, execution_id: str, run_id: str, iteration: int | str | None) -> None:
        key = (execution_id, run_id, iteration)
        if iteration is None:
            self._leave(execution_id, run_id, ())
        elif key in self._held.get(execution_id, ()):  # of thousands, not many hold anything
            self._held[execution_id].discard(key)
            self._leaving.add(key)
            self._nudge()
        elif key in self._waiting:
            self._withdraw(key)

    async def _inherit(self, hot: Hot, slots: Slots) -> None:
        """Know what an execution that was taken over holds; what has ended while nobody looked holds nothing."""
        found: list[Key] | None = None
        while found is None and self._minded.get(hot.id) is hot:
            try:
                found = await slots.held(hot.id)
            except NoetlError:
                await asyncio.sleep(_TROUBLE_S)
        if found is None or self._minded.get(hot.id) is not hot:  # it is over, and what it held is swept
            return
        alive = {(hot.id, run.id, label_of(path)) for run in hot.state.runs.values() for path, _ in pipes(run)}
        self._held.setdefault(hot.id, set()).update(key for key in found if key in alive)
        self._leaving.update(key for key in found if key not in alive)
        self._nudge()

    def _leave(self, execution_id: str, run_id: str, path: Path) -> list[Key]:
        """Have the pipelines of a step run, or of an iteration, wait no longer and give back what they hold."""

        def matches(key: Key) -> bool:
            return key[:2] == (execution_id, run_id) and parse_label(key[2])[: len(path)] == path

        if execution_id not in self._minded:
            return []
        for key in [one for one in self._waiting if matches(one)]:
            self._withdraw(key)
        held = self._held.get(execution_id, set())
        gone = [key for key in held if matches(key)]
        if gone:
            held.difference_update(gone)
            self._leaving.update(gone)
            self._nudge()
        return gone

    def _withdraw(self, key: Key) -> None:
        waiter = self._waiting.pop(key)
        queue = self._queues[waiter.keys]
        del queue[key]
        if not queue:
            del self._queues[waiter.keys]

    # --- rounds ------------------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        self._bell.set()
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._mind())

    async def _mind(self) -> None:
        """As long as somebody waits, or holds what is to be given back."""
        try:
            while self._waiting or self._leaving or any(self._halted()):
                self._bell.clear()
                after = await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(after):
                        await self._bell.wait()
        finally:
            self._task = None

    async def _round(self) -> float:
        """Give back, and ask; in how many seconds to do so again."""
        assert self._slots is not None
        try:
            await self._give_back(self._slots)
            batch = self._batch()
            answers = await self._slots.take([one.ask for one in batch]) if batch else []
        except NoetlError:
            return _TROUBLE_S
        except Exception as error:  # noqa: BLE001  a mistake of ours: nobody may wait for ever
            for key in list(self._waiting):
                self._withdraw(key)
                self._refuse(key, failure("limit", f"its limits cannot be told: {type(error).__name__}: {error}"))
            return _TROUBLE_S
        for waiter, answer in zip(batch, answers, strict=True):
            self._answered(waiter, answer)
        if batch and all(answer.verdict != "wait" for answer in answers):
            return 0.0
        if self._leaving or any(self._halted()):
            return ASK_AGAIN_S
        return min((one.after for one in answers if one.verdict == "wait"), default=ASK_AGAIN_S)

    async def _give_back(self, slots: Slots) -> None:
        for key in self._halted():
            self._held[key[0]].discard(key)
            self._leaving.add(key)
        free = [key for key in self._leaving if not (key in self._stopped and self._crew.under_way(key))]
        if free:
            await slots.release(free)
            self._leaving.difference_update(free)
            self._stopped.difference_update(free)

    def _halted(self) -> Iterator[Key]:
        """Those of executions that are paused, of which nothing runs any more: they are ordered anew when it goes on."""
        for execution_id, hot in list(self._minded.items()):
            if hot.state.paused:
                yield from [key for key in self._held.get(execution_id, ()) if not self._crew.under_way(key)]

    def _batch(self) -> list[_Waiter]:
        """Those whose turn it may be, in the order in which they came."""
        firsts = (itertools.islice(queue.values(), _AT_ONCE) for queue in self._queues.values())
        return sorted(itertools.chain.from_iterable(firsts), key=lambda one: one.number)

    def _answered(self, waiter: _Waiter, answer: Answer) -> None:
        key = waiter.ask.holder
        if self._waiting.get(key) is not waiter:
            if answer.verdict == "granted":  # nobody wants it any more
                self._leaving.add(key)
            return
        if answer.verdict == "wait":
            for victim in answer.victims:
                self._tell(victim, waiter)
            return
        self._withdraw(key)
        if answer.verdict == "granted":
            if waiter.ask.cap is not None:
                self._held.setdefault(key[0], set()).add(key)
            if not waiter.ask.sure:
                self._crew.run(waiter.hot, waiter.order)
        else:
            self._refuse(key, refused(waiter.ask) if answer.verdict == "refused" else displaced(waiter.ask.cap))

    def _tell(self, victim: Key, waiter: _Waiter) -> None:
        """Tell one that it has to leave; once from here, though others may have told it before."""
        if victim in self._told:
            return
        if len(self._told) >= _TOLD:
            self._told.clear()
        with contextlib.suppress(
            NoetlError
        ):  # its execution is elsewhere, and cannot be told now: it is asked for again
            self._refuse(victim, displaced(waiter.ask.cap))
            self._told.add(victim)

    def _refuse(self, key: Key, error: Failure) -> None:
        self._deny(key[0], Denied(key[1], key[2], error))
