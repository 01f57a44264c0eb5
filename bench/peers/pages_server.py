"""An API with pages of records, which has them ready as bytes: it shall not be what is measured.

pages_server.py PAGES PER_PAGE    prints its port, then serves /pages?page=N
"""

from __future__ import annotations

import json
import socket
import sys

from aiohttp import web

PAGES, PER_PAGE = int(sys.argv[1]), int(sys.argv[2])


def body(page: int) -> bytes:
    first = (page - 1) * PER_PAGE
    items = [
        {"id": n, "name": f"name {n % 1000}", "city": f"city {n % 77}", "amount": n * 1.25, "day": "2024-03-01",
         "flag": n % 2 == 0, "note": f"note, {n % 100}", "qty": n % 13}
        for n in range(first, first + PER_PAGE)
    ]  # fmt: skip
    following = f"/pages?page={page + 1}" if page < PAGES else None
    return json.dumps({"items": items, "next": following}, separators=(",", ":")).encode()


READY = {page: body(page) for page in range(1, PAGES + 1)}


async def answer(request: web.Request) -> web.Response:
    return web.Response(body=READY[int(request.query.get("page", 1))], content_type="application/json")


application = web.Application()
application.add_routes([web.get("/pages", answer)])
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
web.run_app(application, sock=listening, print=None)
