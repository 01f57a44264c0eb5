"""Failure notices: who is told that an execution failed, by `metadata.on_failure`.

A notice follows from what is durable and changes nothing of it: whether it arrives is a matter of a few tries and a line
of warning. A process that is killed on the way sends none, and a resumed one does not make up for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from noetl.drivers.confinement import bounds_of
from noetl.drivers.text import as_text
from noetl.errors import TemplateError
from noetl.expr import render
from noetl.model.events import Event
from noetl.model.net import Net
from noetl.model.state import Execution

if TYPE_CHECKING:
    import aiohttp

#: how long is waited behind a try that failed, and how long one may take
PAUSES = (1.0, 3.0)
_TRY_S = 5.0


class NoticeSubject(Protocol):
    """An execution that something happened to."""

    state: Execution

    @property
    def net(self) -> Net:
        """What it ran."""


class _Undelivered(Exception):
    """A notice that nobody has taken."""


class FailureNotices:
    """Sends the notices of one process; `warn` gets a line for each that did not arrive."""

    def __init__(self, clock: Callable[[], float], new_id: Callable[[], str], warn: Callable[[str], None]) -> None:
        self._warn = warn
        #: what templates know everywhere
        self._functions = {"now": lambda: datetime.fromtimestamp(clock(), UTC).isoformat(), "uuid": new_id}
        self._under_way: set[asyncio.Task[None]] = set()

    def on_events(self, live: NoticeSubject, events: tuple[Event, ...]) -> None:
        """Something is durable; if it is the end of an execution that failed, tell of it."""
        failed = live.state.status == "failed" and any(event.name == "playbook.processed" for event in events)
        if failed and live.net.playbook.on_failure is not None:
            task = asyncio.ensure_future(self._send(live.state, live.net))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def settle(self) -> None:
        """Wait for those that are under way; none takes longer than its tries."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _send(self, state: Execution, net: Net) -> None:
        try:
            if not bounds_of(state.restrict).network:
                raise _Undelivered("whoever called the playbook does not let it use the network")  # noqa: TRY301
            url, headers = self._address(state, net)
            await _deliver(url, headers, msgspec.json.encode(body_of(state)))
        except _Undelivered as error:
            self._warn(f"{state.execution_id}: `metadata.on_failure` reached nobody: {error}")
        except Exception as error:  # noqa: BLE001  whatever it is, it is no more than a notice that did not arrive
            self._warn(f"{state.execution_id}: `metadata.on_failure` reached nobody: {type(error).__name__}: {error}")

    def _address(self, state: Execution, net: Net) -> tuple[str, dict[str, str]]:
        notice = net.playbook.on_failure
        assert notice is not None
        scopes = {"workload": state.workload, "ctx": state.ctx, "execution_id": state.execution_id, **self._functions}
        try:
            url, headers = render(notice.webhook, scopes), render(notice.headers, scopes) if notice.headers else {}
        except TemplateError as error:
            raise _Undelivered(error.message) from None
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise _Undelivered(f"`webhook` must be an address that begins with http:// or https://, not {url!r}"[:200])
        if not isinstance(headers, Mapping):
            raise _Undelivered(f"`headers` must be a map, not {type(headers).__name__}")
        return url, {name: as_text(value) for name, value in headers.items() if value is not None}


def body_of(state: Execution) -> dict[str, Any]:
    """What a notice says."""
    started = datetime.fromtimestamp(state.started, UTC).isoformat(timespec="microseconds") if state.started else None
    return {
        "execution_id": state.execution_id,
        "path": state.path,
        "status": state.status,
        "error": state.error,
        "started_at": started,
        "ended_at": state.timestamp,
    }


async def _deliver(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Post it, again after a while if that fails. _Undelivered: it failed every time."""
    import aiohttp

    # The same notice may arrive twice: whoever minds can tell by the key.
    known = {"Content-Type": "application/json", "Idempotency-Key": msgspec.json.decode(body)["execution_id"]}
    timeout = aiohttp.ClientTimeout(total=_TRY_S)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        for pause in (*PAUSES, None):
            said = await _post_once(session, url, {**known, **headers}, body)
            if said is None:
                return
            if pause is None:
                raise _Undelivered(f"{len(PAUSES) + 1} tries at {_bare_url(url)}: {said}")
            await asyncio.sleep(pause)


async def _post_once(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], body: bytes) -> str | None:
    """What is wrong with one try; None: it was taken."""
    import aiohttp

    try:
        # A redirect would make a GET of it, and may lead anywhere.
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            return None if response.ok and response.status < 300 else f"the answer was {response.status}"
    except TimeoutError:
        return f"no answer within {_TRY_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}" if not isinstance(error, aiohttp.InvalidURL) else "it is no address"


def _bare_url(url: str) -> str:
    """An address without what may be secret in it."""
    return url.partition("?")[0].rpartition("@")[2].removeprefix("https://").removeprefix("http://")
