"""How soon a run starts, and how soon a killed one goes on: in seconds, beside DBOS and beside bare imports.

python bench/durable.py    a table; exit code 1 when a limit is broken
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine import HERE, PEERS, Table, chain

SOURCES = HERE.parent / "src"
IMPORTS = "import click, yaml, jinja2, msgspec, sqlite3, asyncio"
SCRIPT = "import sys\nfrom noetl.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
RUNS = 9
#: steps of the chain that is killed, and what each takes
LONG, STEP_S = 40, 0.05


def seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def cold(table: Table, folder: Path, environment: dict[str, str]) -> None:
    """Three steps, from nothing to the end of the process."""
    file, script = folder / "three.yaml", folder / "noetl"
    file.write_text(chain(3, "noop"))
    script.write_text(SCRIPT)
    ours, bare, peer = [], [], []
    for number in range(RUNS + 1):
        home = {**environment, "NOETL_HOME": str(folder / f"cold{number}")}
        ours.append(seconds([sys.executable, str(script), "run", str(file), "--json"], home))
        bare.append(seconds([sys.executable, "-c", IMPORTS], environment))
        if (PEERS / "dbos").is_dir():
            command = [sys.executable, str(HERE / "peers" / "dbos_peer.py"), "cold", "3", str(folder / f"d{number}.db")]
            peer.append(seconds(command, {**environment, "PYTHONPATH": str(PEERS)}))
    mine, base = statistics.median(ours[1:]), statistics.median(bare[1:])
    table.row(
        "cold run of 3 steps",
        f"{mine * 1000:.0f} ms",
        f"of imports ({base * 1000:.0f} ms)",
        mine / base,
        2.5,
        most=True,
    )
    if peer:
        other = statistics.median(peer[1:])
        table.row(
            "cold run of 3 steps",
            f"{mine * 1000:.0f} ms",
            f"of DBOS ({other * 1000:.0f} ms)",
            mine / other,
            0.5,
            most=True,
        )


def killed(table: Table, folder: Path, environment: dict[str, str]) -> None:
    """kill -9 in mid-chain; from the start of `resume` to its first new step."""
    file, script = folder / "long.yaml", folder / "noetl"
    marks = folder / "marks"
    command = f'date +%s.%N >> "{marks}"; sleep {STEP_S}'
    file.write_text(chain(LONG, f"shell, cmd: '{command}'"))
    delays = []
    for number in range(5):
        marks.unlink(missing_ok=True)
        home = {**environment, "NOETL_HOME": str(folder / f"kill{number}")}
        run = subprocess.Popen(
            [sys.executable, str(script), "run", str(file), "--json"],
            env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not marks.exists() or len(marks.read_text().split()) < LONG // 4:
            time.sleep(0.01)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        before = len(marks.read_text().split())
        started = time.time()
        subprocess.run(
            [sys.executable, str(script), "resume", "last", "--json"], check=True, env=home, stdout=subprocess.DEVNULL
        )
        after = marks.read_text().split()
        delays.append(float(after[before]) - started)
        # The step under way when it was killed may run again; none that the log holds does.
        assert LONG <= len(after) <= LONG + 1, len(after)
    delay = statistics.median(delays)
    table.row("first new step after kill -9", f"{delay * 1000:.0f} ms", "of 400 ms", delay / 0.4, 1, most=True)


def folding(table: Table) -> None:
    """A log of 50,000 events, from bytes to state."""
    sys.path.insert(0, str(SOURCES))
    from noetl.engine.fold import apply
    from noetl.engine.net_index import NetIndex
    from noetl.engine.reaction import react, start_execution as open_execution
    from noetl.lang.loader import load
    from noetl.model.events import Fact, decode, encode
    from noetl.model.requests import OpenExecution
    from noetl.model.state import Execution
    from noetl.server.core.catalog import Catalog
    from noetl.tools.registry import ToolKinds

    text = chain(2, "noop").replace("step: s1}", "step: s0}", 1)
    net = load(text.replace("arcs: [{step: end}]", "arcs: [{step: s0}]"), ToolKinds()).net
    assert net is not None
    outlook, log = NetIndex(net, Catalog(ToolKinds())), []
    state, decision = open_execution(outlook, OpenExecution("x", "h"), 1.0, lambda: "id")
    log += [encode(event) for event in decision.events]
    while len(log) < 50_000:
        run = next(iter(state.runs.values()))
        facts = [
            Fact("step.started", run.id, {}),
            Fact("step.done", run.id, {"output": {"status": "ok", "data": None, "ref": None, "error": None}}),
        ]
        log += [encode(event) for event in react(outlook, state, facts, 1.0, lambda: "id").events]
    started = time.perf_counter()
    again = Execution("x")
    for body in log:
        apply(again, decode(body))
    took = time.perf_counter() - started
    assert again == state
    table.row(f"folding {len(log):,} events", f"{took * 1000:.0f} ms", "of 1 s", took, 1, most=True)


def main() -> int:
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONPYCACHEPREFIX": f"{name}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        cold(table, folder, environment)
        killed(table, folder, environment)
    folding(table)
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())
