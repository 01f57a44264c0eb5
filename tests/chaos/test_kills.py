"""Real processes, killed at random and resumed, with effects written down outside: nothing lost, no second key."""

from __future__ import annotations

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

import pytest
from nursery import Born, Nursery

#: in all 200, each of a process that was alive
KILLS_PER_ROUND = 20
ROUNDS = 10
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

    def __init__(self, folder: Path, name: str, nursery: Nursery) -> None:
        self.folder = folder
        self.nursery = nursery
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

    def start(self, *arguments: str, new: bool = False) -> subprocess.Popen[bytes] | Born:
        """A process: a new interpreter, or one that has imported the program already."""
        if not new:
            return self.nursery.start(*arguments, cwd=self.folder, env=self.environment)
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def go_on(self, *, new: bool = False) -> subprocess.Popen[bytes] | Born:
        return self.start(*(("resume", "last") if self.known else ("run", "playbook.yaml")), "--json", new=new)

    def killed(self, chance: random.Random) -> tuple[int | None, bytes]:
        """Go on for a while, at most to the end: the exit code, and what was printed."""
        early = chance.randrange(10) < EARLY
        process = self.go_on(new=early)
        self.wait_for_a_moment(process, chance.uniform(0, 0.2), early=early)
        process.kill()
        answer = process.communicate(timeout=300)[0]
        return process.returncode, answer

    def wait_for_a_moment(self, process: subprocess.Popen[bytes] | Born, seconds: float, *, early: bool) -> None:
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
@pytest.mark.parametrize("number", range(ROUNDS))
def test_runs_that_are_killed_again_and_again_do_everything_under_one_key(
    number: int, tmp_path: Path, nursery: Nursery
) -> None:
    chance = random.Random(number)
    site = Site(tmp_path, list(PLAYBOOKS)[number % len(PLAYBOOKS)], nursery)
    hits = 0
    while hits < KILLS_PER_ROUND:
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
    assert hits == KILLS_PER_ROUND
