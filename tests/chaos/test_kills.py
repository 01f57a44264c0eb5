"""Processes killed at random, with effects recorded outside: nothing is lost, and no effect has a second key.

One part kills single processes that run a playbook, the other servers, workers and tools of a cluster under load. THOROUGH
raises the number of kills; `campaign.py` beside this file is the long one, and measures recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cluster_processes import Arena
from forkserver import ForkedProcess, ForkServer
from killer import Killer
from load import Load, runs
from thorough import up_to

#: of each playbook: kills of a process that was alive
KILLS = up_to(50, 8)
#: of the cluster: kills, executions, and those of them that run before the first kill
CLUSTER_KILLS, EXECUTIONS, UNDISTURBED = up_to(60, 12), up_to(1_500, 240), 15
SEED = 20_240
#: of ten processes, so many are killed at any moment of their start; the others at one of the run itself
EARLY = 1

#: effects are appended to a file by the tools themselves, each line a key and what it was for; each run has a file of its
#: own, because a tool may be late: one that was started just when the engine was killed runs on without it
PLAYBOOKS = {
    "chain": """
- {step: a, tool: {kind: shell, cmd: 'echo "$KEY a" >> "$LEDGER"; sleep 0.05', input: {KEY: "{{ task_key }}"}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: python, input: {key: "{{ task_key }}"}, code: "import os\\ndef main(key):\\n    with open(os.environ['LEDGER'], 'a') as file:\\n        file.write(key + ' b\\\\n')\\n    return 1\\n"}, next: {arcs: [{step: c}]}}
- step: c
  tool:
    - {name: one, kind: wait, seconds: 0.1}
    - {name: two, kind: shell, cmd: 'echo "$KEY c2" >> "$LEDGER"; sleep 0.05', input: {KEY: "{{ task_key }}"}}
    - {name: three, kind: shell, cmd: 'echo "$KEY c3" >> "$LEDGER"; sleep 0.05', input: {KEY: "{{ task_key }}"}}
  next: {arcs: [{step: d}]}
- {step: d, loop: {in: [1, 2, 3], iterator: n}, tool: {kind: playbook, path: child, input: {n: "{{ iter.n }}"}}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: shell, cmd: 'echo "$KEY end" >> "$LEDGER"; printf done', input: {KEY: "{{ task_key }}"}, output: "{{ output.data.stdout }}"}}
""",
    "loop": """
- step: each
  loop: {in: "{{ range(1, 41) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3, policy: {reduce: {ctx.sum: sum}}}}
  tool: {kind: shell, cmd: 'echo "$KEY $N" >> "$LEDGER"; sleep 0.05', input: {KEY: "{{ task_key }}", N: "{{ iter.n }}"}, set: {ctx.sum: "{{ iter.n }}"}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.sum }}"}}
""",
    "pages": """
- step: pages
  tool:
    - {name: fetch, kind: shell, cmd: 'echo "$KEY $PAGE" >> "$LEDGER"; sleep 0.01', input: {KEY: "{{ task_key }}", PAGE: "{{ step.page | default(1) }}"}}
    - {name: next, kind: noop, set: {step.page: "{{ step.page | default(1) + 1 }}"}, spec: {policy: {rules: [{when: "{{ step.page <= 40 }}", then: {do: jump, to: fetch}}]}}}
  set: {ctx.pages: "{{ step.page - 1 }}"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.pages }}"}}
""",
    "plan": """
- step: plan
  tool:
    kind: python
    input: {key: "{{ task_key }}"}
    code: |
      import os
      def main(key):
          with open(os.environ["LEDGER"], "a") as file:
              file.write(key + " plan\\n")
          def step(n):
              cmd = 'echo "$KEY %d" >> "$LEDGER"; sleep 0.05' % n
              to = "end" if n == 6 else "do_%d" % (n + 1)
              tool = {"kind": "shell", "cmd": cmd, "input": {"KEY": "{" + "{ task_key }" + "}"}}
              return {"step": "do_%d" % n, "tool": tool, "next": {"arcs": [{"step": to}]}}
          return [step(n) for n in range(1, 7)]
  next: {spec: {synthesize: {from: "{{ output.data }}", allow_kinds: [shell]}}, arcs: []}
- {step: end, tool: {kind: noop, output: planned}}
""",
}
CHILD = """
- {step: x, tool: {kind: shell, cmd: 'echo "$KEY child$N" >> "$LEDGER"; sleep 0.05', input: {KEY: "{{ task_key }}", N: "{{ workload.n }}"}}}
"""
#: the output, and how many effects there are
EXPECTED = {"plan": ("planned", 7), "chain": ("done", 8), "loop": (820, 40), "pages": (40, 40)}


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"


class Site:
    """A folder in which one playbook is run, killed and resumed, over and over."""

    def __init__(self, folder: Path, name: str, forkserver: ForkServer) -> None:
        self.folder = folder
        self.forkserver = forkserver
        self.name = name
        (folder / "playbook.yaml").write_text(HEAD % "killed" + PLAYBOOKS[name])
        (folder / "child.yaml").write_text(HEAD % "child" + CHILD)
        #: whether the run at hand is recorded: else it died before it wrote anything, and is begun again
        self.known = False
        self.runs = 0

    @property
    def environment(self) -> dict[str, str]:
        own = {"NOETL_HOME": str(self.folder / "home"), "LEDGER": f"ledger-{self.runs}"}
        # Else every process would compile the whole program anew before it can be killed.
        return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own

    def start(self, *arguments: str, new: bool = False) -> subprocess.Popen[bytes] | ForkedProcess:
        """A process: a new interpreter, or one that has imported the program already."""
        if not new:
            return self.forkserver.start(*arguments, cwd=self.folder, env=self.environment)
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def go_on(self, *, new: bool = False) -> subprocess.Popen[bytes] | ForkedProcess:
        return self.start(*(("resume", "last") if self.known else ("run", "playbook.yaml")), "--json", new=new)

    def killed(self, chance: random.Random) -> tuple[int | None, bytes]:
        """Go on for a while, at most to the end: the exit code, and what was printed."""
        early = chance.randrange(10) < EARLY
        process = self.go_on(new=early)
        self.wait_for_a_moment(process, chance.uniform(0, 0.2), early=early)
        process.kill()
        answer = process.communicate(timeout=300)[0]
        return process.returncode, answer

    def wait_for_a_moment(
        self, process: subprocess.Popen[bytes] | ForkedProcess, seconds: float, *, early: bool
    ) -> None:
        if not early:
            # However slow the machine is today: who has claimed an execution has started.
            while process.poll() is None and not list(self.folder.glob(f"home/owners/{process.pid}-*")):
                time.sleep(0.002)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)

    def notice(self) -> None:
        """Whether what was killed had been recorded."""
        database = self.folder / "home" / "noetl.db"
        if self.known or not database.exists():
            return
        with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'execution'").fetchone()[0]
            roots = "SELECT count(*) FROM execution WHERE parent IS NULL"
            self.known = bool(tables) and connection.execute(roots).fetchone()[0] > self.runs

    def check(self, answer: bytes) -> None:
        """A run has come to its end: everything happened, each thing under one key of its own."""
        document = json.loads(answer)
        assert (document["status"], document["output"]) == ("completed", EXPECTED[self.name][0])
        self.check_ledger(self.runs)
        self.known = False
        self.runs += 1

    def check_ledger(self, run: int) -> None:
        effects = EXPECTED[self.name][1]
        keys: dict[str, set[str]] = {}
        for key, effect in map(str.split, (self.folder / f"ledger-{run}").read_text().splitlines()):
            keys.setdefault(effect, set()).add(key)
        assert len(keys) == effects, "an effect is missing"
        assert all(len(found) == 1 for found in keys.values()), "an effect has a second key"
        assert len(set.union(*keys.values())) == effects, "two effects share a key"


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_runs_that_are_killed_again_and_again_do_everything_under_one_key(
    name: str, tmp_path: Path, forkserver: ForkServer
) -> None:
    chance = random.Random(name)
    site = Site(tmp_path, name, forkserver)
    hits = 0
    while hits < KILLS:
        code, answer = site.killed(chance)
        if code == -signal.SIGKILL:
            hits += 1
            site.notice()
        else:
            site.check(answer)
    site.check(site.go_on().communicate(timeout=300)[0])
    check = site.start("fsck", "--json")
    assert json.loads(check.communicate(timeout=300)[0])["problems"] == []
    for run in range(site.runs):  # what came late too
        site.check_ledger(run)


@pytest.mark.slow
def test_a_cluster_loses_nothing_when_any_process_is_killed_at_any_time(forkserver: ForkServer) -> None:
    with TemporaryDirectory(prefix="noetl-arena-") as name, Arena(Path(name), forkserver) as arena:
        load, killer = Load(arena), Killer(arena, SEED, every=(0.1, 0.5))

        async def campaign() -> None:
            await load.run(runs(0, UNDISTURBED))
            rest = runs(UNDISTURBED, EXECUTIONS - UNDISTURBED)
            await asyncio.gather(load.run(rest, pace=killer.pace(CLUSTER_KILLS)), killer.run(CLUSTER_KILLS))

        try:
            asyncio.run(campaign())
        except TimeoutError:
            raise AssertionError(f"these do not end: {load.unfinished()[:5]}; {arena.said()}") from None
        print({**load.check(), **killer.told(load)})
        assert len(killer.kills) == CLUSTER_KILLS
