"""The gates of one execution: which have to be looked at, what they answered, what their joins hold.

    state (once), then every event ──► GateWatch ──► the parked steps whose answer may have changed

Everything here follows from the state and the net, and is kept beside them because working it out anew at the end of
every step would take as long as the net is large. A gate is looked at again when something that it reads has changed.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable

from noetl.engine.gates.gate_index import HELPERS, NO_READS, GateIndex, read_token
from noetl.engine.gates.regions import Activity
from noetl.model.events import Event
from noetl.model.state import Execution, Token

#: where a step stands among those that have tokens: joins come last, else the one whose first token came first
Place = tuple[bool, int]
#: whether a token is let in, and of each rule that was asked whether it held
Answer = tuple[bool, tuple[bool, ...]]


class JoinTally:
    """How many tokens a join holds, and which of its places hold enough."""

    def __init__(self) -> None:
        self.tokens = 0
        #: how many tokens of each place one firing takes; None: that has to be worked out
        self.numbers: dict[str, int] | None = None
        #: the places that hold enough, by where they stand among the places
        self.complete: list[int] = []


class GateWatch:
    """What the gates of an execution wait for."""

    def __init__(
        self, index: GateIndex, state: Execution, arriving: dict[str, int], before: GateWatch | None = None
    ) -> None:
        """`before`: the watch of the same execution before its net grew."""
        self.index = index
        self._state = state
        self._seq = state.seq
        self._ctx = state.ctx
        #: step → how many tokens are on their way to it in the decision that is being taken
        self.arriving = arriving
        #: the runs that have ended and are not routed yet
        self.unrouted: set[str] = {one.step_run_id for one in state.boundaries}
        #: step → its runs from which tokens may follow
        self._runs: dict[str, dict[str, None]] = {}
        #: the steps that have tokens, and joins that had some, each with its place in the order of looking
        self.places: dict[str, Place] = {name: (False, at) for at, name in enumerate(state.parked)}
        self.places |= {name: (True, at) for at, name in enumerate(state.rounds)}
        self.next_place = len(self.places)
        #: of these, those that are looked at every time, and those that have tokens now
        self._volatile = {name for name in self.places if index.is_volatile(name)}
        self._held: set[str] = set()
        self._joins: dict[str, JoinTally] = {}
        #: of a gate, a token of each kind that its rules can tell apart, in the order in which they came
        self._kinds: dict[str, dict[object, Token]] = {}
        self._answers: dict[str, dict[object, Answer]] = {}
        #: how the steps stand that gates ask about, and of each list how many of its steps are done
        self._standings: dict[str, tuple[str, bool]] = {}
        self._done = [0] * len(index.lists)
        self._activity: Activity | None = None
        self._heap: list[tuple[Place, str]] = []
        self._queued: set[tuple[Place, str]] = set()
        #: the place of the step that was looked at last in this pass; None: no pass is under way
        self.reached: Place | None = None
        self._later: list[tuple[Place, str]] = []
        self._read_state()
        self._continue_pass(before)
        for name in self.places:
            self._queue(name)

    def _read_state(self) -> None:
        state = self._state
        for run in state.runs.values():
            if not run.is_afterwork:
                self._runs.setdefault(run.step, {})[run.id] = None
        for name, tokens in state.parked.items():
            self._held.add(name)
            for token in tokens:
                self._add_kind(name, token)
        for name, entry in state.rounds.items():
            self.tally_of(name).tokens = held = sum(map(len, entry.places.values()))
            if held:
                self._held.add(name)
        for name in state.steps:
            if name in self.index.asked or name in self.index.listed:
                self._follow_standing(name)

    def _continue_pass(self, before: GateWatch | None) -> None:
        """Have the same places as before, so that a pass can go on in the middle."""
        if before is not None:
            self.places = {name: before.places.get(name, place) for name, place in self.places.items()}
            self.next_place, self.reached = before.next_place, before.reached

    def follows(self, state: Execution) -> bool:
        """Whether this is about a state, as it is now."""
        return self._state is state and self._seq == state.seq

    # --- looking at what is parked -----------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Begin to look at what is parked, from the first."""
        self.reached = None
        for one in self._later:
            heapq.heappush(self._heap, one)
        self._later = []
        for name in self._volatile:
            self._queue(name)

    def next_in_pass(self) -> str | None:
        """The next parked step whose answer may have changed; one before it that is due comes in the next pass."""
        self._settle()
        while self._heap:
            entry = heapq.heappop(self._heap)
            place, name = entry
            if self.reached is not None and place <= self.reached:
                self._later.append(entry)
                continue
            self._queued.discard(entry)
            if self.places.get(name) == place:
                self.reached = place
                return name
        self.reached = None
        return None

    def _queue(self, name: str) -> None:
        place = self.places.get(name)
        if place is not None and (place, name) not in self._queued:
            self._queued.add((place, name))
            heapq.heappush(self._heap, (place, name))

    def _touch(self, gate: str) -> None:
        """Something changed that a gate reads."""
        self._answers.pop(gate, None)
        if gate in self._joins and self.index.numbers.get(gate, {}) is None:
            self._joins[gate].numbers = None
        self._queue(gate)

    # --- answers -----------------------------------------------------------------------------------------------------

    def recall(self, gate: str, key: object) -> Answer | None:
        """What a gate answered about such a token, if nothing that it reads has changed since."""
        return self._answers.get(gate, {}).get(key)

    def keep(self, gate: str, key: object, answer: Answer) -> None:
        """Remember what a gate answered."""
        self._answers.setdefault(gate, {})[key] = answer

    def is_quiet(self, step: str, *, arrives: bool) -> bool:
        """Whether no other token and no run can still come to a step; `arrives`: one of those on their way is in hand."""
        if self.arriving.get(step, 0) > arrives:
            return False
        return self._get_activity().is_quiet(step, arrives)

    def count_done(self, gate: str, names: tuple[str | None, ...]) -> int | None:
        """How many of the steps in a list of a gate are done; None: the list is not one of its."""
        for at in self.index.lists_of.get(gate, ()):
            if self.index.lists[at].names == names:
                return self._done[at]
        return None

    # --- what is at a step -------------------------------------------------------------------------------------------

    def runs_of(self, step: str) -> list[str]:
        """The runs of a step from which tokens may follow, in the order in which they were scheduled."""
        return list(self._runs.get(step, ()))

    def has_tokens(self, step: str) -> bool:
        """Whether tokens are parked at a step."""
        return step in self._held

    def held_steps(self) -> list[str]:
        """The steps that have tokens, in the order in which they are looked at."""
        return sorted(self._held, key=self.places.__getitem__)

    def kinds_of(self, gate: str) -> list[Token]:
        """Of the tokens parked at a gate, the first of each kind that its rules can tell apart."""
        return list(self._kinds.get(gate, {}).values())

    def _add_kind(self, gate: str, token: Token) -> None:
        reads = self.index.gates.get(gate, NO_READS)
        kind = None if reads.volatile else read_token(token.event, token.args, reads.token)
        self._kinds.setdefault(gate, {}).setdefault(id(token) if kind is None else kind, token)

    def tally_of(self, step: str) -> JoinTally:
        """What a join holds."""
        tally = self._joins.get(step)
        if tally is None:
            tally = self._joins[step] = JoinTally()
            numbers = self.index.numbers.get(step)
            if numbers is not None:
                self.set_numbers(step, numbers)
        return tally

    def set_numbers(self, step: str, numbers: dict[str, int]) -> None:
        """Note how many tokens of each place one firing of a join takes."""
        tally, entry = self._joins[step], self._state.rounds.get(step)
        tally.numbers = numbers
        held = entry.places if entry is not None else {}
        places = self.index.places[step]
        tally.complete = sorted(
            places[name] for name, tokens in held.items() if len(tokens) >= numbers.get(name, _NEVER)
        )

    # --- tokens on their way -----------------------------------------------------------------------------------------

    def on_arriving(self, step: str, by: int) -> None:
        """More tokens are on their way to a step, or fewer."""
        if self._activity is not None:
            self._activity.shift(step, by)

    def _get_activity(self) -> Activity:
        if self._activity is None:
            asking = [name for name, reads in self.index.gates.items() if reads.quiet]
            activity = self._activity = Activity(self.index.regions, asking)
            for step, runs in self._runs.items():
                activity.shift(step, len(runs))
            for ended in self._state.boundaries:
                activity.shift(ended.step, 1)
            for name in self._held:
                activity.hold(name, held=True)
            for step, count in self.arriving.items():
                activity.shift(step, count)
        return self._activity

    def _settle(self) -> None:
        if self._activity is not None:
            self._activity.settle()
            turned, self._activity.turned = self._activity.turned, []
            for gate in turned:
                self._queue(gate)  # what it answered holds for when it was quiet, or was not

    # --- events ------------------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Follow an event that has just taken effect."""
        self._seq = event.seq
        follow = _FOLLOW.get(event.name)
        if follow is not None:
            follow(self, event)
        if self._state.ctx is not self._ctx:
            self._ctx = self._state.ctx
            for target in event.payload.get("set", ()):
                scope, _, rest = target.partition(".")
                if scope == "ctx":
                    self._on_ctx(rest.partition(".")[0])

    def _on_ctx(self, key: str) -> None:
        for gate in (*self.index.ctx.get(key, ()), *self.index.ctx.get("", ())):
            self._touch(gate)

    def _on_run(self, event: Event) -> None:
        """A run has begun or ended, or no token follows from it any more."""
        step, run_id = event.entity_id, event.step_run_id or ""
        run = self._state.runs.get(run_id)
        working, known = run is not None and not run.is_afterwork, self._runs.setdefault(step, {})
        if working is (run_id in known):
            return
        if working:
            known[run_id] = None
        else:
            del known[run_id]
        self._shift(step, 1 if working else -1)

    def _shift(self, step: str, by: int) -> None:
        if self._activity is not None:
            self._activity.shift(step, by)

    def _on_scheduled(self, event: Event) -> None:
        self._on_run(event)
        step = event.entity_id
        if step in self._joins and "take" in event.payload:
            self._take(step, event.payload["take"])
        elif step in self.places and step not in self._joins:
            self._release(step)
        self._on_status(event)

    def _take(self, step: str, taken: dict[str, int]) -> None:
        tally = self._joins[step]
        tally.tokens -= sum(taken.values())
        if not tally.tokens:
            self._hold(step, held=False)
        if tally.numbers is not None:
            names, held = self.index.place_names[step], self._state.rounds[step].places
            tally.complete = [at for at in tally.complete if len(held[names[at]]) >= tally.numbers[names[at]]]

    def _hold(self, step: str, *, held: bool) -> None:
        if held:
            self._held.add(step)
        else:
            self._held.discard(step)
        if self._activity is not None:
            self._activity.hold(step, held=held)

    def _release(self, step: str) -> None:
        """All tokens of a step are gone."""
        if step in self._held:
            self._hold(step, held=False)
        self._kinds.pop(step, None)
        self.places.pop(step, None)
        self._joins.pop(step, None)
        self._volatile.discard(step)

    def _on_parked(self, event: Event) -> None:
        step, join = event.entity_id, bool(event.payload.get("join"))
        if step not in self.places:
            self.next_place += 1
            self.places[step] = (join, self.next_place)
            if self.index.is_volatile(step):
                self._volatile.add(step)
            if not join:
                self._hold(step, held=True)
        if join:
            self._count_token(step, str(event.payload["from"]))
        else:
            self._add_kind(step, self._state.parked[step][-1])
        self._queue(step)

    def _count_token(self, step: str, source: str) -> None:
        known = step in self._joins
        tally = self.tally_of(step)
        tally.tokens += 1
        if tally.tokens == 1:
            self._hold(step, held=True)
        if not known or tally.numbers is None:
            return
        if len(self._state.rounds[step].places[source]) == tally.numbers.get(source):
            insort(tally.complete, self.index.places[step][source])

    def _on_skipped(self, event: Event) -> None:
        if event.payload["why"] == "stalled":
            self._release(event.entity_id)
            self._on_status(event)

    def _on_cancelled(self, event: Event) -> None:
        if event.step_run_id is None:
            self._release(event.entity_id)
        else:
            self._on_run(event)
        self._on_status(event)

    def _on_ended(self, event: Event) -> None:
        self._on_run(event)
        self.unrouted.add(event.step_run_id or "")
        self._shift(event.entity_id, 1)
        self._on_status(event)

    def _on_routed(self, event: Event) -> None:
        if event.step_run_id in self.unrouted:
            self.unrouted.remove(event.step_run_id)
            self._shift(event.entity_id, -1)
            self._on_status(event)

    def _on_forked(self, _event: Event) -> None:
        """Times have moved."""
        for gate in self.index.gates:
            self._touch(gate)

    # --- how steps stand ---------------------------------------------------------------------------------------------

    def _standing(self, step: str) -> tuple[str, bool]:
        """The status of a step, and whether its loop has ended. Until its arcs are judged, a step that ended runs."""
        info = self._state.steps.get(step)
        if info is None:
            return "", False
        if info.run_id in self.unrouted:
            return "running", False
        return info.status, info.loop is not None

    def _on_status(self, event: Event) -> None:
        step, index = event.entity_id, self.index
        for gate in (*index.statuses.get(step, ()), *index.statuses.get("", ())):
            self._touch(gate)
        if step in index.asked or step in index.listed:
            self._follow_standing(step)

    def _follow_standing(self, step: str) -> None:
        """See how a step stands now, and which gates that makes a difference to."""
        index = self.index
        before, now = self._standings.get(step, ("", False)), self._standing(step)
        if before == now:
            return
        self._standings[step] = now
        for gate, helper in index.asked.get(step, ()):
            if HELPERS[helper](*before) is not HELPERS[helper](*now):
                self._touch(gate)
        more = HELPERS["done"](*now) - HELPERS["done"](*before)
        for at in index.listed.get(step, ()) if more else ():
            call, done = index.lists[at], self._done[at]
            self._done[at] = done + more
            if call.holds(done) is not call.holds(done + more):
                self._touch(call.gate)


#: more tokens than any place ever holds
_NEVER = 1 << 62
_FOLLOW: dict[str, Callable[[GateWatch, Event], None]] = {
    "step.scheduled": GateWatch._on_scheduled,  # noqa: SLF001  a table of its own methods
    "step.started": GateWatch._on_status,  # noqa: SLF001
    "step.done": GateWatch._on_ended,  # noqa: SLF001
    "step.failed": GateWatch._on_ended,  # noqa: SLF001
    "step.cancelled": GateWatch._on_cancelled,  # noqa: SLF001
    "step.closed": GateWatch._on_run,  # noqa: SLF001
    "step.parked": GateWatch._on_parked,  # noqa: SLF001
    "step.skipped": GateWatch._on_skipped,  # noqa: SLF001
    "next.evaluated": GateWatch._on_routed,  # noqa: SLF001
    "execution.forked": GateWatch._on_forked,  # noqa: SLF001
}
