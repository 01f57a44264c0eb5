"""Gates as LANGUAGE says it and nothing else: everything that is parked is asked at every end of a step, and `quiet()` searches the net.

It takes the square of the net, or worse. What it decides is what the engine has to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from noetl.engine.gates.gate_index import GateIndex, GateReads
from noetl.engine.gates.gate_watch import Answer, GateWatch, JoinTally
from noetl.engine.gates.regions import Regions
from noetl.engine.net_index import NetIndex
from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.state import Execution, Token


class SlowRegions(Regions):
    """Each step is a region of its own, and the net is searched for every question."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.of = {name: at for at, name in enumerate(net.steps)}

    def leading(self, step: str) -> set[str]:
        """The steps from which a token can still come here; a plan may lead anywhere."""
        found = {one.name for one in self.net.steps.values() if one.router.synthesize is not None}
        waiting = [step, *found]
        while waiting:
            for incoming in self.net.incoming.get(waiting.pop(), ()):
                if incoming.source not in found:
                    found.add(incoming.source)
                    waiting.append(incoming.source)
        return found

    def find_following(self, steps: Iterable[str]) -> set[int]:
        named = set(steps)
        return {self.of[name] for name in self.net.steps if not named.isdisjoint(self.leading(name))}

    def find_leading(self, step: str, others: Iterable[str]) -> list[str]:
        return [name for name in others if name in self.leading(step)]


class SlowIndex(GateIndex):
    """An index that says of every gate that its answer may change at any time."""

    regions: SlowRegions

    def __init__(self, net: Net) -> None:
        super().__init__(net)
        self.regions = SlowRegions(net)
        self.gates = {name: GateReads(quiet=one.quiet, volatile=True) for name, one in self.gates.items()}


class SlowWatch(GateWatch):
    """Remembers nothing, and looks into the state every time."""

    index: SlowIndex

    def __init__(self, index: SlowIndex, state: Execution, arriving: dict[str, int], names: Iterator[str]) -> None:
        self.index, self._state, self.arriving = index, state, arriving
        #: what is still to be looked at in this pass
        self.names = names

    @property
    def unrouted(self) -> set[str]:  # type: ignore[override]  # which is followed there
        return {one.step_run_id for one in self._state.boundaries}

    def follows(self, state: Execution) -> bool:
        return self._state is state

    def begin_pass(self) -> None:
        self.names = iter([*self._state.parked, *self._state.rounds])

    def next_in_pass(self) -> str | None:
        return next(self.names, None)

    def recall(self, gate: str, key: object) -> Answer | None:
        return None

    def keep(self, gate: str, key: object, answer: Answer) -> None:
        pass

    def is_quiet(self, step: str, *, arrives: bool) -> bool:
        leading, state = self.index.regions.leading(step), self._state
        others = {name: count - (arrives and name == step) for name, count in self.arriving.items()}
        coming = [name for name, count in others.items() if count]
        if any(run.step in leading and not run.is_afterwork for run in state.runs.values()):
            return False
        if any(ended.step in leading for ended in state.boundaries) or step in coming:
            return False
        return not any(name in leading for name in (*state.steps_with_tokens(), *coming) if name != step)

    def count_done(self, gate: str, names: tuple[str | None, ...]) -> int | None:
        ended = self.unrouted
        known = [self._state.steps[name] for name in names if name in self._state.steps]
        return sum(info.status in ("done", "failed") and info.run_id not in ended for info in known)

    def runs_of(self, step: str) -> list[str]:
        return [run.id for run in self._state.runs.values() if run.step == step and not run.is_afterwork]

    def has_tokens(self, step: str) -> bool:
        return step in self._state.steps_with_tokens()

    def kinds_of(self, gate: str) -> list[Token]:
        return list(self._state.parked.get(gate, ()))

    def held_steps(self) -> list[str]:
        return list(self._state.steps_with_tokens())

    def tally_of(self, step: str) -> JoinTally:
        self._joins = {step: JoinTally()} if step not in getattr(self, "_joins", {}) else self._joins
        return self._joins[step]

    def on_arriving(self, step: str, by: int) -> None:
        pass

    def on_event(self, event: Event) -> None:
        self._joins = {}


class SlowNetIndex(NetIndex):
    """A net whose gates are asked every time."""

    @cached_property
    def gate_index(self) -> GateIndex:
        return SlowIndex(self.net)

    def watch_gates(self, state: Execution, arriving: dict[str, int], before: GateWatch | None) -> GateWatch:
        assert isinstance(self.gate_index, SlowIndex)
        names = before.names if isinstance(before, SlowWatch) else iter(())
        return SlowWatch(self.gate_index, state, arriving, names)
