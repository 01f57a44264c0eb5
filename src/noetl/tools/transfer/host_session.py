"""A transfer inside the data host: its source, its targets and the current chunk. The engine calls each function here."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from noetl.drivers.datahost import Database, HostCall, confine_config
from noetl.expr import template
from noetl.tools.transfer.diagnosis import explain_error
from noetl.tools.transfer.file_sources import ChunkRead, FedSource, RowSource, source_of
from noetl.tools.transfer.mapping import reads_chunk, reads_data
from noetl.tools.transfer.targets import target_of
from noetl.tools.transfer.targets.target import Target, TargetChunk, TargetContext

_sessions: dict[str, TransferSession] = {}


def unpack(tree: Any) -> Any:
    """A configuration as the engine packed it: pairs are templates."""
    if isinstance(tree, tuple):
        return template(tree[1])
    if isinstance(tree, dict):
        return {key: unpack(part) for key, part in tree.items()}
    return [unpack(part) for part in tree] if isinstance(tree, list) else tree


class TransferSession:
    """One attempt at a transfer."""

    def __init__(self, running: HostCall, given: dict[str, Any]) -> None:
        self.scratch = Path(running.scratch / uuid.uuid4().hex)
        self.scratch.mkdir()
        self.size: int = given["size"]
        self.config: dict[str, Any] = given["config"]
        self.scopes = {**given["scopes"], "now": _now, "uuid": lambda: str(uuid.uuid4())}
        self.targets = [
            target_of(unpack(one), self._target_context(given, at)) for at, one in enumerate(given["targets"])
        ]
        self.source: RowSource | None = None
        author = (
            confine_config(given["restricted"], self.scratch) if given["source"]["kind"] == "duckdb" else self.config
        )
        self._given_source = {**given["source"], "config": author}
        #: nobody cares which rows are a chunk
        self._alike = not (given["sized"] or given["stream"] or any(map(_is_particular, unpack(given["targets"]))))
        self._with_data = [reads_data([one.given[key] for key in one.given]) for one in self.targets]
        self._database: Database | None = None
        self._cursors: dict[int, Any] = {}
        self._opening = threading.Lock()
        self._reading: Iterator[ChunkRead] | None = None
        self._reader = ThreadPoolExecutor(1)
        self._ahead: Future[ChunkRead | None] | None = None
        self.now: ChunkRead | None = None
        self.index = -1

    def _target_context(self, given: dict[str, Any], at: int) -> TargetContext:
        recorded = given["recorded"][at] if given["recorded"] else {}
        return TargetContext(
            scopes=self.scopes,
            scratch=self.scratch,
            token=f"{given['token']}_{at}",
            config=self.config,
            recorded=recorded.get("chunks", 0),
            rows=recorded.get("rows", 0),
            final=given["final"] or "finished" in recorded,
            finished="finished" in recorded,
            notes=given["notes"][at],
            stream=given["stream"],
        )

    # --- the source ------------------------------------------------------------------------------------------------------

    def open_source(self, running: HostCall) -> dict[str, Any]:
        self.source = _source(self._given_source, running, self.scratch, self.size)
        whole = getattr(self.source, "whole", None)
        return {"total": self.source.total, "identity": self.source.identity, "whole": whole}

    def read(self, running: HostCall, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The next chunk; None: there is none."""
        assert self.source is not None
        if self._reading is None:
            self.index = given["index"]
            # A target that has some of these chunks already must not get them again together with others.
            together = self._alike and all(one.chunks <= self.index for one in self.targets)
            self._reading = self.source.chunks(running, given["position"], together=together)
            if isinstance(self.source, FedSource):
                self.source.begin(given["position"])
        if isinstance(self.source, FedSource) and self.source.wants:
            return {"wants": True}
        if self.now is not None:
            self.index += self.now.chunks
            self.now.chunk.forget()
        with running.attach(self.source):
            self.now = self._ahead.result() if self._ahead is not None else self._next()
        self._ahead = None
        if self.now is None:
            return None
        if not self.now.last and not isinstance(self.source, FedSource):
            # While the targets take this one, the next one is read.
            self._ahead = self._reader.submit(self._next)
        chunk, last, position, chunks = self.now
        return {"size": chunk.size, "last": last, "position": position, "index": self.index, "chunks": chunks}

    def _next(self) -> ChunkRead | None:
        """A chunk, with everything done for it that needs no turn."""
        assert self._reading is not None
        found = next(self._reading, None)
        if found is not None:
            for target in self.targets:
                target.prepare(found.chunk)
        return found

    # --- the targets -----------------------------------------------------------------------------------------------------

    def write(self, running: HostCall, at: int) -> tuple[dict[str, Any], bytes]:
        assert self.now is not None
        target, chunk = self.targets[at], self.now.chunk
        if not chunk.size and not target.uses_columns:
            return {}, b""
        connection = self._cursor(running, at)
        given = TargetChunk(
            self.index,
            self.index + self.now.chunks,
            self.now.chunk,
            self._about(at, connection),
            connection,
            str(self.scratch),
        )
        if connection is None:
            return target.write(running, given)
        with running.attach(connection):
            try:
                return target.write(running, given)
            except Exception as error:
                raise explain_error(error, chunk, connection, chunk.columns()) from error

    def _about(self, at: int, connection: Any) -> Mapping[str, Any]:
        """What templates know as `chunk`; its rows only if they ask for them."""
        assert self.now is not None
        assert self.source is not None
        chunk, total = self.now.chunk, self.source.total
        about: dict[str, Any] = {
            "index": self.index,
            "size": chunk.size,
            "first": not self.index,
            "last": self.now.last,
        }
        if total is not None:
            about["total"] = -(-total // self.size)
        if self._with_data[at]:
            about["data"] = chunk.rows(connection)
        return about

    def _cursor(self, running: HostCall, at: int) -> Any:
        """A connection for one target; it works in a thread of its own. None: there is no need for DuckDB."""
        if self._without_duckdb(at):
            return None
        with self._opening:
            if self._database is None:
                self._database = Database(running, None, self.config)
            assert self.now is not None
            self._database.reserve_memory(self.now.chunk.bytes * len(self.targets), len(self.targets))
            if at not in self._cursors:
                self._cursors[at] = self._database.connection.cursor()
            return self._cursors[at]

    def _without_duckdb(self, at: int) -> bool:
        """Whether the rows need not be read by SQL."""
        assert self.now is not None
        if self.targets[at].given["kind"] == "postgres":
            return not self._with_data[at] and self.targets[at].takes(self.now.chunk)
        return (
            isinstance(self.source, FedSource)
            and self.targets[at].given["kind"] != "duckdb"
            and not self._is_parquet(at)
        )

    def _is_parquet(self, at: int) -> bool:
        given = self.targets[at].given
        return given.get("format") == "parquet" or (
            given.get("format") is None and ".parquet" in str(given.get("path"))
        )

    def close(self) -> None:
        if self._ahead is not None and self.source is not None and not self._ahead.done():
            self.source.interrupt()
        self._reader.shutdown(wait=True)
        for target in self.targets:
            target.close()
        if self.source is not None:
            self.source.close()
        if self._database is not None:
            self._database.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _is_particular(target: Mapping[str, Any]) -> bool:
    """Whether it makes a difference to a target what a chunk is."""
    return target["kind"] == "http" or target.get("on_error") == "warn" or reads_chunk(target)


def _source(given: Mapping[str, Any], running: HostCall, scratch: Path, size: int) -> RowSource:
    if given["kind"] == "s3":
        from noetl.tools.transfer.object_source import ObjectSource

        return ObjectSource(given, running, scratch, size)
    if given["kind"] == "postgres":
        from noetl.tools.transfer.postgres_source import PostgresSource

        return PostgresSource(given, scratch, size, running)
    return source_of(given, running, scratch, size)


def _now() -> str:
    from datetime import UTC, datetime
    from time import time

    return datetime.fromtimestamp(time(), UTC).isoformat()


# --- calls -----------------------------------------------------------------------------------------------------------


def open(running: HostCall, given: dict[str, Any]) -> dict[str, Any]:  # noqa: A001  it is what the engine asks for
    """Take up a transfer: which chunks each target has."""
    session = TransferSession(running, given)
    try:
        # The source first: its database may be a target too, under other restrictions, and is closed by then.
        about = session.open_source(running) if not given["final"] else {}
        chunks = [target.open(running) for target in session.targets]
    except BaseException:
        session.close()
        raise
    _sessions[given["session"]] = session
    return {**about, "chunks": chunks}


def restart(running: HostCall, given: dict[str, Any]) -> list[bool]:
    """Undo what earlier attempts did; for each target, whether it could be."""
    return [target.restart(running) for target in _sessions[given["session"]].targets]


def feed(_running: HostCall, given: dict[str, Any]) -> None:
    """Take rows from the engine."""
    source = _sessions[given["session"]].source
    assert isinstance(source, FedSource)
    source.feed(given["lines"], ended=given["ended"], cut=given["cut"])


def read(running: HostCall, given: dict[str, Any]) -> dict[str, Any] | None:
    """Go to the next chunk."""
    return _sessions[given["session"]].read(running, given)


def write(running: HostCall, given: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Give the chunk in hand to a target."""
    return _sessions[given["session"]].write(running, given["target"])


def commit(running: HostCall, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Make durable what the targets have."""
    targets: list[Target] = _sessions[given["session"]].targets
    for target in targets:
        target.commit(running)
    return [{"chunks": target.chunks, "rows": target.rows, "bytes": target.bytes} for target in targets]


def finish(running: HostCall, given: dict[str, Any]) -> dict[str, Any]:
    """Make a target's rows visible."""
    target = _sessions[given["session"]].targets[given["target"]]
    reference = target.finish(running)
    return {"ref": reference, "rows": target.rows, "bytes": target.bytes}


def forget(_running: HostCall, given: dict[str, Any]) -> None:
    """It is recorded that a target has finished."""
    _sessions[given["session"]].targets[given["target"]].forget()


def abort(running: HostCall, given: dict[str, Any]) -> bool:
    """Remove what a target must not show; whether there was anything."""
    target: Target = _sessions[given["session"]].targets[given["target"]]
    return target.abort(running)


def close(_running: HostCall, given: dict[str, Any]) -> None:
    """Let go of everything."""
    session = _sessions.pop(given["session"], None)
    if session is not None:
        session.close()
