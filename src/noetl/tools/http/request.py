"""What kind: http does: a request from a task's configuration, an output from the response or from its absence."""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import aiohttp
import msgspec
from yarl import URL

from noetl.drivers.exhaustion import check_machine
from noetl.drivers.spilled_data import output_limit, over_limit
from noetl.drivers.text import as_text, summarize_value
from noetl.model.output import Failure, Output, Spilled, failed, failure, ok
from noetl.ports import Call, World
from noetl.tools.http.network_zones import Resolver
from noetl.tools.http.response_body import (
    InvalidJson,
    ResponseBody,
    TooLarge,
    is_json_response,
    read_encoding,
    replace_undecoded,
)

# The headers that a credential stands for in an HTTP request.


AUTHORIZATION = "Authorization"


class NotForHttp(Exception):
    """A credential that says nothing to an HTTP server."""


def header_of(auth: Mapping[str, Any]) -> tuple[str, str]:
    """Name and value of the header: by the credential's kind, else by the parts it has."""
    kind = auth.get("kind")
    if kind == "basic" or (auth.get("username") is not None and auth.get("password") is not None):
        pair = f"{auth.get('username', '')}:{auth.get('password', '')}"
        return AUTHORIZATION, f"Basic {b64encode(pair.encode()).decode()}"
    if kind == "header" or auth.get("header"):
        return str(auth.get("header") or AUTHORIZATION), f"{auth.get('prefix') or ''}{auth.get('value', '')}"
    token = auth.get("token") or auth.get("value")
    if isinstance(token, str) and token:
        return AUTHORIZATION, f"Bearer {token}"
    raise NotForHttp(f"a credential of the kind `{kind}` has neither a token nor a user, so HTTP cannot use it")


# What went wrong between a request and its response, as failures of tasks.


#: how many are followed
REDIRECTS = 10


def transport_failure(target: str, error: Exception, spec: Mapping[str, Any]) -> Failure:
    """What went wrong before there was a whole response."""
    if isinstance(error, asyncio.TimeoutError):
        key, what = _TIMEOUTS[isinstance(error, aiohttp.ConnectionTimeoutError)]
        limit = f" (`spec.{key}: {spec[key]:g}`)" if isinstance(spec.get(key), int | float) else ""
        return failure("timeout", f"{target}: waited too long {what}{limit}", retryable=True)
    beneath = getattr(error, "os_error", error)
    for kind, what, retryable in _CAUSES:
        if isinstance(error, kind) or isinstance(beneath, kind):
            cause = _cause(error)
            return failure("http-transport", f"{target}: {what}{': ' + cause if cause else ''}", retryable=retryable)
    return failure("http-transport", f"{target}: {_cause(error) or type(error).__name__}")


_TIMEOUTS = {True: ("timeout.connect", "to connect"), False: ("timeout.read", "for data")}
#: the first that fits; whether trying again may help
_CAUSES: tuple[tuple[type[Exception], str, bool], ...] = (
    (aiohttp.TooManyRedirects, f"more than {REDIRECTS} redirects", False),
    (aiohttp.InvalidURL, "no address to send a request to", False),
    (aiohttp.ClientConnectorDNSError, "the host's name is not known (DNS)", True),
    (aiohttp.ClientConnectorCertificateError, "the server's certificate is not valid (TLS)", False),
    (aiohttp.ClientSSLError, "no secure connection (TLS)", True),
    (ssl.SSLError, "no secure connection (TLS)", True),
    (aiohttp.ServerDisconnectedError, "the server closed the connection without an answer", True),
    (aiohttp.ClientPayloadError, "the response broke off", True),
    (ConnectionRefusedError, "the connection was refused", True),
    (ConnectionResetError, "the connection was reset", True),
    (aiohttp.ClientConnectorError, "no connection", True),
    (OSError, "the connection failed", True),
    (aiohttp.ClientError, "the response is not HTTP", True),
)


def _cause(error: Exception) -> str:
    """The operating system's own word on it, else the library's; never an address with its query."""
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.TooManyRedirects, aiohttp.ServerDisconnectedError)):
        return ""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    cause = getattr(error, "os_error", error)
    return getattr(cause, "strerror", None) or str(cause)


#: methods that change nothing, or that nobody repeats by accident
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: statuses that say "later": beside all of 500 and above
_LATER = frozenset({408, 425, 429})
_GLIMPSE = 200
_SMALL_BODY = 16_384
_LONGEST_URL = 500
#: parameters whose values are not for everybody
SECRET_NAME = re.compile(r"token|secret|passw|pwd|signature|^sig$|auth|credential|(^|[_-]|api)key$", re.IGNORECASE)
#: beside the spec: which header holds the credential
_CREDENTIAL = "auth header"


class InvalidRequest(Exception):
    """The task's configuration makes no request."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure(kind, message)


class _Target(NamedTuple):
    """What was asked for; put into words only where something has failed."""

    method: str
    url: URL
    params: list[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.method} {_redact_url(self.url.extend_query(self.params))}"


class HttpClient:
    """The connections of one execution. Tasks share them and nothing else: there is no jar for cookies."""

    def __init__(self, size: int) -> None:
        # It remembers names itself, so that what was checked is what is connected to.
        self._resolver = Resolver()
        connector = aiohttp.TCPConnector(limit=size, resolver=self._resolver, use_dns_cache=False)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "noetl"},
            timeout=aiohttp.ClientTimeout(),
            trace_configs=[_redirects(self._resolver)],
        )

    @classmethod
    async def of(cls, call: Call, world: World) -> HttpClient:
        """The connections for a task, which those that earlier tasks used are among. Refused: it cannot have any."""
        # `pool_size` is how many connections there are at once; tasks of one size share them.
        size = call.spec.get("pool_size") or 0
        if not isinstance(size, int) or size < 0:
            raise InvalidRequest("type", f"`spec.pool_size` must be a whole number above 0, not {size!r}")
        return await world.resource(f"http {size}", lambda: cls.open(size), cls.close)

    @classmethod
    async def open(cls, size: int) -> HttpClient:
        """A client in the running event loop, of so many connections at once; 0: as many as are wanted."""
        return cls(size)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
        await self._resolver.close()

    async def admit(self, source: str, target: str, spec: Mapping[str, Any]) -> None:
        """See that an address that an answer of `source` has named may be asked. Refused: it may not."""
        await _check_redirect(_url(source), _url(target), spec, self._resolver)

    async def run(self, call: Call, world: World, *, raw: bool = False) -> Output:
        """One task: a request, repeated as often as `spec.retries` says if there is no answer.

        `raw` leaves a body as its bytes, in UTF-8, whatever it calls itself.
        """
        try:
            method, url, options = _request(call)
        except InvalidRequest as error:
            return failed(error.failure)
        left = int(call.spec.get("retries") or 0)
        pause = 0.1
        while True:
            output = await self._request_once(method, url, options, call, world, raw=raw)
            if not left or "http" in output or not output["error"]["retryable"]:
                return output
            left -= 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5)

    async def _request_once(
        self, method: str, url: URL, options: dict[str, Any], call: Call, world: World, *, raw: bool
    ) -> Output:  # fmt: skip
        target = _Target(method, url, options["params"])
        limit = output_limit(call)
        http: dict[str, Any] = {}
        try:
            async with self._session.request(method, url, **options) as response:
                http = {"status": response.status, "headers": _headers(response)}
                # What an error says is looked at, so it stays here.
                body = ResponseBody(response, world, limit, call.spill if response.status < 400 else None)
                data = await body.receive()
                if data is None:
                    return _spill_output(target, response, await body.finish_spill(), http)
                if raw and response.status < 400:
                    return ok(_in_utf8(data, response), http=http)
                return _output(target, response, data, http)
        except InvalidRequest as error:
            return failed(error.failure)
        except TooLarge:
            return failed(failure("limit", f"{target}: {over_limit('the response', limit)}"), http=http)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            check_machine(error)
            helpers = {"http": http} if http else {}
            return failed(transport_failure(str(target), error, call.spec), **helpers)


def _request(call: Call) -> tuple[str, URL, dict[str, Any]]:
    """Method, address and options of the request, as aiohttp takes them."""
    config = call.config
    method = str(config.get("method") or "GET").upper()
    headers = {name: as_text(value) for name, value in _map(config, "headers") if value is not None}
    options: dict[str, Any] = {
        "headers": headers,
        "params": _parameters(config),
        "allow_redirects": config.get("follow_redirects") is not False,
        "max_redirects": REDIRECTS,
        "timeout": aiohttp.ClientTimeout(
            total=call.spec.get("timeout.total"),
            connect=call.spec.get("timeout.connect"),
            sock_read=call.spec.get("timeout.read"),
        ),
    }
    given = {name.lower() for name in headers}
    _set_content(config, options, given)
    spec = _add_credential(call, headers, given)
    if method not in _SAFE and "idempotency-key" not in given:
        headers["Idempotency-Key"] = call.key
    if call.spec.get("verify") is False:
        options["ssl"] = False
    url = _url(config.get("url"))
    options["trace_request_ctx"] = spec
    _check_host(url, call.spec)
    return method, url, options


def _add_credential(call: Call, headers: dict[str, str], given: set[str]) -> Mapping[str, Any]:
    """Add the header of `auth`, unless the task has that one itself; the spec, which knows its name from now on."""
    if call.auth is None:
        return call.spec
    try:
        name, value = header_of(call.auth)
    except NotForHttp as error:
        raise InvalidRequest("credential", str(error)) from None
    if name.lower() not in given:
        headers[name] = value
    return {**call.spec, _CREDENTIAL: name}


def _redirects(resolver: Resolver) -> aiohttp.TraceConfig:
    """Where a redirect leads hosts are checked again, and no credential goes to another than it was meant for."""

    async def check(_session: Any, context: Any, params: aiohttp.TraceRequestRedirectParams) -> None:
        location = params.response.headers.get("Location") or params.response.headers.get("URI") or ""
        target, spec = params.url.join(URL(location)), context.trace_request_ctx
        _check_host(target, spec)
        await _check_redirect(params.url, target, spec, resolver)
        if _CREDENTIAL in spec and target.origin() != params.url.origin():
            params.headers.popall(spec[_CREDENTIAL], None)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(check)
    return trace


def _check_host(url: URL, spec: Mapping[str, Any]) -> None:
    """`network` and `allow_hosts` of the effective spec, which no inner layer can loosen."""
    host, allowed = url.host or "", spec.get("allow_hosts")
    if spec.get("network") == "off":
        raise InvalidRequest("http-transport", f"`network: off` does not let this task call {host}")
    if allowed is not None and not any(
        pattern in (host, "*") or (pattern.startswith("*.") and host.endswith(pattern[1:]))
        for pattern in map(str.lower, allowed)
    ):
        raise InvalidRequest("http-transport", f"`allow_hosts` does not let this task call {host}")


async def _check_redirect(source: URL, target: URL, spec: Mapping[str, Any], resolver: Resolver) -> None:
    """An answer leads outward or sideways, never further in, unless `allow_hosts` names where it leads."""
    host = target.host or ""
    if host == source.host or host in map(str.lower, spec.get("allow_hosts") or ()):
        return
    inner, outer = await resolver.zone(host), await resolver.zone(source.host or "")
    if inner > outer:
        raise InvalidRequest(
            "http-transport",
            f"{source.host} leads to {host}, which is {inner.label} and not for answers of others to name; "
            f"`spec.allow_hosts: [{source.host}, {host}]` allows it",
        )


def _set_content(config: Mapping[str, Any], options: dict[str, Any], given: set[str]) -> None:
    """The body, and a word on what it is unless the task has one."""
    body = config.get("body")
    content_type = None
    if "json" in config or isinstance(body, (dict, list)):
        options["data"] = msgspec.json.encode(config.get("json", body))
        content_type = "application/json"
    elif "form" in config:
        options["data"] = aiohttp.FormData([(name, as_text(item)) for name, item in _pairs(config, "form")])()
    elif body is not None:
        options["data"] = as_text(body).encode()
        content_type = "text/plain; charset=utf-8"
    if content_type and "content-type" not in given:
        options["headers"]["Content-Type"] = content_type


def _url(text: Any) -> URL:
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest("http-transport", "the `url` is empty")
    try:
        url = URL(text.strip())
    except ValueError as error:
        raise InvalidRequest("http-transport", f"the `url` is no address: {error}") from None
    if url.scheme not in ("http", "https"):
        raise InvalidRequest(
            "http-transport",
            f"the `url` must begin with http:// or https://, not {repr(url.scheme) if url.scheme else summarize_value(text)}",
        )
    if not url.host:
        raise InvalidRequest("http-transport", "the `url` names no host")
    return url


def _map(config: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    """The entries of a map that may be left out."""
    value = config.get(key)
    if value is None or value == "":
        return []
    if not isinstance(value, Mapping):
        raise InvalidRequest("type", f"`{key}` must be a map, not {type(value).__name__}")
    return list(value.items())


def _pairs(config: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    """A map, or text such as `a=1&b=2`, as pairs; a list gives several, null none."""
    value = config.get(key)
    if isinstance(value, str):
        return list(parse_qsl(value.removeprefix("?"), keep_blank_values=True))
    pairs: list[tuple[str, Any]] = []
    for name, item in _map(config, key):
        pairs += [(name, one) for one in item] if isinstance(item, list) else [(name, item)]
    return [(name, item) for name, item in pairs if item is not None]


def _parameters(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, as_text(item)) for name, item in _pairs(config, "params")]


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, raw in response.headers.items():
        name, value = replace_undecoded(key.lower()), replace_undecoded(raw)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _output(target: _Target, response: aiohttp.ClientResponse, body: bytes, http: dict[str, Any]) -> Output:
    data, problem = _parse_body(body, response)
    if response.status >= 400:
        return failed(_status(target, response, body, data), http=http)
    if problem:
        return _not_json(target, response, problem, data, http)
    return ok(data, http=http)


def _spill_output(
    target: _Target, response: aiohttp.ClientResponse, body: Spilled | InvalidJson, http: dict[str, Any]
) -> Output:  # fmt: skip
    """The output of a response whose body went to a file."""
    if isinstance(body, InvalidJson):
        return _not_json(target, response, body.why, body.begins, http)
    return ok(body, http=http)


def _not_json(
    target: _Target, response: aiohttp.ClientResponse, why: str, text: str, http: dict[str, Any]
) -> Output:  # fmt: skip
    message = f"{target}: the body is labelled {replace_undecoded(response.content_type)} but is not JSON: {why}"
    return failed(failure("result-not-json", message, body=_excerpt(text)), http=http)


def _parse_body(body: bytes, response: aiohttp.ClientResponse) -> tuple[Any, str]:
    """What the body holds; and if it is said to be JSON and is not, why: it is text then."""
    if not body:
        return None, ""
    encoding = read_encoding(response)
    if is_json_response(response) and encoding == "utf-8":
        try:
            return msgspec.json.decode(body), ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return body.decode("utf-8", "replace"), str(error)
    text = body.decode(encoding, "replace")
    try:
        return (msgspec.json.decode(text) if is_json_response(response) else text), ""
    except (msgspec.DecodeError, RecursionError) as error:
        return text, str(error)


def _excerpt(text: str, *, cut: bool = False) -> str:
    """How a text begins. That it was cut off must show: half of a secret is known by what stands behind it."""
    return f"{text[:_GLIMPSE]}…" if cut or len(text) > _GLIMPSE else text


def _in_utf8(body: bytes, response: aiohttp.ClientResponse) -> bytes:
    encoding = read_encoding(response)
    return body if encoding == "utf-8" else body.decode(encoding, "replace").encode()


def _status(target: _Target, response: aiohttp.ClientResponse, body: bytes, data: Any) -> Failure:
    status = response.status
    message = f"{target}{_describe_redirects(response)}: {status} {replace_undecoded(response.reason or '')}".rstrip()
    if body:
        begins = " ".join(body[: 4 * _GLIMPSE].decode("utf-8", "replace").split())
        message += f": {_excerpt(begins, cut=len(body) > 4 * _GLIMPSE)}"
    more = {"body": data} if len(body) <= _SMALL_BODY else {}
    return failure("http-status", message, retryable=status >= 500 or status in _LATER, status=status, **more)


def _describe_redirects(response: aiohttp.ClientResponse) -> str:
    """Where redirects have led, and that the credential stayed behind if that is so."""
    if not response.history:
        return ""
    sent = response.history[0].request_info.headers
    kept = response.request_info.headers
    lost = [name for name in sent if name not in kept and not name.lower().startswith(("content-", "transfer-"))]
    without = f" without `{lost[0]}`, which is for the first host alone" if lost else ""
    return f", redirected to {_redact_url(response.url)}{without}"


def _redact_url(url: URL) -> str:
    """An address without user, password and the values of parameters that are secrets by their names.

    A query that is cut could show a part of a secret that nobody would know for one: it is left out whole.
    """
    bare = url.with_user(None).with_fragment(None)
    query = [(name, "***" if SECRET_NAME.search(name) else value) for name, value in url.query.items()]
    shown = str(bare.with_query(query))
    return shown if len(shown) <= _LONGEST_URL else f"{bare.with_query(None)}?…"
