"""Client: the API of a server, called from threads. Of several servers, the first that answers."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from noetl.config import Secret
from noetl.errors import NoetlError, UsageError

#: seconds that a server may take for an answer, besides what it was asked to wait
_PATIENCE: Final = 60.0
_JSON: Final = "application/json"
_BLOCK: Final = 1 << 18


class ServerGone(NoetlError):
    """No server answers."""


class Refused(NoetlError):
    """A server answered that it will not; `problem` is what it said."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"the server: {problem.get('detail') or problem.get('title') or status}")
        self.status, self.problem = status, problem

    def as_usage(self) -> NoetlError:
        """The same, as a mistake of whoever asked, where it is one."""
        said = str(self.problem.get("detail") or self)
        return UsageError(said) if self.status == 400 else NoetlError(said) if self.status == 410 else self


class Answer(msgspec.Struct, frozen=True):
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Calls one of some servers. Each thread has a connection of its own."""

    def __init__(self, servers: tuple[str, ...], token: Secret | None, patience: float = _PATIENCE) -> None:
        self._servers = servers
        self._token = token
        self._patience = patience
        self._at = 0
        self._kept = local()
        #: those of all threads
        self._open: list[http.client.HTTPConnection] = []

    @property
    def server(self) -> str:
        """The address of the server that answered last."""
        return self._servers[self._at % len(self._servers)]

    def others(self, patience: float) -> list[Client]:
        """A client for each of the other servers, which have so many seconds for an answer."""
        return [Client((one,), self._token, patience) for one in self._servers if one != self.server]

    def get(self, path: str, query: Mapping[str, Any] | None = None, *, wait: float = 0.0) -> Answer:
        """Ask for something; Refused: it is not to be had."""
        given = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        return self._asked("GET", f"{path}?{urlencode(given)}" if given else path, None, {}, wait=wait, again=True)

    def post(self, path: str, body: Any, *, key: str | None = None) -> Answer:
        """Ask for something to be done; with a `key` it is safe to ask twice, and so that is done where an answer is lost."""
        headers = {"Content-Type": _JSON} | ({"Idempotency-Key": key} if key is not None else {})
        return self._asked("POST", path, msgspec.json.encode(body), headers, again=key is not None)

    def _asked(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], *, wait: float = 0.0, again: bool
    ) -> Answer:
        with self._response(method, path, body, headers, wait=wait, again=again) as response:
            return Answer(response.status, dict(response.headers), response.read())

    @contextmanager
    def blocks(self, path: str, body: Any) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The content type of a large answer, and the answer block by block."""
        given, headers = msgspec.json.encode(body), {"Content-Type": _JSON}
        with self._response("POST", path, given, headers, again=True) as response:
            yield response.headers.get("content-type", ""), iter(lambda: response.read(_BLOCK), b"")

    @contextmanager
    def _response(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], *, wait: float = 0.0, again: bool
    ) -> Iterator[http.client.HTTPResponse]:
        sent = {**headers, "Accept": "*/*"}
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token.reveal()}"
        response = self._first(method, path, body, sent, wait=wait, again=again)
        try:
            if response.status >= 400:
                raise Refused(response.status, _problem(response.read()))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise ServerGone(f"the server {self.server} broke off: {_said(error)}") from None
        finally:
            if not response.isclosed():
                self._forget()

    def _first(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], *, wait: float, again: bool
    ) -> http.client.HTTPResponse:
        """The answer of the first server that gives one; another is asked only where that does no harm."""
        said: Exception | None = None
        # A connection that was kept may have been closed by now: the same server is asked twice.
        for turn in range(2 * len(self._servers)):
            fresh = turn % 2 == 1 or not again
            try:
                connection = self._connection(fresh=fresh, timeout=self._patience + wait)
                connection.request(method, path, body, headers)
                return connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                said = error
                self._forget()
                if not again and not isinstance(error, ConnectionRefusedError):
                    break
                if turn % 2 == 1:
                    self._at += 1
        names = ", ".join(self._servers)
        raise ServerGone(f"no server answers at {names}: {_said(said)}") from None

    def _connection(self, *, fresh: bool, timeout: float) -> http.client.HTTPConnection:
        kept: tuple[str, http.client.HTTPConnection] | None = getattr(self._kept, "connection", None)
        if kept is not None and kept[0] == self.server and not fresh:
            connection = kept[1]
            connection.timeout = timeout
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            return connection
        self._forget()
        connection = _open(self.server, timeout)
        self._kept.connection = self.server, connection
        self._open.append(connection)
        return connection

    def _forget(self) -> None:
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            kept[1].close()
            self._open.remove(kept[1])
            self._kept.connection = None

    def close(self) -> None:
        """Let go of the connections of all threads, none of which may be waiting for an answer."""
        self._forget()
        while self._open:
            self._open.pop().close()


def _open(server: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(server)
    if parts.path not in ("", "/") or parts.hostname is None:
        raise UsageError(f"{server!r} is no address of a server; write http://HOST:PORT")
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def _said(error: Exception | None) -> str:
    return str(error) or type(error).__name__


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return {"detail": body[:200].decode("utf-8", "replace")}
    return found if isinstance(found, dict) else {"detail": str(found)[:200]}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
