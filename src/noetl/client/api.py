"""Client: the operations of a NoETL server as methods. Commands use it, and so can your programs."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from noetl.client.address import ServerAddress, parse_address
from noetl.client.event_stream import StreamParser
from noetl.client.owner_token import TokenSource
from noetl.client.responses import decode_answer
from noetl.client.transport import Request, StreamedResponse, Transport
from noetl.config import Secret, parse_servers as split_servers, settings
from noetl.errors import CallInvalid, ClientError, ServerUnavailable, UnexpectedAnswer
from noetl.model.access import ApiToken, AuditEntry, TokenRequest
from noetl.model.events import Event
from noetl.ports import OVER, LogLine, PlaybookSource, Summary

# What the operations of the API return. Fields that a newer server adds are ignored.


class StartedExecution(msgspec.Struct, frozen=True):
    """An execution that was started, now or when its idempotency key was first used."""

    execution_id: str
    status: str
    path: str
    #: it was started before, under the same key
    repeated: bool = False


class RequestEffect(msgspec.Struct, frozen=True):
    """What a request to an execution caused."""

    execution_id: str
    #: of the execution, afterwards
    status: str
    #: the name of the event that records it
    event: str
    #: its number; None: it was so already, or it is still to come
    seq: int | None = None


class EventPage(msgspec.Struct, frozen=True):
    """Some events of an execution, in order."""

    events: list[Event]
    #: what `after` is for the next page
    after: int
    #: the execution is over, and this page has the last of it
    over: bool


class ExecutionPage(msgspec.Struct, frozen=True):
    """Some executions, the latest first."""

    executions: list[Summary]
    #: what `cursor` is for the next page; None: this is the last
    cursor: str | None = None


class NumberedLine(msgspec.Struct, frozen=True):
    """A line that a tool wrote, and its position."""

    at: int
    line: LogLine


class LinePage(msgspec.Struct, frozen=True):
    """Some lines that tools wrote, in order."""

    lines: list[NumberedLine]
    #: what `after` is for the next page
    after: int
    more: bool


class _TokenPage(msgspec.Struct, frozen=True):
    tokens: list[ApiToken]


class _NewToken(msgspec.Struct, frozen=True):
    token: str


class _AuditPage(msgspec.Struct, frozen=True):
    entries: list[AuditEntry]
    cursor: int | None = None


class WaitReasons(msgspec.Struct, frozen=True):
    """What an execution waits for that is no part of it, such as workers; in words."""

    waits: list[str]


class ResultStream:
    """A payload of the result store, read once while it is open: `b"".join(stream)` is all of it."""

    def __init__(self, content_type: str, blocks: Iterator[bytes]) -> None:
        #: `application/json`, `application/x-ndjson` for lists, or what a tool stored
        self.content_type = content_type
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks


class CalledPlaybook(msgspec.Struct, frozen=True):
    """A playbook that is sent along because another calls it."""

    text: str
    #: where its text comes from; relative paths in it start at its folder
    file: str
    #: what callers call it
    names: list[str]


T = TypeVar("T")
#: seconds that each server has for all of its answer, the connection included, besides what it was asked to wait
_TIMEOUT_S: Final = 60.0
#: executions, and events, of a page
_EXECUTIONS, _EVENTS = 1_000, 10_000
#: entries of the audit log, of a page
_ENTRIES = 1_000
_STREAM: Final = "text/event-stream"
#: seconds without a byte after which an event stream counts as dead; a server sends a line every 15
_SILENCE_S: Final = 45.0
#: seconds in which a server that is restarted may come back, and between two attempts
_OUTAGE_S, _RETRY_S = 60.0, 0.5
#: seconds that servers have whose answer is not needed
_OTHERS_S: Final = 2.0


class Client:
    """A NoETL server, or several that share a store: the first that answers is used. Threads may share a client.

    `server` is an address, several with commas between them, or a list; without it NOETL_SERVER is used. `token` is what
    `noetl token add` printed; without it NOETL_TOKEN is used, or what a server of this machine has left in NOETL_HOME. Every method raises a `ClientError` when a call fails. A call that the server's limits refuse is tried again for a minute;
    `report` hears of it, else the log of the name `noetl.client`.
    """

    def __init__(
        self,
        server: str | Sequence[str] | None = None,
        token: str | Secret | None = None,
        *,
        timeout_s: float = _TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        home = None
        if server is None or token is None:
            configured = settings()
            server = configured.server if server is None else server
            token, home = (configured.token, configured.home) if token is None else (token, None)
        tokens = TokenSource(Secret(token) if isinstance(token, str) else token, home)
        self._transport = Transport(_parse_servers(server), tokens, timeout_s=timeout_s, tls=tls, report=report)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def server(self) -> str:
        """The address of the server that answered last."""
        return self._transport.address.url

    # --- starting ----------------------------------------------------------------------------------------------------

    def start(
        self,
        path: str | None = None,
        payload: Mapping[str, Any] | None = None,
        *,
        text: str | None = None,
        file: str | Path | None = None,
        calls: Sequence[CalledPlaybook] = (),
        legacy: bool = False,
        key: str | None = None,
    ) -> StartedExecution:
        """Start an execution: of a playbook that was run before, by its `path`, or of a playbook's `text`.

        With a `key` (an idempotency key) the execution is started once, however often you call this with the same arguments.
        `file` says where the text comes from; relative paths in it start at its folder, on the server's machine.
        """
        if (path is None) == (text is None):
            raise CallInvalid(
                "start takes either `path`, that of a playbook that was run before, or `text`, a playbook"
            )
        body: dict[str, Any] = {"payload": payload or {}}
        if path is not None:
            body["path"] = path
        if text is not None:
            body |= {"playbook": text, "legacy": legacy, "calls": list(calls)}
        if file is not None:
            body["file"] = str(file)
        headers = {"Idempotency-Key": key} if key is not None else {}
        request = Request(
            "POST", "/api/executions", _encode(body), headers, repeatable=key is not None
        )  # fmt: skip
        return self._decode(self._transport.call(request).body, StartedExecution)

    # --- looking -----------------------------------------------------------------------------------------------------

    def status(self, execution_id: str) -> Summary:
        """Return how an execution stands, briefly. The beginning of an id is enough. NotFound: there is none."""
        return self._get(_one(execution_id), Summary, view="summary")

    def show(self, execution_id: str) -> dict[str, Any]:
        """Return how an execution stands, with its steps, its output and its error."""
        return self._get(_one(execution_id), dict[str, Any])

    def output(self, execution_id: str) -> Any:
        """Return the output of an execution; where it is larger than `max_payload_bytes`, its reference under `ref`.

        The limit is that of the playbook, `executor.spec.policy.limits.max_payload_bytes`: 1,048,576 bytes by default.
        """
        return self._get(_one(execution_id), dict[str, Any], full_output=True).get("output")

    def executions(
        self, *, limit: int = 50, unfinished: bool = False, parent: str | None = None, before: str | None = None
    ) -> list[Summary]:
        """Return executions, the latest first; `before`: only those that are older than this one."""
        found: list[Summary] = []
        while len(found) < limit:
            query = {"limit": min(_EXECUTIONS, limit - len(found)), "unfinished": unfinished, "parent": parent}
            page = self._get("/api/executions", ExecutionPage, **query, cursor=before)
            found += page.executions
            if page.cursor is None:
                break
            if not page.executions or page.cursor == before:
                raise self._no_progress("executions")
            before = page.cursor
        return found

    def events(self, execution_id: str, *, after: int = 0, limit: int = _EVENTS, wait_s: int = 0) -> EventPage:
        """Return the next events of an execution; where there are none yet, the server waits so many seconds for one."""
        query = {"after": after, "limit": limit, "wait": wait_s or None}
        path = _with_query(f"{_one(execution_id)}/events", query)
        return self._decode(self._transport.call(Request("GET", path, wait_s=wait_s)).body, EventPage)

    def lines(self, execution_id: str, *, after: int = 0) -> list[tuple[int, LogLine]]:
        """Return the lines that tools wrote, each with its position."""
        found: list[tuple[int, LogLine]] = []
        more = True
        while more:
            page = self._get(f"{_one(execution_id)}/logs", LinePage, after=after)
            found += [(one.at, one.line) for one in page.lines]
            if page.more and (not page.lines or page.after <= after):
                raise self._no_progress("lines")
            after, more = page.after, page.more
        return found

    def snapshot(self, execution_id: str, *, upto: int | None = None) -> tuple[int, bytes] | None:
        """Return a stored state of an execution and the event that it stands after; None: there is none."""
        answer = self._transport.call(Request("GET", _with_query(f"{_one(execution_id)}/snapshot", {"upto": upto})))
        seq = answer.head.header("noetl-seq")
        return (self._decode(seq, int), answer.body) if answer.status == 200 and seq is not None else None

    def source(self, content_hash: str) -> PlaybookSource:
        """Return a playbook by the hash of its text."""
        return self._get(f"/api/sources/{_quote(content_hash)}", PlaybookSource)

    def latest_source(self, path: str) -> PlaybookSource:
        """Return the playbook that was last run under a path."""
        return self._get("/api/sources", PlaybookSource, path=path)

    def waits(self, execution_id: str) -> list[str]:
        """Return what an execution waits for that is no part of it, in words. Only the server that runs it knows."""
        path = f"{_one(execution_id)}/waits"
        found = _ask_waits(self._transport, path)
        for other in self._transport.others(_OTHERS_S) if not found else ():
            found = found or _ask_waits(other, path)
            other.close()
        return found

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers of the server."""
        return self._get("/api/workers", dict[str, list[dict[str, Any]]]).get("workers", [])

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the pipelines that no worker brought to an end, with the reason."""
        return self._get("/api/dead-letters", dict[str, list[dict[str, Any]]]).get("dead_letters", [])

    @contextmanager
    def open_result(
        self, reference: Mapping[str, Any], *, start: int = 0, stop: int | None = None
    ) -> Iterator[ResultStream]:
        """Open a stored payload: iterate over its bytes, block by block; of a list, over a range of elements."""
        body = _encode({"ref": reference, "start": start, "stop": stop})
        with self._transport.stream(Request("POST", "/api/results", body)) as answer:
            kind = (answer.head.header("content-type") or "").partition(";")[0]
            yield ResultStream(kind, answer.blocks)

    # --- following ---------------------------------------------------------------------------------------------------

    def follow(self, execution_id: str, *, after: int = 0, outage_s: float = _OUTAGE_S) -> Iterator[Event]:
        """Yield the events of an execution as they happen, until it is over.

        When the connection breaks or the server is restarted, it resumes after the last event. ServerUnavailable: no server
        answered for `outage_s` seconds.
        """
        away_since: float | None = None
        while True:
            headers = {"Accept": _STREAM, "Last-Event-ID": str(after)}
            request = Request("GET", f"{_one(execution_id)}/events", headers=headers)
            try:
                with self._transport.stream(request, idle_s=_SILENCE_S) as answer:
                    away_since = None
                    for event in self._parse_stream(answer):
                        if event is None:
                            return
                        after = event.seq
                        yield event
            except ServerUnavailable:
                away_since = away_since if away_since is not None else time.monotonic()
                if time.monotonic() - away_since >= outage_s:
                    raise
            time.sleep(_RETRY_S)

    def _parse_stream(self, answer: StreamedResponse) -> Iterator[Event | None]:
        """Yield events for as long as a stream lasts; None: the execution is over."""
        if answer.head.status == 204:
            yield None
            return
        kind = answer.head.header("content-type") or "no content type"
        if not kind.lower().startswith(_STREAM):
            raise UnexpectedAnswer(
                f"{self.server} did not answer as a NoETL server does: {kind} is no stream of events"
            )
        parser = StreamParser()
        for block in answer.blocks:
            for message in parser.feed(block):
                yield None if message.event == "end" else self._decode(message.data, Event)

    def wait(self, execution_id: str) -> Summary:
        """Wait until an execution is over; return how it stands then."""
        found = self.status(execution_id)
        if found.status not in OVER:
            for _ in self.follow(found.execution_id, after=found.seq):
                pass
            found = self.status(found.execution_id)
        return found

    # --- acting ------------------------------------------------------------------------------------------------------

    def cancel(self, execution_id: str, why: str = "it was cancelled") -> RequestEffect:
        """End an execution for good. RequestConflict: it is over."""
        return self._act(execution_id, "cancel", {"why": why})

    def pause(self, execution_id: str) -> RequestEffect:
        """Start nothing new of an execution until it is unpaused."""
        return self._act(execution_id, "pause", {})

    def unpause(self, execution_id: str) -> RequestEffect:
        """Let a paused execution go on."""
        return self._act(execution_id, "unpause", {})

    def signal(self, execution_id: str, name: str, data: Any = None) -> RequestEffect:
        """Send a signal to the step that waits for it, now or later."""
        return self._act(execution_id, "signal", {"name": name, "data": data})

    def _act(self, execution_id: str, verb: str, body: Mapping[str, Any]) -> RequestEffect:
        # Sent once: a signal that is sent twice may let two steps go on.
        request = Request("POST", f"{_one(execution_id)}/{verb}", _encode(body), repeatable=False)
        return self._decode(self._transport.call(request).body, RequestEffect)

    # --- access ------------------------------------------------------------------------------------------------------

    def tokens(self) -> list[ApiToken]:
        """Return what is known of the tokens that servers admit; the tokens themselves, and their hashes, are not shown."""
        return self._get("/api/tokens", _TokenPage).tokens

    def add_token(self, wish: TokenRequest) -> str:
        """Make a token; it is shown this once. RequestConflict: its name is taken."""
        request = Request("POST", "/api/tokens", _encode(msgspec.to_builtins(wish)), repeatable=False)
        return self._decode(self._transport.call(request).body, _NewToken).token

    def remove_token(self, name: str) -> None:
        """Remove a token. NotFound: there is none of that name."""
        self._transport.call(Request("DELETE", f"/api/tokens/{_quote(name)}", repeatable=False))

    def audit(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        who: str | None = None,
        action: str | None = None,
        limit: int = 100,
    ) -> list[AuditEntry]:
        """Return entries of the audit log, the latest first."""
        found: list[AuditEntry] = []
        query = {"since": since, "until": until, "who": who, "action": action}
        cursor: int | None = None
        while len(found) < limit:
            page = self._get("/api/audit", _AuditPage, **query, limit=min(_ENTRIES, limit - len(found)), cursor=cursor)
            found += page.entries
            if page.cursor is None:
                break
            if not page.entries or (cursor is not None and page.cursor >= cursor):
                raise self._no_progress("the audit log")
            cursor = page.cursor
        return found

    # --- calling -----------------------------------------------------------------------------------------------------

    def _get(self, route: str, kind: type[T], **query: Any) -> T:
        return self._decode(self._transport.call(Request("GET", _with_query(route, query))).body, kind)

    def _no_progress(self, what: str) -> UnexpectedAnswer:
        return UnexpectedAnswer(f"{self.server} did not answer as a NoETL server does: its pages of {what} have no end")

    def _decode(self, body: bytes | str, kind: type[T]) -> T:
        return _decode(self.server, body, kind)


def _decode(server: str, body: bytes | str, kind: type[T]) -> T:
    return decode_answer(server, lambda: msgspec.json.decode(body, type=kind))


def _ask_waits(transport: Transport, path: str) -> list[str]:
    try:
        return _decode("", transport.call(Request("GET", path)).body, WaitReasons).waits
    except ClientError:  # it is shown beside something else, which is shown all the same
        return []


def _parse_servers(given: str | Sequence[str]) -> list[ServerAddress]:
    urls = split_servers(given if isinstance(given, str) else ",".join(given), "server")
    if not urls:
        raise CallInvalid("no server is named: pass its address, or set NOETL_SERVER to http://HOST:PORT")
    return [parse_address(url) for url in urls]


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {name: _text(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=lambda text, *_: _quote(text))}" if given else path


def _quote(text: str) -> str:
    try:
        return quote(text, safe="")
    except (UnicodeError, TypeError) as error:
        raise CallInvalid(f"{text!r} cannot be sent to a server: {error}") from None


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except Exception as error:  # whatever a value's own methods raise
        raise CallInvalid(f"this cannot be sent as JSON: {error}") from error


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one(execution_id: str) -> str:
    return f"/api/executions/{_quote(execution_id)}"
