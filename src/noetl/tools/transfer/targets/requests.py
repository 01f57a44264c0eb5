"""Rows to an API: what is to be sent is made here, the engine sends it."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.tools.datahost.host import Running
from noetl.tools.transfer.mapping import rendered
from noetl.tools.transfer.targets.target import Given, Target

_JSON = "application/json"


class Requests(Target):
    """One request for each chunk; in a stream, one for each row."""

    @property
    def heeds_columns(self) -> bool:
        return False

    def open(self, running: Running) -> int:  # noqa: ARG002
        self.chunks, self.rows = self.around.recorded, self.around.rows
        return self.chunks

    def restart(self, running: Running) -> bool:  # noqa: ARG002  what was sent was sent
        return False

    def write(self, running: Running, given: Given) -> tuple[dict[str, Any], bytes]:
        scopes = {**self.around.scopes, "chunk": given.about}
        if not self.around.stream and self.projection.is_plain and "body" not in self.given:
            # Rows that are written as they come need not be read.
            body = b"[" + b",".join(given.chunk.bodies(given.connection)) + b"]"
            requests = [self._request(scopes, body, _JSON)]
        else:
            rows = self.projection.rows(given.chunk, given.about, given.connection)
            requests = []
            for unit in rows if self.around.stream else [rows]:
                running.check()
                seen = {**scopes, "row": unit} if self.around.stream else scopes
                requests.append(self._request(seen, *self._body(unit, seen)))
        self.rows += given.chunk.size
        self.bytes += sum(len(body) for _, body in requests)
        return {
            "requests": [{**request, "size": len(body)} for request, body in requests],
        }, b"".join(body for _, body in requests)

    def _body(self, unit: Any, scopes: dict[str, Any]) -> tuple[bytes, str]:
        content = rendered(self.given["body"], scopes) if "body" in self.given else unit
        if isinstance(content, str):
            return content.encode(), "text/plain; charset=utf-8"
        return msgspec.json.encode(content), _JSON

    def _request(self, scopes: dict[str, Any], body: bytes, content_type: str) -> tuple[dict[str, Any], bytes]:
        headers = rendered(self.given.get("headers") or {}, scopes)
        if not any(name.lower() == "content-type" for name in headers):
            headers = {**headers, "Content-Type": content_type}
        url, method = rendered(self.given["url"], scopes), rendered(self.given.get("method") or "POST", scopes)
        return {"url": url, "method": method, "headers": headers}, body

    def finish(self, running: Running) -> dict[str, Any] | None:  # noqa: ARG002
        return None
