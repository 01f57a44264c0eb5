"""Preparing a rerun: the recorded execution, the playbook that it continues with, and the plan that is shown first."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from noetl.cli.commands.runs.payload import check_payload
from noetl.cli.files import near, one_file, read
from noetl.cli.playbook_files import pause_gc, refuse, rename_source
from noetl.engine import ReplayDiverged
from noetl.errors import NoetlError, UsageError
from noetl.history import (
    Fork,
    ForkMismatch,
    ForkTarget,
    build_fork,
    diff_values,
    events_of,
    find_last_kept,
    open_children,
    origin_of,
    parse_fork_point,
    payload_of,
    rerun_plan,
)
from noetl.model.scope import merge_maps
from noetl.model.state import Execution
from noetl.ports import OVER
from noetl.server.core import new_execution_id

if TYPE_CHECKING:
    from noetl.app import LocalNode
    from noetl.lang import Loaded
    from noetl.model.events import Event
    from noetl.model.net import Net
    from noetl.ports import PlaybookSource, Summary
    from noetl.server.core import LiveExecution


class RerunRequest:
    """What the command line asks for."""

    def __init__(self, place: str | None, run: int | None, file: str | None, *, legacy: bool) -> None:
        self.place = place
        self.run = run
        self.file = file
        self.legacy = legacy


class Rerun:
    """All that is needed to start, and what is told before."""

    def __init__(self, node: LocalNode, source: PlaybookSource, net: Net, plan: rerun_plan.ForkPlan) -> None:
        self.node = node
        self.source = source
        self.net = net
        self.plan = plan
        #: None: it runs anew from the start
        self.fork: Fork | None = None
        self.opening: dict[str, Any] = {}

    async def start(self) -> LiveExecution:
        """Write the first events, and begin."""
        if self.fork is not None:
            return await self.node.adopt(self.fork, self.source, self.net)
        return await self.node.start(self.source, self.net, **self.opening)


def prepare_rerun(node: LocalNode, summary: Summary, asked: RerunRequest, *, as_document: bool) -> Rerun:
    """Choose the point, fork the log in memory, and make the plan; whatever does not fit is refused here."""
    events = list(events_of(node.log, summary.execution_id))
    before = node.log.source(summary.playbook)
    old = node.catalog.net(before) if before is not None else None
    source, net, loaded = _playbook(node, summary, asked, before, old, as_document=as_document)
    wanted = parse_fork_point(asked.place) if asked.place is not None else 0
    plans = [event.payload for event in events if event.name == "workflow.synthesized"]
    ran = node.catalog.extend_net(old, plans) if old is not None else net
    seq = find_last_kept(events, wanted, run=asked.run, known=ran.steps)
    defaults = old.playbook.workload if old is not None and loaded is not None else None
    if loaded is not None:
        refused = check_payload(loaded, payload_of(events[0], defaults if defaults is not None else {}))
        if refused is not None:
            refuse(refused, json=as_document)
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="microseconds")
    if seq <= 1:  # all that would be kept is the request itself
        source = replace(source, file=_file(events, source, asked) or source.file)
        return _rerun_from_start(node, summary, events, (source, net), _kinds(node, ran), defaults, at)
    target = ForkTarget(new_execution_id(time.time()), net, source.hash, _file(events, source, asked), at, defaults)
    made = _fork_log(node, events[:seq], target, asked)
    plan = _plan(summary, events, made, (source, net), _kinds(node, ran))
    rerun = Rerun(node, source, net, plan)
    rerun.fork = made
    return rerun


def _playbook(
    node: LocalNode,
    summary: Summary,
    asked: RerunRequest,
    before: PlaybookSource | None,
    old: Net | None,
    *,
    as_document: bool,
) -> tuple[PlaybookSource, Net, Loaded | None]:
    """What it goes on with: the corrected file, or the playbook as it was run."""
    if asked.file is None:
        if before is None or old is None:
            raise NoetlError(
                f"the playbook of {summary.execution_id} is not there any more, or cannot be read: give one with --with FILE"
            )
        return before, old, None
    data = read(one_file(asked.file))
    with pause_gc():
        source, loaded = node.catalog.read(Path(asked.file).absolute(), data, legacy=asked.legacy)
    loaded = rename_source(loaded, asked.file)
    if loaded.net is None:
        refuse(loaded, json=as_document)
    return source, loaded.net, loaded


def _file(events: list[Event], source: PlaybookSource, asked: RerunRequest) -> str | None:
    """Where relative paths start: the same text may lie in several folders."""
    return source.file if asked.file is not None else events[0].payload.get("file")


# --- from the start --------------------------------------------------------------------------------------------------


def _rerun_from_start(
    node: LocalNode,
    summary: Summary,
    events: list[Event],
    goes_on: tuple[PlaybookSource, Net],
    kinds: TaskKinds,
    defaults: Any,
    at: str,
) -> Rerun:
    source, net = goes_on
    requested = events[0]
    payload = payload_of(requested, defaults if defaults is not None else {})
    entry = requested.payload.get("entry_step")
    state = Execution("", workload=merge_maps(net.playbook.workload, payload), entry_step=entry)
    rerun = Rerun(
        node, source, net, _plan(summary, events, Fork(summary.execution_id, 0, (), state, {}), goes_on, kinds)
    )
    rerun.opening = {
        "payload": payload,
        "rerun": origin_of(summary.execution_id, 0, at),
        **{key: requested.payload.get(key) for key in ("entry_step", "return_step")},
    }
    return rerun


# --- from a point ----------------------------------------------------------------------------------------------------


def _fork_log(node: LocalNode, kept: list[Event], target: ForkTarget, asked: RerunRequest) -> Fork:
    ended = frozenset(one for one in open_children(kept) if _was_over(node, one, kept[-1].timestamp))
    what = near(asked.file) if asked.file is not None else "the playbook"
    try:
        return build_fork(
            kept, target, node.catalog, ended=ended, new_child=node.child_id, new_id=lambda: str(uuid.uuid4())
        )
    except ForkMismatch as unfit:
        lines = "".join(f"\n  event {one.seq}: {one.message}" for one in unfit.found)
        earlier = min(one.keep for one in unfit.found)
        way = f"`--from {earlier}` keeps what fits" if earlier > 1 else "without --from it runs anew from the start"
        raise UsageError(f"{what} does not fit what is recorded up to event {kept[-1].seq}:{lines}\n{way}") from None
    except ReplayDiverged as differs:
        seq = differs.event.seq
        earlier = differs.cause if seq > differs.cause else seq - 1
        raise UsageError(
            f"{what} does not fit what is recorded up to event {kept[-1].seq}:\n  event {seq}: {differs}\n"
            f"`--from {earlier}` has that decided anew"
        ) from None


def _was_over(node: LocalNode, child: str, when: str) -> bool:
    found = node.log.summary(child)
    return found is not None and not found.alive and found.status in OVER and found.updated_at <= when


# --- the plan --------------------------------------------------------------------------------------------------------


class TaskKinds:
    """What is known of the tasks that ran."""

    def __init__(self, net: Net, effect_free: Callable[[str], bool]) -> None:
        self.net = net
        self.effect_free = effect_free

    def of(self, step: str, task: str) -> str:
        """The kind of a task; of one that is not in the playbook, nothing is known."""
        found = self.net.steps.get(step)
        return next((one.kind for one in found.all_tasks if one.name == task), "?") if found is not None else "?"


def _kinds(node: LocalNode, net: Net) -> TaskKinds:
    return TaskKinds(net, lambda name: name in node.kinds and node.kinds[name].effect_free)


def _plan(
    summary: Summary, events: list[Event], made: Fork, goes_on: tuple[PlaybookSource, Net], kinds: TaskKinds
) -> rerun_plan.ForkPlan:
    source, net = goes_on
    changed = source.hash != summary.playbook
    state, seq = made.state, made.seq
    last = events[seq - 1] if seq else None
    return rerun_plan.ForkPlan(
        summary.execution_id,
        summary.status,
        seq,
        len(events),
        f"{last.name} {last.entity_id}" if last is not None else None,
        summary.path,
        near(source.file),
        changed,
        rerun_plan.results(events[:seq]),
        rerun_plan.find_finished_steps(state) if seq else [],
        rerun_plan.find_pending_work(state)
        if seq
        else [rerun_plan.PendingWork(state.entry_step or net.start, "starts")],
        rerun_plan.effects(events, seq, kinds.of, kinds.effect_free),
        list(diff_values("workload", events[0].payload["workload"], state.workload)) if changed else [],
        [*rerun_plan.notes(state, alive=summary.is_attended), *_edit_hint(source, changed=changed)],
    )


def _edit_hint(source: PlaybookSource, *, changed: bool) -> list[str]:
    """A hint for whoever has corrected the file and forgot to say so."""
    if changed:
        return []
    try:
        same = Path(source.file).read_bytes() == source.text.encode()
    except OSError:
        return []
    told = f"{near(source.file)} was edited since, and is not used: `--with {near(source.file)}` takes it as it is now"
    return [] if same else [told]
