"""Depot: what a worker process holds, from which servers, and what it tells them. The office of its workshop.

Everything here is lost with the process, and nothing is lost by that: the log knows how far each pipeline was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.errors import NoetlError, in_words
from noetl.model.events import Event, Fact
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.wire import Answer, Brief, Held, Key, Message, Question, Reply, Report, Written, complete
from noetl.ports import Line, Source
from noetl.worker.holding import Holding, Pace, Remote, Remotes, Sources
from noetl.worker.link import LONGEST_PAUSE_S, PAUSE_S, Link, Outbox, Refused

if TYPE_CHECKING:
    from noetl.worker.local import Workshop

#: seconds that a server may keep a question until there is something to do; and if there is no room now, but may be soon
_WAIT_S, _FULL_WAIT_S = 20.0, 1.0
#: seconds that a pipeline which has to run alone waits for those that run already
_ALONE_S = 10.0
#: seconds that servers are given at the end
_FAREWELL_S = 2.0
_REJECTED = "no server takes its report, which is too large"
#: pipelines that are begun in one turn of the event loop
_AT_ONCE = 32


class Depot:
    """The pipelines of this worker."""

    def __init__(
        self,
        links: Sequence[Link],
        shop: Workshop,
        net_of: Callable[[Source, Sequence[dict[str, Any]]], Net],
        child_id: Callable[[], str],
        *,
        name: str,
        pools: Sequence[str],
        slots: int,
    ) -> None:
        self.links, self.shop = list(links), shop
        self._net_of, self.child_id = net_of, child_id
        self.name, self.pools, self.slots = name, list(pools), slots
        self.outboxes = {link: Outbox(link, partial(self._message, link), self.heard) for link in links}
        self.held: dict[Key, Holding] = {}
        self._queue: deque[Holding] = deque()
        self._running = 0
        self._pumping = False
        #: what may have killed other workers, and has this one for itself
        self._alone: Holding | None = None
        self.remotes, self.sources = Remotes(), Sources()
        self.draining = False
        self._pace = Pace()
        self._tasks: set[asyncio.Future[Any]] = set()
        #: set whenever a pipeline is put away; and while there is none
        self.freed, self.quiet = asyncio.Event(), asyncio.Event()
        self.quiet.set()
        #: answers a question of a server
        self.answer: Callable[[Link, Question], Awaitable[None]]
        #: called when a server says that this worker is taken for dead
        self.on_lost: Callable[[], None] = lambda: None

    # --- asking for more ---------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """For how many more pipelines there is room; short ones are fetched before there is."""
        return max(0, self._most - len(self.held))

    @property
    def _most(self) -> int:
        if self.draining or self._alone is not None:
            return 0
        return self.slots + self._pace.ahead(self.slots)

    def _room_of(self, link: Link) -> int:
        """How many pipelines of one server there may be, those of the others given."""
        elsewhere = sum(1 for one in self.held.values() if one.link is not link) if len(self.links) > 1 else 0
        return max(0, self._most - elsewhere)

    def _message(self, link: Link, reports: list[Report], lines: list[Written], answers: list[Answer]) -> Message:
        return Message(self.name, reports, lines, answers, self.pools, self._room_of(link))

    async def poll(self, link: Link) -> None:
        """Ask a server for work, again and again."""
        pause = PAUSE_S
        while not self.draining:
            try:
                room = self._room_of(link)
                wait = _WAIT_S if room else _FULL_WAIT_S
                reply = await link.exchange(Message(self.name, pools=self.pools, room=room, wait=wait))
                pause = PAUSE_S
            except Refused:
                raise
            except NoetlError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            if self.heard(link, reply):
                await asyncio.sleep(PAUSE_S)

    async def ask(self, link: Link) -> None:
        """Ask a server once, because somebody said that there is something."""
        with contextlib.suppress(NoetlError):
            self.heard(link, await link.exchange(Message(self.name, pools=self.pools, room=self._room_of(link))))

    # --- what servers say --------------------------------------------------------------------------------------------

    def heard(self, link: Link, reply: Reply) -> bool:
        """Do what a server says; whether it does not know this worker."""
        for key in reply.stops:
            self.drop(key)
        self.remotes.hear((one.execution_id for one in reply.assignments), reply.paused)
        for assignment in reply.assignments:
            name = assignment.execution_id
            self._take(Holding(link, assignment, reply.briefs.get(name), reply.shared.get(name, {})))
        for execution_id in reply.ended:
            self._end(execution_id)
        for question in reply.questions:
            self.later(self.answer(link, question))
        if reply.lost:
            self.on_lost()
        self._pump()
        return reply.lost

    def _take(self, holding: Holding) -> None:
        self.quiet.clear()
        key = holding.assignment.key
        before = self.held.get(key)
        if before is not None:
            before.following = holding
            return
        self.held[key] = holding
        if holding.assignment.alone and self._alone is None:
            self._alone = holding
            self._return_queue()
            self.later(self._run_alone(holding))
        elif self._alone is not None:
            self._give_back(holding)
        else:
            self._queue.append(holding)

    async def _run_alone(self, holding: Holding) -> None:
        """Run a pipeline when everything else has ended or was given back; should it kill this worker, it takes nobody along."""
        until = asyncio.get_running_loop().time() + _ALONE_S
        while self._running and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  rare, and short
            await asyncio.sleep(PAUSE_S)
        await self._said_all(_ALONE_S)
        if self.held.get(holding.assignment.key) is holding:
            self._start(holding)

    def _return_queue(self) -> None:
        """Give back what has not begun."""
        for holding in [*self._queue]:
            self._give_back(holding)
        self._queue.clear()

    async def _said_all(self, seconds: float) -> None:
        """Wait until servers know what they were told, for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(box.idle.wait() for box in self.outboxes.values())), seconds)

    def _pump(self) -> None:
        if self._pumping:  # what ends at once makes room, and would begin the next inside of itself
            return
        self._pumping = True
        try:
            self._pump_some()
        finally:
            self._pumping = False
        if self._queue and self._running < self.slots:
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump_some(self) -> None:
        """Begin what there are slots for; of what ends at once no more than some, so that reports go out meanwhile."""
        most = _AT_ONCE
        while self._queue and self._running < self.slots and most > 0:
            most -= 1
            holding = self._queue.popleft()
            if self.held.get(holding.assignment.key) is holding:
                self._start(holding)

    def _start(self, holding: Holding) -> None:
        self._running += 1
        holding.begun = asyncio.get_running_loop().time()
        self._begin(holding)

    def _begin(self, holding: Holding) -> None:
        remote, brief = self.remotes.get(holding.assignment.execution_id), holding.brief
        if remote is not None and remote.covers(brief):
            self._run(holding, remote)
        elif brief is not None:
            self.later(self._prepare(holding, brief))
        else:  # the server is mistaken in what is known here, and will know better
            self._give_back(holding)

    async def _prepare(self, holding: Holding, brief: Brief) -> None:
        key = holding.assignment.key
        try:
            net = self._net_of(await self.sources.fetched(holding.link, brief.playbook), brief.synthesized)
        except Exception as error:  # noqa: BLE001  whatever it is, the server must hear of it
            self.broken(key, error)
            return
        if self.held.get(key) is holding:
            self._run(holding, self.remotes.made(key[0], net, brief))

    def _run(self, holding: Holding, remote: Remote) -> None:
        order = holding.assignment.order
        if remote.state.paused and order.answer is None and order.gather is None:
            self._give_back(holding)  # it was paused before this began, and is handed out anew when it goes on
            self._pump()
        else:
            self.shop.run(remote, complete(order, holding.shared, remote.brief.workload))

    def _end(self, execution_id: str) -> None:
        if any(key[0] == execution_id and (one.following or not one.said_last) for key, one in self.held.items()):
            return  # another server goes on with it, and has given more of it meanwhile
        if self.remotes.forget(execution_id) is not None:
            for key in list(self.shop.tasks.get(execution_id, ())):
                self.shop.stop(key)
            self.shop.forget(execution_id)

    # --- letting go --------------------------------------------------------------------------------------------------

    def drop(self, key: Key, *, refused: bool = False) -> None:
        """Let go of a pipeline that is no longer this worker's. One that was refused may have been given to it anew."""
        holding = self.held.get(key)
        if holding is None:
            return
        holding.said_last = True
        if not refused:
            holding.following = None
        if holding.begun is not None and self.shop.is_running(key):
            self.shop.stop(key)  # it is put away when its tools have ended
        else:
            self._put_away(holding)

    def lose(self, name: str) -> None:
        """Everything is others' by now: end it, and begin anew under another name."""
        for key in list(self.held):
            self.drop(key)
        for execution_id in list(self.remotes):
            self._end(execution_id)
        self.name = name

    async def drain(self, grace_s: float) -> None:
        """Take nothing more; give back what has not begun, finish what has, and what takes too long goes back too."""
        self.draining = True
        self._return_queue()
        with contextlib.suppress(TimeoutError):  # servers that had a question of it waiting would give it more
            await asyncio.wait_for(asyncio.gather(*map(self.ask, self.links)), _FAREWELL_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.quiet.wait(), grace_s)
        for holding in list(self.held.values()):
            key = holding.assignment.key
            holding.said_last = True  # else its end here would be told as that of the pipeline
            self.shop.stop(key)
            await self.shop.stopped(key)
            self._give_back(holding)
        await self._said_all(max(grace_s, _FAREWELL_S))

    def _give_back(self, holding: Holding) -> None:
        self.outboxes[holding.link].add(holding.report(returned=True))
        holding.said_last = True
        self._forget(holding)

    def _forget(self, holding: Holding) -> None:
        key = holding.assignment.key
        if self.held.get(key) is not holding:
            return
        del self.held[key]
        self.freed.set()
        if self._alone is holding:
            self._alone = None
            for link in [] if self.draining else self.links:  # all of them were told that there is no room
                self.later(self.ask(link))
        if holding.begun is not None:
            self._running -= 1
            begun, holding.begun = holding.begun, None
            self._pace.took(asyncio.get_running_loop().time() - begun)
        if not self.held:
            self.quiet.set()

    # --- the office of the workshop ----------------------------------------------------------------------------------

    async def report(self, execution_id: str, facts: list[Fact], *, last: bool) -> None:
        """Tell facts; returns when they are durable. Whoever is refused is stopped here, and never returns."""
        holding = self.held.get((execution_id, facts[0].step_run_id, facts[0].iteration))
        if holding is None:
            raise asyncio.CancelledError
        pause = PAUSE_S
        while (fate := await self.outboxes[holding.link].add(holding.report(facts=facts, last=last))) == "again":
            self._turn_to_another(holding)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        if fate == "rejected":
            raise NoetlError(_REJECTED)
        if fate == "refused":
            self.drop(holding.assignment.key, refused=True)
            await asyncio.sleep(0)  # the stop arrives here
            raise asyncio.CancelledError
        holding.said_last = holding.said_last or last

    def post(self, execution_id: str, facts: list[Fact]) -> None:
        """Tell the last facts of a pipeline, without anybody waiting."""
        holding = self.held.get((execution_id, facts[0].step_run_id, facts[0].iteration))
        if holding is not None:
            holding.said_last = True
            told = self.outboxes[holding.link].add(holding.report(facts=facts, last=True))
            told.add_done_callback(lambda it: self._posted(holding, facts, it))

    def _posted(self, holding: Holding, facts: list[Fact], told: asyncio.Future[str]) -> None:
        if not told.cancelled() and told.result() == "again":
            self.later(self._post_again(holding, facts))
        elif not told.cancelled() and told.result() == "rejected":
            self.outboxes[holding.link].add(holding.report(broken=_REJECTED))

    async def _post_again(self, holding: Holding, facts: list[Fact]) -> None:
        key = holding.assignment.key
        if self.held.setdefault(key, holding) is holding:
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await self.report(key[0], facts, last=True)
                self._forget(holding)
            except NoetlError as error:
                self.broken(key, error)

    def done(self, key: Key) -> None:
        """A pipeline is not under way here any more."""
        holding = self.held.get(key)
        if holding is None:
            return
        if holding.said_last:
            self._put_away(holding)
        else:
            self.later(self._say_last(holding))

    async def _say_last(self, holding: Holding) -> None:
        fate = "again"
        while fate == "again" and self.held.get(holding.assignment.key) is holding:
            fate = await self.outboxes[holding.link].add(holding.report(last=True))
            if fate == "again":
                self._turn_to_another(holding)
                await asyncio.sleep(LONGEST_PAUSE_S)
        self._put_away(holding)

    def _turn_to_another(self, holding: Holding) -> None:
        """A server is gone, or has not got the execution: the next one may."""
        at = self.links.index(holding.link)
        holding.link = self.links[(at + 1) % len(self.links)]

    def _put_away(self, holding: Holding) -> None:
        self._forget(holding)
        if holding.following is not None:
            self._take(holding.following)
        self._pump()

    def recorded(self, execution_id: str, order: RunPipeline) -> list[Event]:
        """What the log has of a pipeline: it came with it."""
        holding = self.held.get((execution_id, order.step_run_id, order.iteration))
        return holding.assignment.recorded if holding is not None else []

    def broken(self, key: Key, error: BaseException) -> None:
        """A pipeline broke in a way that no fact tells: it is for the server to say what follows."""
        holding = self.held.get(key)
        if holding is not None:
            self.outboxes[holding.link].add(holding.report(broken=in_words(error)))
            holding.said_last = True
            self._put_away(holding)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def write(self, execution_id: str, line: Line) -> None:
        """Tell a line that a tool wrote."""
        link = next((one.link for key, one in self.held.items() if key[0] == execution_id), self.links[0])
        self.outboxes[link].write(Written(execution_id, msgspec.to_builtins(line)))

    def holding(self) -> list[Held]:
        """All that this worker has, to be compared with what servers believe."""
        return [Held(*key, one.fence) for key, one in list(self.held.items()) if not one.said_last]

    def later(self, awaitable: Awaitable[Any]) -> None:
        """Do something beside, and hold on to it until it is done."""
        task = asyncio.ensure_future(awaitable)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
