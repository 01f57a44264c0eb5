"""The life of an order between the engine's decision and the worker's last report.

The engine orders a pipeline when a decision is durable, and hears of it again when a worker reports. In between, dispatch decides
whether the pipeline may run, who runs it, and what happens when that does not work out. It is pure: time, names and the
engine's answers come in as arguments, and moves go out for the caller to carry out.

There is one entry for each pipeline, under its key: execution, step run, iteration. Its states:

    new ──► waiting ──► ready ──► given ──► settled

An entry *waits* while its step's limits allow no more runs. It is *ready* for any worker of its pool, and *given* while a worker
holds it. When the worker reports that nothing follows, the entry is *settled*: it is forgotten. Three states are for
what does not fit this line. A local worker needs time to put tools away, so what it is told to end is *stopping* until then.
A pipeline that waits for a signal holds no worker, but may hold a slot: it is *idle*. And a worker may hold a pipeline whose
execution is in nobody's memory, or in another server's: then it is *orphaned* here.

Five rules hold in every state:

1. **Fences.** A worker holds a pipeline by a fence that is issued once. A report under any other fence changes nothing. Therefore at most
   one worker's reports count, whatever an earlier holder still does. The fence is checked when a report arrives; one that passed
   is recorded even if its worker loses the pipeline meanwhile: OVERTAKEN. A local worker has no fence, and needs none: nothing
   is given to it again before it has reported the end of what it had.
2. **Ordered again while under way.** The engine may repeat an order, or order what follows on an answer, before the worker has
   reported the end of the last one. One such order is kept; the later one counts, unless it would lose an answer. When the worker is done, the
   engine is asked whether the order is still wanted, and as what.
3. **Pauses.** A paused execution begins nothing. What has not begun is withdrawn, because the engine orders it again when the execution is resumed.
   Orders with an answer pass, and so do those that store the list of a loop: nobody repeats them.
4. **Losses.** A worker that dies, breaks or returns a pipeline, or never received it, leads back to *ready*, from where the log has it. Deaths,
   breaks and leases that ran out are counted until the pipeline makes progress: after the fifth it becomes a dead letter and its
   step fails. What was returned, or had not begun at the worker that lost it, is not counted. What never arrived has a count of its own.
5. **Slots.** A slot belongs to the step run or iteration, not to one pass through the pipeline. It is returned when that has ended and its tools
   are put away, and while the execution is paused and nothing of it runs.

A step may have a lease of its own. Its pipelines are given again when no heartbeat has named them for the time of that lease,
whether or not their worker counts as alive. Other pipelines have the lease of their worker. A worker that is silent for longer keeps
those whose lease is longer, and loses the rest; when it is heard again, it learns that from the stops. Only time in
which this process listened is counted, so a server that stood still expires nothing.

An older worker ignores what it does not know of an order. It is given no order that it would run wrongly: each names the
`PROTOCOL` that its worker must have declared.

When an execution leaves the memory (it was evicted, or another server owns it now), workers keep what they hold and slots
stay taken. When it comes back, here or elsewhere, the registry says which worker holds what; an order for such a pipeline adopts it
under the fence that its worker has. What is left over after all orders of the take-over is stopped.

`TABLE` has every transition. An input that the table does not have for a state changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from noetl.dispatch import actions
from noetl.dispatch.entry import GIVEN, IDLE, NEW, ORPHANED, READY, SETTLED, STOPPING, WAITING, Entry, State
from noetl.dispatch.ledger import Ledger


class Input(StrEnum):
    """What may happen to an entry."""

    #: the engine orders the pipeline, for the first time or again
    ORDERED = "ordered"
    #: the store grants the slot or the start that was asked for
    GRANTED = "slot granted"
    #: the store refuses it, or has given it to another run
    REFUSED = "slot refused"
    #: the store has a slot of the pipeline from before this process owned the execution
    SLOT_FOUND = "slot found"
    #: a worker with room for it asks for work
    TAKEN = "worker asks"
    #: the worker reports that nothing follows
    FINISHED = "finished"
    #: the worker gives it back, reports that it broke, died, or does not have it
    RETURNED = "returned"
    BROKEN = "broken"
    WORKER_GONE = "worker gone"
    NOT_ARRIVED = "not arrived"
    #: no heartbeat has named it for longer than its lease, or its worker's
    EXPIRED = "lease ran out"
    #: what an earlier holder reported was recorded after all
    OVERTAKEN = "overtaken"
    PAUSED = "paused"
    #: its step run or its iteration has ended
    OVER = "step over"
    #: the engine orders it to stop
    STOPPED = "stop"
    #: the execution has ended
    ENDED = "execution ended"
    #: the execution leaves the memory: it was evicted, or could not be written
    RELEASED = "execution released"
    #: the registry says that a worker holds it, while its execution is taken over
    FOUND = "found at a worker"
    #: the execution was taken over, or has ended elsewhere, and the engine did not order it
    UNWANTED = "not ordered"


Action = Callable[[Ledger, Entry, Any], State]


class Transition(NamedTuple):
    """What an input does to an entry in some state, and the states it may lead to."""

    action: Action
    to: tuple[State, ...]


_AGAIN = (READY, IDLE, SETTLED)

TABLE: Mapping[tuple[State, Input], Transition] = {
    (NEW, Input.ORDERED): Transition(actions.admit, (WAITING, READY, SETTLED)),
    (NEW, Input.SLOT_FOUND): Transition(actions.note_slot, (IDLE, SETTLED)),
    (NEW, Input.FOUND): Transition(actions.find_orphan, (ORPHANED,)),
    # --- waits for a slot
    (WAITING, Input.ORDERED): Transition(actions.replace_order, (WAITING,)),
    (WAITING, Input.GRANTED): Transition(actions.start_with_slot, (READY,)),
    (WAITING, Input.REFUSED): Transition(actions.refuse_slot, (SETTLED,)),
    (WAITING, Input.SLOT_FOUND): Transition(actions.keep_slot, (WAITING,)),
    (WAITING, Input.OVERTAKEN): Transition(actions.check_wanted, (WAITING, SETTLED)),
    (WAITING, Input.PAUSED): Transition(actions.pause, (WAITING, SETTLED)),
    (WAITING, Input.OVER): Transition(actions.end, (SETTLED,)),
    (WAITING, Input.STOPPED): Transition(actions.end, (SETTLED,)),
    (WAITING, Input.ENDED): Transition(actions.end, (SETTLED,)),
    (WAITING, Input.RELEASED): Transition(actions.abandon, (SETTLED,)),
    # --- waits for a worker
    (READY, Input.ORDERED): Transition(actions.replace_order, (READY,)),
    (READY, Input.GRANTED): Transition(actions.keep_slot, (READY,)),
    (READY, Input.REFUSED): Transition(actions.refuse_slot, (READY,)),
    (READY, Input.SLOT_FOUND): Transition(actions.keep_slot, (READY,)),
    (READY, Input.TAKEN): Transition(actions.give, (GIVEN,)),
    (READY, Input.OVERTAKEN): Transition(actions.check_wanted, (READY, SETTLED)),
    (READY, Input.PAUSED): Transition(actions.pause, (READY, SETTLED)),
    (READY, Input.OVER): Transition(actions.end, (SETTLED,)),
    (READY, Input.STOPPED): Transition(actions.end, (SETTLED,)),
    (READY, Input.ENDED): Transition(actions.end, (SETTLED,)),
    (READY, Input.RELEASED): Transition(actions.abandon, (SETTLED,)),
    # --- a worker holds it
    (GIVEN, Input.ORDERED): Transition(actions.queue_behind, (GIVEN,)),
    (GIVEN, Input.GRANTED): Transition(actions.keep_slot, (GIVEN,)),
    (GIVEN, Input.REFUSED): Transition(actions.refuse_slot, (GIVEN,)),
    (GIVEN, Input.SLOT_FOUND): Transition(actions.keep_slot, (GIVEN,)),
    (GIVEN, Input.FINISHED): Transition(actions.finish, _AGAIN),
    (GIVEN, Input.RETURNED): Transition(actions.give_again, _AGAIN),
    (GIVEN, Input.BROKEN): Transition(actions.give_again, _AGAIN),
    (GIVEN, Input.WORKER_GONE): Transition(actions.give_again, _AGAIN),
    (GIVEN, Input.NOT_ARRIVED): Transition(actions.give_again, _AGAIN),
    (GIVEN, Input.EXPIRED): Transition(actions.expire, _AGAIN),
    (GIVEN, Input.OVERTAKEN): Transition(actions.check_wanted, (GIVEN, STOPPING, SETTLED)),
    (GIVEN, Input.OVER): Transition(actions.mark_over, (GIVEN,)),
    (GIVEN, Input.STOPPED): Transition(actions.stop, (STOPPING, SETTLED)),
    (GIVEN, Input.ENDED): Transition(actions.stop, (STOPPING, SETTLED)),
    (GIVEN, Input.RELEASED): Transition(actions.orphan, (ORPHANED, STOPPING)),
    # --- a local worker ends it
    (STOPPING, Input.ORDERED): Transition(actions.queue_behind, (STOPPING,)),
    (STOPPING, Input.GRANTED): Transition(actions.keep_slot, (STOPPING,)),
    (STOPPING, Input.REFUSED): Transition(actions.refuse_slot, (STOPPING,)),
    (STOPPING, Input.SLOT_FOUND): Transition(actions.keep_slot, (STOPPING,)),
    (STOPPING, Input.FINISHED): Transition(actions.restart, (WAITING, *_AGAIN)),
    (STOPPING, Input.STOPPED): Transition(actions.drop_following, (STOPPING,)),
    (STOPPING, Input.ENDED): Transition(actions.drop_following, (STOPPING,)),
    (STOPPING, Input.RELEASED): Transition(actions.drop_following, (STOPPING,)),
    # --- nobody runs it, and it has a slot
    (IDLE, Input.ORDERED): Transition(actions.admit, (WAITING, READY, IDLE, SETTLED)),
    (IDLE, Input.GRANTED): Transition(actions.keep_slot, (IDLE,)),
    (IDLE, Input.REFUSED): Transition(actions.refuse_slot, (SETTLED,)),
    (IDLE, Input.SLOT_FOUND): Transition(actions.keep_slot, (IDLE,)),
    (IDLE, Input.PAUSED): Transition(actions.end, (SETTLED,)),
    (IDLE, Input.OVER): Transition(actions.end, (SETTLED,)),
    (IDLE, Input.STOPPED): Transition(actions.end, (SETTLED,)),
    (IDLE, Input.ENDED): Transition(actions.end, (SETTLED,)),
    (IDLE, Input.RELEASED): Transition(actions.abandon, (SETTLED,)),
    # --- a worker holds it, and its execution is not here
    (ORPHANED, Input.ORDERED): Transition(actions.adopt, (GIVEN, WAITING, READY, SETTLED)),
    (ORPHANED, Input.FOUND): Transition(actions.find_orphan, (ORPHANED,)),
    (ORPHANED, Input.WORKER_GONE): Transition(actions.lose_orphan, (SETTLED,)),
    (ORPHANED, Input.UNWANTED): Transition(actions.drop_orphan, (SETTLED,)),
    (ORPHANED, Input.STOPPED): Transition(actions.drop_orphan, (SETTLED,)),
    (ORPHANED, Input.ENDED): Transition(actions.drop_orphan, (SETTLED,)),
}

#: the same by input, because a dispatcher looks an action up for every pipeline it gives out
ACTIONS: Mapping[Input, Mapping[State, Action]] = {
    happened: {state: one.action for (state, its), one in TABLE.items() if its is happened} for happened in Input
}
