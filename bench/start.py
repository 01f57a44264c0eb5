"""How fast the command line answers, as a ratio to bare Python measured in the same run.

    python bench/start.py    a table; exit code 1 when a limit is broken

Runs alternate, each in a new process; the medians are compared.
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
from typing import NamedTuple

from validate import SOURCES, playbook

RUNS = 21
LINES = 120
#: what pip installs as `noetl`
SCRIPT = "import sys\nfrom noetl.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


class Figure(NamedTuple):
    """A command, what it is measured against, and how many times as long it may take."""

    name: str
    arguments: tuple[str, ...]
    baseline: str
    limit: float


PASS = "pass"
LIBRARIES = "import click, yaml, jinja2, msgspec"
FIGURES = (
    Figure("noetl --version", ("--version",), PASS, 1.5),
    Figure("noetl --help", ("--help",), "import click", 1.8),
    Figure(f"noetl validate, {LINES} lines", ("validate", "{playbook}"), LIBRARIES, 1.8),
)


def seconds(command: list[str], folder: str) -> float:
    """How long a process takes, from its start to its end; compiled modules are kept, as they are after pip."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def compare(command: list[str], baseline: list[str], runs: int, folder: str) -> tuple[float, float]:
    """The medians of both, after one run each that fills the caches."""
    pairs = [(seconds(command, folder), seconds(baseline, folder)) for _ in range(runs + 1)][1:]
    return statistics.median(one for one, _ in pairs), statistics.median(other for _, other in pairs)


def main() -> int:
    """Measure every figure, print a table, say whether the limits hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    runs = max(15, options.parse_args().runs)
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "noetl")
        script.write_text(SCRIPT)
        file = Path(folder, "flow.yaml")
        text = playbook(LINES // 24)
        file.write_text(text + "# the end\n" * (LINES - text.count("\n")))
        for figure in FIGURES:
            arguments = [argument.format(playbook=file) for argument in figure.arguments]
            command = [sys.executable, str(script), *arguments]
            ours, theirs = compare(command, [sys.executable, "-c", figure.baseline], runs, folder)
            kept = ours / theirs <= figure.limit
            broken += not kept
            print(
                f"{figure.name:<28} {ours * 1e3:6.1f} ms  {ours / theirs:5.2f}× of {theirs * 1e3:6.1f} ms "
                f"(python -c {figure.baseline!r}), limit {figure.limit:g}×  {'ok' if kept else 'BROKEN'}"
            )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
