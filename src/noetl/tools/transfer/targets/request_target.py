"""Rows to an API: what is to be sent is made here, the engine sends it."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.drivers.datahost import HostCall
from noetl.tools.transfer.mapping import render_tree
from noetl.tools.transfer.targets.target import Target, TargetChunk

_JSON = "application/json"


class RequestTarget(Target):
    """One request for each chunk; in a stream, one for each row."""

    @property
    def uses_columns(self) -> bool:
        return False

    def open(self, running: HostCall) -> int:  # noqa: ARG002
        self.chunks, self.rows = self.context.recorded, self.context.rows
        return self.chunks

    def restart(self, running: HostCall) -> bool:  # noqa: ARG002  what was sent was sent
        return False

    def write(self, running: HostCall, given: TargetChunk) -> tuple[dict[str, Any], bytes]:
        scopes = {**self.context.scopes, "chunk": given.about}
        if not self.context.stream and self.projection.is_plain and "body" not in self.given:
            # Rows that are written as they come need not be read.
            body = b"[" + b",".join(given.chunk.bodies(given.connection)) + b"]"
            requests = [self._request(scopes, body, _JSON)]
        else:
            rows = self.projection.rows(given.chunk, given.about, given.connection)
            requests = []
            for unit in rows if self.context.stream else [rows]:
                running.check()
                seen = {**scopes, "row": unit} if self.context.stream else scopes
                requests.append(self._request(seen, *self._body(unit, seen)))
        self.rows += given.chunk.size
        self.bytes += sum(len(body) for _, body in requests)
        return {
            "requests": [{**request, "size": len(body)} for request, body in requests],
        }, b"".join(body for _, body in requests)

    def _body(self, unit: Any, scopes: dict[str, Any]) -> tuple[bytes, str]:
        content = render_tree(self.given["body"], scopes) if "body" in self.given else unit
        if isinstance(content, str):
            return content.encode(), "text/plain; charset=utf-8"
        return msgspec.json.encode(content), _JSON

    def _request(self, scopes: dict[str, Any], body: bytes, content_type: str) -> tuple[dict[str, Any], bytes]:
        headers = render_tree(self.given.get("headers") or {}, scopes)
        if not any(name.lower() == "content-type" for name in headers):
            headers = {**headers, "Content-Type": content_type}
        url, method = render_tree(self.given["url"], scopes), render_tree(self.given.get("method") or "POST", scopes)
        return {"url": url, "method": method, "headers": headers}, body

    def finish(self, running: HostCall) -> dict[str, Any] | None:  # noqa: ARG002
        return None
