"""The sockets of a cluster: who knows which workers live, and what wakes them. Each docstring is the law."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from noetl.model.wire import Answer, Ask, HeldPipeline, Key

# Slots: what a store must do so that limits hold across executions, whichever process runs them.
#
# A step run, or an iteration of its loop, that may go on at the same time as only so many others holds a slot of its key.


class Slots(Protocol):
    """Who holds which slot, and who has started when; by one clock for all processes. StoreFailed: that cannot be told now.

    Whoever asks again with a holder that has a slot keeps it. Slots of executions that are over, or that no process
    minds any more, are taken for free. A process that waits is not passed over for ever by others that are quicker.
    """

    async def take(self, asks: Sequence[Ask]) -> list[Answer]:
        """Judge asks, those first that came first: behind one that waits for a key, nobody else here is given that key."""

    async def release(self, holders: Collection[Key]) -> None:
        """Give slots back; those that nobody holds are no matter."""

    async def list_holders(self, execution_id: str) -> list[Key]:
        """Those of an execution who hold slots."""


@runtime_checkable
class HasSlots(Protocol):
    """A log beside which slots are kept, for all who share it."""

    def slots(self, clock: Callable[[], float]) -> Slots:
        """The slots; a store with a clock of its own goes by that."""


#: what a bus carries is shorter
HINT_BYTES = 512


class LostWorkers(NamedTuple):
    """Workers of which a registry has not heard for longer than the lease of the cluster."""

    #: gone for good: all that were lately given up, whichever server did it
    given_up: list[str]
    #: not given up yet, for they have pipelines whose own leases are longer
    silent: list[str]


class WorkerRegistry(Protocol):
    """Which workers live and what they hold, by one clock for all servers.

    A worker's name is bound to the token it was first heard with: for any other token it is a worker that is not there.
    """

    async def renew(self, worker: str, about: Mapping[str, Any], longest_lease_s: float = 0.0, token: str = "") -> bool:
        """Hear that a worker lives, and the longest lease of what it has; it is not given up before that runs out.

        False: it has been given up before, or its name is another token's; it must begin again under another name.
        """

    async def knows(self, worker: str, token: str = "") -> bool:
        """Whether a worker has said that it lives, and has not been given up."""

    async def is_foreign(self, worker: str, token: str) -> bool:
        """Whether a worker's name is another token's, also if it has been given up."""

    async def leave(self, worker: str, token: str = "") -> None:
        """Hear that a worker ends, in good order: it is known no longer, as if it were given up."""

    async def give_up(self) -> LostWorkers:
        """Give up those who have not been heard of for too long, for ever, and name those of whom nothing is heard."""

    def read_held(self, execution_id: str) -> list[HeldPipeline]:
        """What workers had of an execution when that was last kept."""

    async def keep(self, begun: Sequence[HeldPipeline], over: Sequence[HeldPipeline]) -> None:
        """Keep who has what, for servers that take executions over."""

    def workers(self) -> list[dict[str, Any]]:
        """Those who live: `worker`, `heard_s_ago`, and what they said of themselves."""

    async def add_dead_letter(self, held: HeldPipeline, why: str, path: str) -> None:
        """Keep that a pipeline was given out as often as it may be, what became of it the last time, and its playbook's path."""

    def list_dead_letters(self, limit: int = 100, paths: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Those pipelines, the latest first: `execution_id`, `step_run_id`, `iteration`, `worker`, `tries`, `why`, `at`.

        With `paths` only those of playbooks with these paths, see `model.access.allows_path`.
        """

    def close(self) -> None:
        """Let go."""


class ReceivedHint(msgspec.Struct, frozen=True):
    """A word that there may be work. It may come twice, late, or for work that is done: the log says what there is."""

    body: bytes
    #: say that it was heeded; else it comes again in some seconds, here or elsewhere. It never fails
    ack: Callable[[], Awaitable[None]]


class Bus(Protocol):
    """Wakes those who would otherwise look for work now and then. Whatever it says may be lost, doubled, late or out of order.

    Nothing but `open` fails, and nothing waits for a bus that is away. Each body is shorter than `HINT_BYTES`: ids travel,
    never data. One belongs to one event loop.
    """

    @property
    def trouble(self) -> str:
        """Why it does not work at the moment; empty: it does."""

    async def open(self) -> None:
        """Connect. A bus that is away is tried again for ever, in the background. NoetlError: it can never be used."""

    async def wake(self, pool: str, hint: bytes) -> None:
        """Tell one worker of a pool, whichever asks first, and at once: hints for nobody are forgotten after a while."""

    async def next(self, pools: Sequence[str], most: int, timeout: float) -> list[ReceivedHint]:  # noqa: ASYNC109
        """Up to so many hints for these pools, as soon as there is one; none when the time is over."""

    async def notify(self, worker: str, body: bytes) -> None:
        """Tell one worker, if it listens."""

    def listen(self, worker: str, heard: Callable[[bytes], None]) -> None:
        """Hear what that worker is told from now on."""

    def stop_listening(self, worker: str) -> None:
        """Hear that no longer."""

    async def close(self) -> None:
        """Let go. What was just said is said first, if that takes no time."""
