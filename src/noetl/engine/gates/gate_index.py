"""What the gates of a net read: worked out once from their compiled rules, and turned round.

A gate is a step with admission rules or a join. Its answer about a token depends on how some steps stand, on keys of
`ctx`, on `quiet()`, and on what the token carries; as long as none of that changes, the answer stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from noetl.engine.gates.regions import Regions
from noetl.expr import FUNCTIONS, OWN_FUNCTIONS, STEP_HELPERS, FunctionCall, PathRead
from noetl.model.net import Net
from noetl.model.playbook import Join, Step

#: helpers over one step: whether they hold, by the step's status and whether its loop has ended
HELPERS: Mapping[str, Callable[[str, bool], bool]] = {
    "done": lambda status, _loop: status in ("done", "failed"),
    "ok": lambda status, _loop: status == "done",
    "fail": lambda status, _loop: status == "failed",
    "running": lambda status, _loop: status in ("scheduled", "running"),
    "loop_done": lambda status, loop: loop and status in ("done", "failed"),
}
#: helpers over a list of steps: whether every one must be done
_LIST_HELPERS = {"all_done": True, "any_done": False}
#: scopes that never change while an execution runs
_CONSTANT = frozenset({"workload", "execution_id", "keychain"})
#: what a token carries
_TOKEN = frozenset({"event", "args"})
#: functions that may answer otherwise every time
_VOLATILE = OWN_FUNCTIONS | {"lipsum"}
_VOLATILE_FILTERS = frozenset({"random"})


class _Missing:
    """Stands for what a token does not have."""


_MISSING = _Missing()


class ListCall(msgspec.Struct, frozen=True):
    """A call of `all_done([…])` or `any_done([…])` by a gate."""

    gate: str
    names: tuple[str, ...]
    every: bool

    def holds(self, done: int) -> bool:
        """Whether it does when so many of the steps are done."""
        return done == len(self.names) if self.every else done > 0


class GateReads(msgspec.Struct, frozen=True):
    """What a gate reads that cannot be followed by name."""

    #: it asks for `quiet()`
    quiet: bool = False
    #: it reads a clock or chance, or something that is not known here: it is asked every time
    volatile: bool = False
    #: what it reads of the token: tokens that are alike in this get the same answer
    token: tuple[tuple[str, ...], ...] = ()


NO_READS = GateReads()


class GateIndex:
    """The gates of a net, by what they read."""

    def __init__(self, net: Net) -> None:
        self.regions = Regions(net)
        self.gates: dict[str, GateReads] = {}
        #: step → the gates that ask about it, each with the helper
        self.asked: dict[str, list[tuple[str, str]]] = {}
        self.lists: list[ListCall] = []
        #: step → the calls that have it in their list, as often as they do
        self.listed: dict[str, list[int]] = {}
        #: step, or "" for any → the gates that read more of its status
        self.statuses: dict[str, list[str]] = {}
        #: key of `ctx`, or "" for any → the gates that read it
        self.ctx: dict[str, list[str]] = {}
        #: of a gate, its calls with a list
        self.lists_of: dict[str, list[int]] = {}
        #: of a join, its places, and where each of them stands among them
        self.place_names: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, dict[str, int]] = {}
        #: of a join, how many tokens of each place one firing takes; None: some of the numbers are templates
        self.numbers: dict[str, dict[str, int] | None] = {}
        for step in net.steps.values():
            if step.admission.rules is not None or step.admission.join is not None:
                self._add(step)

    def is_volatile(self, gate: str) -> bool:
        """Whether a gate is looked at every time."""
        reads = self.gates.get(gate)
        return reads is not None and reads.volatile

    def _add(self, step: Step) -> None:
        gate, quiet, volatile = step.name, False, False
        token: dict[tuple[str, ...], None] = {}
        if step.admission.join is not None:
            self._add_places(gate, step.admission.join)
        for facts in _facts_of(step):
            volatile = volatile or not _VOLATILE_FILTERS.isdisjoint(facts.filters)
            for call in facts.calls:
                quiet = quiet or call.name == "quiet"
                volatile = volatile or not self._add_call(gate, call)
            for read in facts.reads:
                if read.path[0] in _TOKEN:
                    token[read.path] = None
                else:
                    volatile = volatile or not self._add_read(gate, read)
        self.gates[gate] = GateReads(quiet, volatile, tuple(token))

    def _add_places(self, gate: str, join: Join) -> None:
        self.place_names[gate] = tuple(join.places)
        self.places[gate] = {name: at for at, name in enumerate(join.places)}
        numbers = {name: number for name, number in join.places.items() if isinstance(number, int)}
        self.numbers[gate] = numbers if len(numbers) == len(join.places) else None

    def _add_call(self, gate: str, call: FunctionCall) -> bool:
        """Note a call; false: what it answers cannot be followed."""
        if call.name not in STEP_HELPERS:
            return call.name == "quiet" or (call.name in FUNCTIONS and call.name not in _VOLATILE)
        names = [name for name in call.args if name is not None]
        if len(names) < len(call.args):  # which steps it asks about is computed
            self.statuses.setdefault("", []).append(gate)
        elif call.name in _LIST_HELPERS:
            for name in names:
                self.listed.setdefault(name, []).append(len(self.lists))
            self.lists_of.setdefault(gate, []).append(len(self.lists))
            self.lists.append(ListCall(gate, tuple(names), _LIST_HELPERS[call.name]))
        else:
            for name in names:
                self.asked.setdefault(name, []).append((gate, call.name))
        return True

    def _add_read(self, gate: str, read: PathRead) -> bool:
        """Note a read; false: what is there cannot be followed."""
        scope, key = read.path[0], read.path[1] if len(read.path) > 1 else ""
        if scope == "ctx":
            self.ctx.setdefault(key, []).append(gate)
        elif scope == "steps":
            self.statuses.setdefault(key, []).append(gate)
        else:
            return scope in _CONSTANT
        return True


def _facts_of(step: Step) -> Iterator[Any]:
    """What is known of the templates of a gate."""
    join = step.admission.join
    numbers = join.places.values() if join is not None else ()
    for template in (*(rule.when for rule in step.admission.rules or ()), *numbers):
        if template is not None and not isinstance(template, int):
            yield template.facts


def read_token(event: Mapping[str, Any], args: Any, paths: Sequence[tuple[str, ...]]) -> tuple[Any, ...] | None:
    """What a token has at some paths; None: something that cannot be compared at a glance."""
    found: list[Any] = []
    for scope, *path in paths:
        value = event if scope == "event" else args
        for part in path:
            if value is None or value is _MISSING:
                value = _MISSING
            elif isinstance(value, Mapping):
                value = value.get(part, _MISSING)
            else:
                return None
        if value is not None and not isinstance(value, str | int | float | _Missing):
            return None
        found += (type(value), value)
    return tuple(found)
