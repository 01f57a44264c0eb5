"""How long the tests of playbooks take: a hundred small cases, as `noetl test` runs them.

    python bench/playbook_tests.py    a table; exit code 1 when the limit is broken

Each run is a process of its own, from its start to its end, without a cache of anything but compiled modules.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
CASES, FILES = 100, 10
SECONDS_LIMIT = 5.0
RUNS = 5
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: flow_{number}}}
workload: {{items: [1, 2, 3]}}
workflow:
  - step: start
    tool:
      kind: http
      url: "http://example.invalid/{number}"
      spec: {{policy: {{rules: [{{when: "{{{{ output.status == 'error' }}}}", then: {{do: retry, attempts: 5, delay: 60}}}}]}}}}
    set: {{ctx.total: "{{{{ output.data.total }}}}"}}
    next: {{arcs: [{{step: each, when: "{{{{ ctx.total > 10 }}}}"}}, {{step: end}}]}}
  - step: each
    loop: {{in: "{{{{ workload.items }}}}", iterator: item, spec: {{mode: parallel}}}}
    tool: {{kind: shell, cmd: "echo {{{{ iter.item }}}}"}}
    next: {{arcs: [{{step: ask}}]}}
  - {{step: ask, tool: {{kind: wait, signal: go, timeout: 3600}}, next: {{arcs: [{{step: end}}]}}}}
  - {{step: end, tool: {{kind: noop, output: "{{{{ ctx.total }}}}"}}}}
"""
CASE = """\
  - name: case {number}
    mocks:
      start: {{attempts: [{{http: {{status: 503}}}}, {{data: {{total: {total}}}}}]}}
      each: {{data: "{{{{ iter.item }}}}"}}
    signals: {signals}
    expect: {{output: {total}, route: {route}, seconds: 60}}
"""


def write(folder: Path) -> None:
    """Ten playbooks with ten cases each; half of them take the long way."""
    for number in range(FILES):
        (folder / f"flow_{number}.yaml").write_text(PLAYBOOK.format(number=number))
        cases = []
        for case in range(CASES // FILES):
            long = case % 2 == 0
            cases.append(
                CASE.format(
                    number=case,
                    total=20 + case if long else case,
                    signals="[{name: go}]" if long else "[]",
                    route="[start, each, ask, end]" if long else "[start, end]",
                )
            )
        (folder / f"flow_{number}.test.yaml").write_text("tests:\n" + "".join(cases))


def seconds(folder: Path) -> float:
    """How long one run of all of them takes."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "NOETL_HOME": str(folder / "home")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "test"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    if done.returncode or f"{CASES} passed" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return took


def main() -> int:
    """Measure, print, say whether the limit holds."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    runs = options.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        seconds(folder)  # fills the caches
        took = statistics.median(seconds(folder) for _ in range(runs))
    good = took <= SECONDS_LIMIT
    print(f"{CASES} tests of {FILES} playbooks  {took:.2f} s  {took / CASES * 1e3:.1f} ms each (limit {SECONDS_LIMIT:g} s) "
          f"{'ok' if good else 'BROKEN'}")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
