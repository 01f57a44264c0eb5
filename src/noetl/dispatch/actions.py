"""The actions of the table: each lets one input take effect on one entry, and returns the entry's next state."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from noetl.dispatch.entry import (
    DEFAULT_POOL,
    GIVEN,
    IDLE,
    ORPHANED,
    READY,
    STOPPING,
    WAITING,
    Entry,
    State,
    Worker,
    latest,
    may_begin,
)
from noetl.dispatch.ledger import Ledger
from noetl.dispatch.limit_keys import ask_of
from noetl.dispatch.moves import AskSlot, DeadLetter, Deny, Dispatched, Give, StopAt
from noetl.errors import TemplateError
from noetl.expr import failure_of, render
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, failure
from noetl.model.state import parse_label
from noetl.model.wire import Ask, HeldPipeline

# Where a pipeline is to run, and how urgent it is: the `pool` and `priority` of its step's spec.


def placement(net: Net, order: RunPipeline) -> tuple[str, int]:
    """The pool and the priority of an order; values that cannot be evaluated count as not given."""
    spec = net.steps[order.step].spec
    if "pool" not in spec and "priority" not in spec:
        return DEFAULT_POOL, 0
    priority = _value(net, order, "priority")
    return str(_value(net, order, "pool") or DEFAULT_POOL), priority if isinstance(priority, int) else 0


def group_of(net: Net, order: RunPipeline) -> tuple[str | int, ...] | None:
    """The group of pipelines that stay with one worker: those of the execution, or of a loop with `exec: local`."""
    if net.playbook.executor.get("profile") == "local":
        return ()
    loop, path = net.steps[order.step].loop, parse_label(order.iteration)
    for level in range(len(path)):
        if loop is None:
            return None
        if loop.exec == "local":
            return (order.step_run_id, *path[:level])
        loop = loop.inner
    return None


def _value(net: Net, order: RunPipeline, name: str) -> Any:
    layer = net.steps[order.step].spec.get(name)
    try:
        return render(layer.value, order.scopes) if layer is not None else None
    except TemplateError:
        return None


#: a pipeline with which so many workers died is taken for the cause
MOST_TRIES = 5
#: after so many deaths it runs alone, so that it takes no other pipeline with it
SUSPECT = 2
#: how often a pipeline may be lost on the way to its worker
MOST_ASTRAY = 100
_BEGINS = (READY, GIVEN, STOPPING)


class Loss(NamedTuple):
    """Why a worker no longer runs what it was given."""

    why: str
    #: whether the pipeline may be the cause
    counted: bool = True
    #: whether it never reached the worker
    undelivered: bool = False


# --- ordered -----------------------------------------------------------------------------------------------------------


def admit(ledger: Ledger, entry: Entry, order: RunPipeline) -> State:
    """Let a pipeline wait for the slot that its limits require, or make it ready."""
    entry.order, record = order, entry.record
    if record.paused and not may_begin(order, paused=True):
        return settle(ledger, entry)
    assert record.execution is not None
    bound = not entry.slot and entry.ask is None and record.execution.net.steps[order.step].spec
    ask = _request(ledger, entry, order) if bound else None
    if ask is None:
        return READY if ledger.local is not None else make_ready(ledger, entry)
    if isinstance(ask, Ask):
        _ask(ledger, entry, ask)
        return WAITING
    ledger.moves.append(Deny(entry.key, ask))
    return settle(ledger, entry)


def _request(ledger: Ledger, entry: Entry, order: RunPipeline) -> Ask | Failure | None:
    """What a pipeline asks the store of slots for; a failure: it can never be granted."""
    try:
        ask = ask_of(_execution(entry).net, order, entry.key)
    except TemplateError as error:
        return failure_of(error)
    if ask is not None and not ledger.keeps_slots:
        return failure("limit", "limits cannot be kept here: the log has no place for them")
    return ask


def _ask(ledger: Ledger, entry: Entry, ask: Ask) -> None:
    entry.record.limited = True
    ledger.slots.add(entry, ask)
    ledger.moves.append(AskSlot(entry.key))


def make_ready(ledger: Ledger, entry: Entry) -> State:
    """Offer a pipeline to the workers of its pool. A local worker takes it without being asked, see `Dispatcher`."""
    if ledger.local is None:
        assert entry.order is not None
        net = _execution(entry).net
        entry.pool, entry.priority = placement(net, entry.order)
        entry.group = group_of(net, entry.order)
        ledger.push(entry)
    return READY


def replace_order(ledger: Ledger, entry: Entry, order: RunPipeline) -> State:  # noqa: ARG001  all actions are called alike
    """Keep the later of two orders that have not begun."""
    if may_begin(order, paused=entry.record.paused):
        entry.order = latest(entry.order, order)
    return entry.state


def queue_behind(ledger: Ledger, entry: Entry, order: RunPipeline) -> State:  # noqa: ARG001
    """Keep an order until the worker has reported the end of what it runs."""
    entry.following = latest(entry.following, order)
    return entry.state


def adopt(ledger: Ledger, entry: Entry, order: RunPipeline) -> State:
    """Let the worker that holds an orphan keep it; its slot is requested without anybody waiting for it."""
    del ledger.orphans[entry.key]
    worker, fence = entry.worker, entry.fence
    if worker is None:  # it died while nobody owned the execution; its death was counted then
        return admit(ledger, entry, order)
    entry.order, entry.group = order, group_of(_execution(entry).net, order)
    hold(ledger, entry, ledger.worker(worker), fence)
    ask = _request(ledger, entry, order)
    if isinstance(ask, Ask) and ask.cap is not None:
        _ask(ledger, entry, Ask(ask.holder, ask.cap, sure=True))
    elif ask is not None and not isinstance(ask, Ask):
        ledger.moves.append(Deny(entry.key, ask))
    return GIVEN


# --- slots -------------------------------------------------------------------------------------------------------------


def start_with_slot(ledger: Ledger, entry: Entry, ask: Ask) -> State:
    """The request was granted: the pipeline is ready."""
    keep_slot(ledger, entry, ask)
    return make_ready(ledger, entry)


def keep_slot(ledger: Ledger, entry: Entry, ask: Ask | None) -> State:
    """The slot is the entry's: it was granted, or found in the store. A rate limit grants a start, which is not kept."""
    if ask is not None:
        ledger.slots.remove(entry)
    if ask is None or ask.cap is not None:
        entry.slot = entry.record.limited = True
    return entry.state


def note_slot(ledger: Ledger, entry: Entry, _found: None) -> State:
    """The store has a slot of a pipeline that is not under way: keep it until it is ordered or over."""
    entry.slot = entry.record.limited = True
    return settle(ledger, entry)


def refuse_slot(ledger: Ledger, entry: Entry, error: Failure) -> State:
    """The store refuses a start, or another run took the place: the engine fails the pipeline, and stops it if it runs."""
    ledger.slots.remove(entry)
    ledger.moves.append(Deny(entry.key, error))
    return entry.state if entry.state in _BEGINS else end(ledger, entry, None)


# --- workers -----------------------------------------------------------------------------------------------------------


def give(ledger: Ledger, entry: Entry, worker: Worker) -> State:
    """Let a worker have a pipeline."""
    order, execution = entry.order, entry.record.execution
    assert order is not None
    fence = "" if worker.local else ledger.new_fence()
    hold(ledger, entry, worker, fence)
    ledger.moves.append(Give(execution, entry.key, order, worker.name, fence, entry.tries >= SUSPECT))
    return GIVEN


def hold(ledger: Ledger, entry: Entry, worker: Worker, fence: str) -> None:
    """Note that a worker holds an entry from now on."""
    entry.worker, entry.fence, entry.since = worker.name, fence, ledger.now
    worker.held[entry.key] = entry
    entry.record.workers.add(worker.name)
    if entry.group is not None and ledger.home_of(entry) is None:
        entry.record.settle_in(entry.group, worker.name)


def finish(ledger: Ledger, entry: Entry, _none: None) -> State:
    """The worker has reported that nothing follows: give the pipeline again as far as it is still wanted.

    What was ordered at the end of a pause may have been done since by the worker, which never stopped. And a worker that heard
    late of a pause stopped for nothing, after it had used the answer of its order. A local worker sees pauses at once.
    """
    worker = ledger.workers[entry.worker or ""]
    following, before = entry.following, entry.order
    del worker.held[entry.key]
    entry.worker, entry.fence = None, ""
    if following is None:
        if worker.local or entry.record.paused or before is None:
            return settle(ledger, entry)
        following = replace(before, answer=None)
    entry.tries = entry.undelivered = 0
    return _continue(ledger, entry, following)


def give_again(ledger: Ledger, entry: Entry, loss: Loss) -> State:
    """The worker does not bring a pipeline to its end: give it to another one, from where the log has it; but not for ever."""
    worker = entry.worker
    ledger.detach(entry)
    entry.tries += loss.counted
    entry.undelivered += loss.undelivered
    if entry.tries >= MOST_TRIES or entry.undelivered >= MOST_ASTRAY:
        entry.following = None
        ledger.moves.append(DeadLetter(entry.key, worker, max(entry.tries, entry.undelivered), loss.why))
        return settle(ledger, entry)
    return _continue(ledger, entry, entry.following or entry.order)


def _continue(ledger: Ledger, entry: Entry, order: RunPipeline | None) -> State:
    """Make an order ready that follows on what a worker had, if the engine still wants it."""
    entry.following = None
    found = ledger.reissue(_execution(entry), order) if order is not None else None
    if found is None or not may_begin(found, paused=entry.record.paused):
        return settle(ledger, entry)
    entry.order = found
    return make_ready(ledger, entry)


def settle(ledger: Ledger, entry: Entry, _none: None = None) -> State:
    """Nobody runs the pipeline now. It keeps its slot as long as its step run or iteration goes on and is not paused."""
    if not entry.slot and entry.ask is None:
        return ledger.discard(entry)
    record = entry.record
    if not entry.over and not record.paused and record.execution is not None:
        return IDLE
    return end(ledger, entry, None)


# --- stops and ends ----------------------------------------------------------------------------------------------------


def pause(ledger: Ledger, entry: Entry, _none: None) -> State:
    """What has not begun is withdrawn, unless it may begin all the same; the engine orders it again."""
    if entry.order is not None and may_begin(entry.order, paused=True):
        return entry.state
    return end(ledger, entry, None)


def mark_over(ledger: Ledger, entry: Entry, _none: None) -> State:  # noqa: ARG001
    """The step run or iteration has ended: the slot is returned as soon as the pipeline has put its tools away."""
    entry.over = True
    return entry.state


def end(ledger: Ledger, entry: Entry, _none: None) -> State:
    """Forget an entry that nobody runs, and return its slot."""
    ledger.free_slot(entry)
    return ledger.discard(entry)


def stop(ledger: Ledger, entry: Entry, _none: None) -> State:
    """Stop a pipeline at its worker. A remote worker reports no end of it: its fence is refused from now on."""
    worker = ledger.workers[entry.worker or ""]
    entry.following = None
    ledger.moves.append(StopAt(worker.name, entry.key, entry.fence))
    if worker.local:
        return STOPPING
    ledger.detach(entry)
    return end(ledger, entry, None)


def restart(ledger: Ledger, entry: Entry, _none: None) -> State:
    """A stopped pipeline has put its tools away: what was ordered meanwhile begins as if it were new."""
    following, record = entry.following, entry.record
    ledger.detach(entry)
    entry.following, entry.over = None, False
    found = (
        ledger.reissue(record.execution, following) if following is not None and record.execution is not None else None
    )
    return admit(ledger, entry, found) if found is not None else end(ledger, entry, None)


def check_wanted(ledger: Ledger, entry: Entry, _none: None) -> State:
    """A report of an earlier worker was recorded: if it was the pipeline's end, nobody runs it again."""
    wanted = entry.following or entry.order
    if wanted is not None and ledger.reissue(_execution(entry), wanted) is not None:
        return entry.state
    return stop(ledger, entry, None) if entry.state is GIVEN else end(ledger, entry, None)


# --- executions that come and go ---------------------------------------------------------------------------------------


def abandon(ledger: Ledger, entry: Entry, _none: None) -> State:
    """The execution leaves this process's memory: whoever continues it orders the pipeline again, and has its slot."""
    ledger.leave_slot(entry)
    return ledger.discard(entry)


def orphan(ledger: Ledger, entry: Entry, _none: None) -> State:
    """The same while a worker holds it: remember that, in case the execution comes back. A local worker stops."""
    ledger.leave_slot(entry)
    entry.following = None
    worker = ledger.workers[entry.worker or ""]
    if worker.local:
        ledger.moves.append(StopAt(worker.name, entry.key, entry.fence))
        return STOPPING
    worker.held.pop(entry.key, None)
    ledger.orphans[entry.key] = entry
    return ORPHANED


def drop_following(ledger: Ledger, entry: Entry, _none: None) -> State:
    """A stopping pipeline stops for good, and its slot goes with the execution."""
    entry.following = None
    if entry.record.execution is None:
        ledger.leave_slot(entry)
    return entry.state


def find_orphan(ledger: Ledger, entry: Entry, held: HeldPipeline) -> State:
    """The registry has it that a worker holds a pipeline of an execution that is being taken over."""
    entry.worker, entry.fence, entry.tries = held.worker, held.fence, held.tries
    ledger.orphans[entry.key] = entry
    return ORPHANED


def drop_orphan(ledger: Ledger, entry: Entry, _none: None) -> State:
    """The engine does not want what a worker holds: stop it there."""
    del ledger.orphans[entry.key]
    if entry.worker is not None:
        ledger.moves.append(StopAt(entry.worker, entry.key, entry.fence))
    return ledger.discard(entry)


def lose_orphan(ledger: Ledger, entry: Entry, _loss: Loss) -> State:
    """The worker that held an orphan is gone."""
    del ledger.orphans[entry.key]
    return ledger.discard(entry)


def _execution(entry: Entry) -> Dispatched:
    execution = entry.record.execution
    assert execution is not None, "the execution is not in memory"
    return execution
