"""A transfer, chunk by chunk: all targets take a chunk before the next is read, and how far it is gets recorded.

What is recorded is what every target has committed. After a crash each target knows which chunks it has; those that
another one still lacks are read again and passed over by those that do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from noetl.drivers.datahost import CallFailed, DataHost, DataHosts, HostReply
from noetl.expr import is_reference
from noetl.model.output import Failure, Output, failed, failure, ok
from noetl.ports import Call, World
from noetl.tools.transfer.data_sources import Feed, StoredResultFeed, ValueFeed, send, with_auth
from noetl.tools.transfer.plan import QUERIED, InvalidTransfer, TransferPlan, pack, plan_of, reachability_failure
from noetl.tools.transfer.targets.target import place_of

# How far a transfer is: what is recorded of it, and what another attempt finds of that.


# Transfers that failed where another attempt may go on. What nobody has taken up at the end of the execution is removed.


class UnfinishedTransfers:
    """Those of one execution."""

    def __init__(self) -> None:
        self._left: dict[str, Callable[[], Awaitable[None]]] = {}

    @classmethod
    async def of(cls, world: World) -> UnfinishedTransfers:
        """Those of an execution; they are closed before its data hosts."""
        await DataHosts.of(world)

        async def make() -> UnfinishedTransfers:
            return cls()

        return await world.resource("unfinished transfers", make, cls.close)

    def register(self, token: str, remove: Callable[[], Awaitable[None]]) -> None:
        """Leave what a transfer has made so far; `remove` does away with it."""
        self._left[token] = remove

    def claim(self, token: str) -> None:
        """Another attempt has come."""
        self._left.pop(token, None)

    async def close(self) -> None:
        """Remove what is left."""
        left, self._left = self._left, {}
        for remove in left.values():
            with contextlib.suppress(CallFailed):
                await remove()


class Progress(msgspec.Struct):
    """What is recorded; also what templates of progress bars are made of."""

    rows: int = 0
    chunks: int = 0
    bytes: int = 0
    #: rows in all, or what part of the source has been read, where either is known
    total: int | None = None
    part: float | None = None
    #: where the source goes on, and what it must still be for that to be true
    position: dict[str, Any] = {}
    identity: Any = None
    #: by target: the chunks and rows it has, where its notes are, and what went wrong where that is only a warning
    targets: list[dict[str, Any]] = []
    #: rows behind which an attempt ended with a chunk of its own, because the source had no more to give then
    cuts: list[int] = []
    #: the last attempt ended behind a whole page, and all targets have what came before
    paused: bool = False
    #: no chunk follows
    final: bool = False
    #: whose progress it is: a rerun is told of that of another run
    token: str = ""


def read_progress(call: Call, plan: TransferPlan) -> Progress:
    """How far an earlier attempt came; a rerun begins anew, for the targets know nothing of it. CallFailed: it cannot."""
    found = msgspec.convert(dict(call.progress), Progress) if call.progress else Progress(token=plan.token)
    if found.token == plan.token:
        return found
    for at, (target, known) in enumerate(zip(plan.targets, found.targets, strict=False), 1):
        if known["chunks"] and (target["kind"] == "http" or target["mode"] in ("append", "insert")):
            message = (
                f"the transfer cannot be done again: target {at} got {known['rows']:,} rows in the run that this is a rerun "
                "of, which cannot be taken back; rerun from before this task if they are to come twice, or use the mode "
                "upsert or replace"
            )
            raise CallFailed(failure("not-resumable", message))
    return Progress(token=plan.token)


_SESSION = "noetl.tools.transfer.host_session"
#: chunks are committed and recorded together, after so many seconds or rows; what goes over a network at once
_EVERY_S = 0.5
_EVERY_ROWS = 150_000


async def transfer(call: Call, world: World) -> Output:
    """Carry out a task of this kind."""
    try:
        plan = plan_of(call, world)
        if (problem := reachability_failure(call.spec, plan)) is not None:
            return failed(problem)
        feed = feed_of(call, world, plan)
        if feed is not None and not read_progress(call, plan).targets:
            feed.begin({})  # the first rows are on their way while the host starts
        try:
            async with (await DataHosts.of(world)).lease(shared=plan.uses_databases, spec=call.spec) as host:
                return _build_output(await TransferAttempt(call, world, plan, host, feed).run())
        finally:
            if feed is not None:
                await feed.close()
    except InvalidTransfer as error:
        return failed(failure("type", str(error)))
    except CallFailed as error:
        told = dict(error.failure)
        http = told.pop("http", None)  # of a source that is an API, what it answered
        return failed(told) if http is None else failed(told, http=http)


def _build_output(data: dict[str, Any]) -> Output:
    """The output, with a warning for each target that failed and was let go on."""
    warnings = [
        f"{one['error']['message']} ({one['failed']:,} of {max(1, data['chunks']):,} chunks failed)"
        for one in data["targets"]
        if one.get("failed")
    ]
    output = ok(data)
    return {**output, "meta": {"warnings": warnings}} if warnings else output


def feed_of(call: Call, world: World, plan: TransferPlan) -> Feed | None:
    """The feed of a source; None: the data host reads it by itself."""
    source = plan.source
    if source["kind"] == "http":
        from noetl.tools.transfer.page_reader import PageFeed

        return PageFeed(with_auth(call, source.get("auth")), world, plan)
    if source["kind"] != "data":
        return None
    data = source.get("data")
    if data is not None and is_reference(data):
        return StoredResultFeed(data, plan.size, world)
    return ValueFeed(data, source.get("path"))


class TransferAttempt:
    """One attempt at a transfer."""

    def __init__(self, call: Call, world: World, plan: TransferPlan, host: DataHost, feed: Feed | None) -> None:
        self._call, self._world, self._plan, self._host = call, world, plan, host
        self._feed = feed
        self._session = uuid.uuid4().hex
        self._now = read_progress(call, plan)
        #: whether an earlier attempt may have done something
        self._again = bool(self._now.targets)
        #: why the feed has nothing more to give
        self._broken: Failure | None = None
        #: by target: chunks it has from earlier attempts, or has failed to take
        self._has: list[int] = []
        self._whole: int | None = None
        self._recorded_at = time.monotonic()
        self._rows_since = 0
        careful = any(one["kind"] == "http" or one.get("on_error") == "warn" for one in plan.targets)
        self._every_s = 0.0 if careful else _EVERY_S

    async def run(self) -> dict[str, Any]:
        """Move everything: the task's data."""
        (await UnfinishedTransfers.of(self._world)).claim(self._plan.token)
        try:
            await self._open()
            try:
                while not self._now.final:
                    await self._next()
                return await self._finish()
            except BaseException:
                await self._give_up()
                raise
        finally:
            closing = asyncio.ensure_future(self._do("close"))
            # Whoever is cancelled does not wait for it, and then nobody else asks what became of it.
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())
            with contextlib.suppress(CallFailed):
                await asyncio.shield(closing)

    async def _do(self, verb: str, **given: Any) -> HostReply:
        return await self._host.call(f"{_SESSION}:{verb}", {"session": self._session, **given})

    # --- taking it up ----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        plan, now = self._plan, self._now
        if not now.targets:
            now.targets = [{"chunks": 0, "rows": 0, "notes": self._notes(at)} for at in range(len(plan.targets))]
        reply = await self._open_session()
        known = zip(reply.value["chunks"], now.targets, strict=True)
        self._has = [_chunks_to_skip(has, one) for has, one in known]
        if now.final and min(self._has) < now.chunks:
            # An attempt that failed at the very end has removed what was staged, and did not come to say so.
            now.final = False
            await self._do("close")
            await self._open()
            return
        if now.final:
            return
        self._whole = reply.value["whole"]
        now.total = reply.value["total"]
        await self._position(reply.value["identity"])
        # Before anything is written: a crash in the first chunk is known of, and which rows the source had then.
        await self._report_progress()
        if self._feed is not None and self._again:
            self._feed.begin(now.position)

    async def _open_session(self) -> HostReply:
        """Open a session in the host."""
        plan, now, source = self._plan, self._now, self._plan.source
        if self._feed is not None:
            source = {"kind": source["kind"], "total": self._feed.total, "cuts": now.cuts}
        return await self._do(
            "open",
            source=pack(source) | ({"query": plan.source["query"]} if plan.source["kind"] in QUERIED else {}),
            targets=[pack(one) for one in plan.targets],
            size=plan.size,
            sized=plan.sized,
            stream=plan.stream,
            token=plan.token,
            scopes=plan.scopes,
            config=plan.config,
            restricted=plan.restricted,
            recorded=now.targets,
            notes=[one["notes"] for one in now.targets],
            final=now.final,
        )

    def _notes(self, at: int) -> str:
        if self._plan.targets[at]["kind"] not in ("file", "s3"):
            return ""
        return place_of(self._world.draft(".notes"), self._call.execution_id, self._plan.token, at)

    async def _position(self, identity: Any) -> None:
        """Where to begin: behind what every target has, or at the start again."""
        now, before = self._now, self._now.identity
        now.identity = identity
        if not self._again and not any(self._has):
            return
        if self._is_at_unseen_page():
            return
        if self._is_stable(before, identity):
            if min(self._has) < now.chunks:
                now.position, now.rows, now.chunks = {}, 0, 0
            return
        restarted = (await self._do("restart")).value
        if not all(restarted):
            where = ", ".join(f"target {at}" for at, good in enumerate(restarted, 1) if not good)
            why, way = _describe_change(self._plan.source)
            message = f"the transfer cannot go on: {why}, and what {where} has got cannot be taken back; {way}"
            raise CallFailed(failure("not-resumable", message))
        now.position, now.rows, now.chunks, now.bytes, now.cuts = {}, 0, 0, 0, []
        self._has = [0] * len(self._has)
        for known in now.targets:
            _forget(known, "failed", "error", "finished")

    def _is_at_unseen_page(self) -> bool:
        """Whether it is at the beginning of a page that nobody has seen: whoever waited for it would see it now, too."""
        now, paused = self._now, self._now.paused
        now.paused = False  # from now on somebody may have seen it
        return paused and "page" in now.position and min(self._has) >= now.chunks

    def _is_stable(self, before: Any, identity: Any) -> bool:
        """Whether the source brings the same rows in the same order again."""
        if self._feed is not None:
            return self._feed.stable
        if self._plan.source["kind"] in QUERIED:
            return bool(self._plan.source["order_by"])
        return before in (None, identity)

    # --- chunks ----------------------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        """Read a chunk and have all targets take it."""
        now = self._now
        found = (await self._do("read", position=now.position, index=now.chunks)).value
        if found is not None and found.get("wants"):
            await self._fetch()
            return
        if found is None:
            await self._record(final=True)
            return
        writing = [self._write(at, found) for at in range(len(self._plan.targets))]
        done = await asyncio.gather(*writing, return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error
        now.rows += found["size"]
        now.chunks = found["index"] + found["chunks"]
        now.position = found["position"] if self._feed is None else self._feed.position_after(found["position"]["rows"])
        self._rows_since += found["size"]
        due = time.monotonic() - self._recorded_at >= self._every_s or self._rows_since >= _EVERY_ROWS
        if found["last"] or due:
            await self._record(final=found["last"])

    async def _fetch(self) -> None:
        """Hand over more rows. CallFailed: there are none to be had at the moment, and all others are handed over."""
        assert self._feed is not None
        now = self._now
        if self._broken is not None:
            now.paused = True
            now.cuts = [*now.cuts, now.rows]
            raise CallFailed(self._broken)
        handed = await self._feed.take()
        self._broken = handed.failure
        await self._do("feed", lines=handed.lines, ended=handed.ended, cut=handed.failure is not None)

    async def _write(self, at: int, found: dict[str, Any]) -> None:
        index, chunks, size = found["index"], found["chunks"], found["size"]
        if index < self._has[at]:
            return
        target, known = self._plan.targets[at], self._now.targets[at]
        try:
            reply = await self._do("write", target=at)
            if reply.value.get("requests"):
                key = f"{self._call.key}/{at}/{index}"
                await send(self._call, self._world, reply, key=key, auth=target.get("auth"))
                known["rows"] += size
                known["bytes"] = known.get("bytes", 0) + len(reply.blob)
        except CallFailed as error:
            self._world.log(self._call, "stderr", f"warning: chunk {index}: {self._warn(at, error)}\n")
        self._has[at] = index + chunks

    def _warn(self, at: int, error: CallFailed) -> str:
        """Remember what went wrong with a target, and how it is told. CallFailed: it is more than a warning."""
        if error.failure.get("at") == "source":
            raise error
        target, known = self._plan.targets[at], self._now.targets[at]
        message = f"target {at + 1} ({target['kind']}): {error.failure['message']}"
        told = {**error.failure, "message": message, "target": at + 1}
        if target.get("on_error") != "warn":
            raise CallFailed(told) from None
        known["failed"] = known.get("failed", 0) + 1
        known.setdefault("error", told)
        return message

    async def _record(self, *, final: bool) -> None:
        """Commit, and record how far it is."""
        await self._commit()
        self._now.final = final
        await self._report_progress()
        self._recorded_at, self._rows_since = time.monotonic(), 0

    async def _commit(self) -> None:
        now = self._now
        found = (await self._do("commit")).value
        for at, (known, told) in enumerate(zip(now.targets, found, strict=True)):
            if "finished" in known:
                continue
            # Of what was sent the host does not know whether it came.
            if self._plan.targets[at]["kind"] == "http":
                known["chunks"], told["bytes"] = self._has[at], known.get("bytes", 0)
            else:
                known |= {"chunks": self._has[at] if known.get("failed") else told["chunks"], "rows": told["rows"]}
        now.bytes = sum(told["bytes"] for told in found)
        if self._whole and "offset" in now.position:
            now.part = round(min(1.0, now.position["offset"] / self._whole), 4)

    async def _report_progress(self) -> None:
        await self._world.progress(self._call, msgspec.to_builtins(self._now))

    # --- the end -----------------------------------------------------------------------------------------------------------

    async def _finish(self) -> dict[str, Any]:
        now, entries = self._now, []
        for at, target in enumerate(self._plan.targets):
            known = now.targets[at]
            found = known.get("finished") or await self._finish_target(at, target)
            if "failed" not in known:
                # First it is recorded, then what it would be known by without that is removed.
                known["finished"] = found
                await self._report_progress()
                await self._do("forget", target=at)
            told = {key: known[key] for key in ("failed", "error") if key in known}
            entries.append({"kind": target["kind"], "mode": target["mode"], **found, **told})
        size = sum(entry.get("bytes") or 0 for entry in entries)
        return {"rows": now.rows, "chunks": now.chunks, "bytes": size, "targets": entries}

    async def _finish_target(self, at: int, target: dict[str, Any]) -> dict[str, Any]:
        known = self._now.targets[at]
        found: dict[str, Any] = {"ref": None, "rows": 0}
        try:
            if known.get("failed") and target["mode"] == "replace":
                # Not all of it is in, so nothing of it is shown.
                with contextlib.suppress(CallFailed):
                    await self._do("abort", target=at)
            else:
                found = (await self._do("finish", target=at)).value
        except CallFailed as error:
            self._world.log(self._call, "stderr", f"warning: {self._warn(at, error)}\n")
        if target["kind"] == "http":
            found |= {"rows": known["rows"], "bytes": known.get("bytes", 0)}
        if found["ref"] is not None:
            found = {**found, "ref": self._world.seal(found["ref"])}
        return found

    async def _give_up(self) -> None:
        """Record what was committed, remove what must not be seen. A crash does neither, and is the same to the targets."""

        async def tidy() -> None:
            with contextlib.suppress(CallFailed):
                await self._commit()
            if self._now.paused and self._broken is not None and self._broken["retryable"]:
                (await UnfinishedTransfers.of(self._world)).register(self._plan.token, self._remove_leftovers)
            else:
                await self._abort()
            await self._report_progress()

        tidying = asyncio.ensure_future(tidy())
        await asyncio.wait([tidying], timeout=10)

    async def _abort(self) -> None:
        for at, (target, known) in enumerate(zip(self._plan.targets, self._now.targets, strict=True)):
            if "finished" in known:
                continue
            removed = target["mode"] == "replace"
            with contextlib.suppress(CallFailed):
                removed = (await self._do("abort", target=at)).value
            if removed:  # so the next attempt begins with it anew
                _forget(known, "failed", "error")
                self._now.final = False

    async def _remove_leftovers(self) -> None:
        """No other attempt has come: remove what was left for it."""
        self._session = uuid.uuid4().hex
        async with (await DataHosts.of(self._world)).lease(
            shared=self._plan.uses_databases, spec=self._call.spec
        ) as self._host:
            await self._open_session()
            await self._abort()
            await self._do("close")


def _forget(known: dict[str, Any], *keys: str) -> None:
    for key in keys:
        known.pop(key, None)


def _chunks_to_skip(has: int, known: dict[str, Any]) -> int:
    """How many chunks a target is not to get: of one that has finished or given up, none that it was offered before."""
    return max(has, known["chunks"]) if "failed" in known or "finished" in known else has


def _describe_change(source: dict[str, Any]) -> tuple[str, str]:
    """Why a source may bring other rows than before, and what to do about it."""
    modes = "use the mode upsert or replace"
    if source["kind"] in ("file", "s3"):
        return f"`{source['path']}` has changed since it began", f"bring it back as it was, or {modes}"
    order = "name unique columns in `source.order_by`"
    if source["kind"] == "http":
        return "the API may bring other rows than before", f"{order} if it sorts by them, or {modes}"
    return "its query may bring other rows than before, or in another order", f"{order}, or {modes}"
