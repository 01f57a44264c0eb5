"""Addresses of servers: what an http:// or https:// URL says about where to connect, and what is sent with every request."""

from __future__ import annotations

import ssl
from base64 import b64encode
from functools import cache
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.client.http1 import format_headers
from noetl.config import Secret, mask_login
from noetl.errors import CallInvalid


class ServerAddress(msgspec.Struct, frozen=True):
    """Where a server is."""

    #: without a user and a password, so that it can be shown
    url: str
    host: str
    port: int
    is_tls: bool
    #: what comes before the path of every request, for servers behind a proxy
    base: str
    authority: str
    #: user and password for a proxy, as the header has them
    basic: Secret | None = None

    def format_headers(self, token: Secret | None) -> Secret:
        """Return the headers of every request: secret, because the token is among them."""
        headers = {"Host": self.authority, "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        elif self.basic:
            headers["Authorization"] = f"Basic {self.basic.reveal()}"
        return Secret(format_headers(headers))


def parse_address(url: str) -> ServerAddress:
    """Return what a URL says. CallInvalid: it is no address of a server."""
    try:
        parts = urlsplit(url)
        host, given = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        raise CallInvalid(f"{mask_login(url)!r} is no address of a server; write http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise CallInvalid(f"{mask_login(url)!r} is no address of a server; write http://HOST:PORT")
    is_tls = parts.scheme == "https"
    authority, base = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
    basic: Secret | None = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        basic = Secret(b64encode(pair.encode()).decode())
    port = given if given is not None else 443 if is_tls else 80
    return ServerAddress(f"{parts.scheme}://{authority}{base}", host, port, is_tls, base, authority, basic)


@cache
def make_tls_context() -> ssl.SSLContext:
    """Return what verifies servers: the certificates that this machine trusts, or those of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def choose_tls(address: ServerAddress, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Return what a connection is encrypted with; None: it is not."""
    if not address.is_tls:
        return None
    return given if given is not None else make_tls_context()
