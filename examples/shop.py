"""A small shop's API, for the examples to talk to. Nothing of it is kept.

    python examples/shop.py                            serves on 127.0.0.1:8091, where the examples look for it
    python examples/shop.py COMMAND…                   serves while a command runs; `{url}` in it is the address

It is a little slow, and busy now and then: the first request for a second page, and for some rooms, is answered by 503.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PORT = 8091
PAGES = 5
PER_PAGE = 20
CLIENT_SECRET = "open-sesame"  # noqa: S105  everybody knows it
ROOMS = {"north": 3, "harbour": 0, "ribeira": 7}
#: page → the pages it links to
SITE = {
    "index": ["about", "products", "news"],
    "about": ["index", "team"],
    "products": ["index", "chair", "table"],
    "news": ["products", "archive"],
    "team": ["about"],
    "chair": ["products"],
    "table": ["products"],
}

Answer = tuple[int, Any]


class Shop(ThreadingHTTPServer):
    """The server, and what it remembers."""

    daemon_threads = True

    def __init__(self, port: int = 0, *, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.delay = delay
        #: every request: method, path with its query, idempotency key, body
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.busy: set[str] = set()
        self.exports: dict[str, int] = {}
        self.tokens = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def busy_once(self, what: str) -> bool:
        """Whether this is the first time that somebody asks for it."""
        with self.lock:
            first = what not in self.busy
            self.busy.add(what)
            return first

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        """Status and JSON."""
        parts = path.strip("/").split("/")
        found = ROUTES.get((method, parts[0]))
        return found(self, parts[1:], query, body) if found else (404, {"error": f"there is no {path}"})


def _rows(name: str) -> Callable[[Shop, list[str], dict[str, str], Any], Answer]:
    def page(shop: Shop, rest: list[str], query: dict[str, str], _body: Any) -> Answer:
        if rest:
            return _customer(rest)
        number = int(query.get("page", "1"))
        if number == 2 and shop.busy_once(name):
            return 503, {"error": "busy, come again"}
        first = (number - 1) * PER_PAGE
        items = [{"id": first + n, "kind": name, "total": 5 + (first + n) % 7} for n in range(1, PER_PAGE + 1)]
        return 200, {"items": items, "paging": {"page": number, "hasMore": number < PAGES}}

    return page


def _customer(rest: list[str]) -> Answer:
    if rest[1:] == ["orders"]:
        return 200, {"items": [{"id": 1, "total": 20}, {"id": 2, "total": 22}]}
    return 200, {"id": int(rest[0]), "name": "Ada"}


def _export(shop: Shop, rest: list[str], _query: dict[str, str], body: Any) -> Answer:
    if not rest:
        return 201, {"id": f"export-{body['report']}"}
    polls = shop.exports[rest[0]] = shop.exports.get(rest[0], 0) + 1
    return 200, {"state": "ready", "file": f"{rest[0]}.csv"} if polls >= 3 else {"state": "running"}


def _rooms(shop: Shop, rest: list[str], _query: dict[str, str], _body: Any) -> Answer:
    hotel = rest[0]
    if hotel == "harbour" and shop.busy_once(hotel):
        return 503, {"error": "busy, come again"}
    return (200, {"hotel": hotel, "free": ROOMS[hotel]}) if hotel in ROOMS else (404, {"error": "no such hotel"})


def _booking(_shop: Shop, rest: list[str], _query: dict[str, str], body: Any) -> Answer:
    if body is not None and body.get("people", 1) > 4:
        return 409, {"error": f"no {rest[0]} for {body['people']} people"}
    return 200, {"id": f"{rest[0]}-1"}


def _site(_shop: Shop, rest: list[str], _query: dict[str, str], _body: Any) -> Answer:
    page = rest[0] if rest else "index"
    return (200, {"page": page, "links": SITE[page]}) if page in SITE else (404, {"error": "no such page"})


def _token(shop: Shop, _rest: list[str], _query: dict[str, str], body: Any) -> Answer:
    if body.get("client_secret") != CLIENT_SECRET:
        return 401, {"error": "invalid_client"}
    shop.tokens += 1
    return 200, {"access_token": f"token-of-the-shop-{shop.tokens}", "token_type": "Bearer", "expires_in": 300}


def _payouts(shop: Shop, rest: list[str], query: dict[str, str], _body: Any) -> Answer:
    if query["authorization"] != f"Bearer token-of-the-shop-{shop.tokens}":
        return 401, {"error": f"not for {query['authorization']}"}
    return 200, {"month": rest[0], "total": 100 + int(rest[0][-2:])}


def _catalogue(_shop: Shop, _rest: list[str], _query: dict[str, str], _body: Any) -> Answer:
    items = [{"id": n, "name": f"thing {n}", "price": n * 1.5} for n in range(1, 251)]
    return 200, {"data": {"items": items}}


def _enrich(_shop: Shop, _rest: list[str], _query: dict[str, str], body: Any) -> Answer:
    return 200, {"score": 600 + body["user_id"], "likes": ["tea"]}


def _done(_shop: Shop, _rest: list[str], _query: dict[str, str], _body: Any) -> Answer:
    return 200, {"done": True}


ROUTES: dict[tuple[str, str], Callable[[Shop, list[str], dict[str, str], Any], Answer]] = {
    ("GET", "orders"): _rows("orders"),
    ("GET", "customers"): _rows("customers"),
    ("GET", "products"): _rows("products"),
    ("GET", "hotels"): _rooms,
    ("GET", "site"): _site,
    ("GET", "exports"): _export,
    ("POST", "exports"): _export,
    ("GET", "files"): lambda _shop, rest, _query, _body: (200, {"file": rest[0], "rows": 17}),
    ("POST", "bookings"): _booking,
    ("DELETE", "bookings"): _done,
    ("POST", "refunds"): _done,
    ("POST", "chat"): _done,
    ("POST", "token"): _token,
    ("GET", "payouts"): _payouts,
    ("GET", "catalogue"): _catalogue,
    ("POST", "enrich"): _enrich,
}


def _body(data: bytes, kind: str) -> Any:
    if kind.startswith("application/x-www-form-urlencoded"):
        return _last(data.decode())
    return json.loads(data) if data else None


def _last(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query).items()}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Shop

    def do_GET(self) -> None:
        """Answer a request of any method."""
        address = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = _body(data, self.headers.get("Content-Type") or "")
        self.server.requests.append((self.command, self.path, self.headers.get("Idempotency-Key"), body))
        time.sleep(self.server.delay)
        query = _last(address.query) | {"authorization": self.headers.get("Authorization") or ""}
        status, answer = self.server.answer(self.command, address.path, query, body)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = do_GET  # noqa: N815  the names are those of the base class

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the screen belongs to the command."""


def main(command: list[str]) -> int:
    """Serve while a command runs, or until Ctrl-C."""
    shop = Shop(0 if command else PORT, delay=0.1)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    if command:
        filled = [part.replace("{url}", shop.url) for part in command]
        running = subprocess.Popen(filled)  # noqa: S603  it is what was asked for
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's
        return running.wait()
    sys.stdout.write(f"the shop is open at {shop.url}; Ctrl-C closes it\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
