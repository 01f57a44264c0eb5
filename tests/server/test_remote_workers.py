"""The mailboxes of a server's workers: stops keep their fences, and workers that never ask leave nothing behind."""

from __future__ import annotations

from noetl.dispatch import Dispatcher
from noetl.model.wire import HeldPipeline, Key
from noetl.server.cluster.remote_workers import _MOST_EARLY, RemoteWorkers
from noetl.server.core import Pipelines

KEY: Key = ("x", "s-1", None)


class Desk:
    """The remote workers of a server that takes executions over."""

    def __init__(self) -> None:
        self.remote = RemoteWorkers()
        self.dispatcher = Dispatcher(lambda _execution, _order: None, name="s", new_secret=lambda: "1")
        self.pipelines = self.remote.pipelines = Pipelines(
            self.dispatcher, self.remote, None, lambda _execution, _denied: None
        )

    def take_over(self, execution_id: str, worker: str) -> None:
        """Take an execution over whose pipeline, which a worker holds, nobody wants any more."""
        held = HeldPipeline(execution_id, "s-1", None, "f1", worker)
        self.pipelines.carry_out(self.dispatcher.inherit(execution_id, [held]))
        self.pipelines.carry_out(self.dispatcher.drop_orphans(execution_id))

    def count_boxes(self) -> int:
        return len(self.remote._boxes) + len(self.remote._early)


def test_the_mail_for_workers_that_never_ask_here_is_bounded() -> None:
    desk = Desk()
    for at in range(_MOST_EARLY + 500):
        desk.take_over(f"x{at}", f"w{at}")
    assert desk.count_boxes() == _MOST_EARLY


def test_a_worker_that_asks_later_finds_what_it_is_to_stop_and_by_which_fence_it_holds_it() -> None:
    desk = Desk()
    desk.take_over("x", "w")
    stops, _ = desk.remote.box("w").empty()
    assert stops == [(KEY, "f1")]
    desk.remote.remove("w")
    assert desk.count_boxes() == 0


def test_a_worker_that_is_woken_and_has_never_asked_gets_no_mailbox() -> None:
    desk = Desk()
    desk.remote.wake("w")
    assert desk.count_boxes() == 0
