"""Data that nobody reads passes through a real run without being held: the peak of memory hardly grows with its size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

MEGABYTES = int(os.environ.get("NOETL_TEST_SPILL_MB", "150"))
#: what DuckDB and a few blocks need; the data itself is none of it
MOST_GROWTH_MB = 100
#: of more than 440 bytes each
ROWS_PER_MB = 2300
HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large}
workload: {megabytes: 0, url: ''}
workflow:
"""
END = """
  set: {ctx.data_ref: "{{ output.ref }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.data_ref.meta }}"}}
"""
STEPS = {
    "python rows": """
- step: make
  tool:
    kind: python
    input: {n: "{{ workload.megabytes }}"}
    code: "def main(n): return [{'id': i, 'text': 'é' * 5000} for i in range(n * 100)]"
""",
    "python document": """
- step: make
  tool:
    kind: python
    input: {n: "{{ workload.megabytes }}"}
    code: "def main(n): return {'about': 'x', 'items': [['y' * 1000, i] for i in range(n * 1000)]}"
""",
    "http rows": "\n- step: make\n  tool: {kind: http, url: '{{ workload.url }}/rows/{{ workload.megabytes }}'}\n",
    "http document": "\n- step: make\n  tool: {kind: http, url: '{{ workload.url }}/document/{{ workload.megabytes }}'}\n",
    "http text": "\n- step: make\n  tool: {kind: http, url: '{{ workload.url }}/text/{{ workload.megabytes }}'}\n",
    "shell": "\n- step: make\n  tool: {kind: shell, cmd: 'yes \"one line of it, é\" | head -c {{ workload.megabytes * 1000000 }}'}\n",
}
#: it runs a command line and then says how much memory that took at its peak
MEASURED = (
    "import resource, sys; from noetl.__main__ import main; code = main();"
    "sys.stdout.flush(); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
)


MEGABYTE = "".join(
    json.dumps({"id": number, "name": "customer", "text": "x" * 400}) + ", " for number in range(ROWS_PER_MB)
).encode()


class Large(BaseHTTPRequestHandler):
    """Answers with as many megabytes as the path says."""

    def do_GET(self) -> None:
        _, what, size = self.path.split("/")
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8" if what == "text" else "application/json")
        self.end_headers()
        opening = {"rows": b"[", "document": b'{"items": [', "text": b""}[what]
        self.wfile.write(opening)
        for _ in range(int(size)):
            self.wfile.write(MEGABYTE)
        self.wfile.write(
            {"rows": b"{}]", "document": b"null]}", "text": b""}[what].replace(
                b"{}", b'{"id": 0, "name": null, "text": "last"}'
            )
        )

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Large)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def peak(folder: Path, steps: str, **payload: Any) -> tuple[float, dict[str, Any]]:
    """The peak of a run's memory, in megabytes, and the meta of what it stored."""
    folder.mkdir()
    file = folder / "large.yaml"
    file.write_text(HEAD + steps + END)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "run", str(file), "--json", "--payload", json.dumps(payload)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NOETL_HOME": str(folder / "home")},
    )
    document = json.loads(done.stdout)
    assert document["status"] == "completed", document["error"]
    left = list((folder / "home" / "results" / "drafts").glob("*"))
    assert left == []
    return int(done.stderr.split()[-1]) / 1024, document["output"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_what_nobody_reads_is_never_held(name: str, tmp_path: Path, url: str) -> None:
    small, _ = peak(tmp_path / "small", STEPS[name], megabytes=1, url=url)
    large, meta = peak(tmp_path / "large", STEPS[name], megabytes=MEGABYTES, url=url)
    assert large - small < MOST_GROWTH_MB
    assert meta["bytes"] > 1_000
    assert (meta["rows"] is not None) == ("rows" in name)
    kind = "application/vnd.apache.parquet" if "rows" in name else "application/json"
    assert meta["content_type"] == kind
    print(f"{name}: {small:.0f} MB, {large:.0f} MB with {MEGABYTES} MB of data")
