"""Real processes, killed at random and resumed, with effects written down outside: nothing lost, no second key."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS_PER_ROUND = 10
ROUNDS = 20

#: effects are appended to a file by the tools themselves, each line a key and what it was for
PLAYBOOKS = {
    "chain": """
- {step: a, tool: {kind: shell, cmd: 'echo "$KEY a" >> ledger; sleep 0.03', input: {KEY: "{{ task_key }}"}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: python, input: {key: "{{ task_key }}"}, code: "def main(key):\\n    with open('ledger', 'a') as file:\\n        file.write(key + ' b\\\\n')\\n    return 1\\n"}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: wait, seconds: 0.05}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: shell, cmd: 'echo "$KEY end" >> ledger; printf done', input: {KEY: "{{ task_key }}"}, output: "{{ output.data.stdout }}"}}
""",
    "loop": """
- step: each
  loop: {in: [1, 2, 3, 4, 5, 6, 7, 8], iterator: n, spec: {mode: parallel, max_in_flight: 3, policy: {reduce: {ctx.sum: sum}}}}
  tool: {kind: shell, cmd: 'echo "$KEY $N" >> ledger; sleep 0.02', input: {KEY: "{{ task_key }}", N: "{{ iter.n }}"}, set: {ctx.sum: "{{ iter.n }}"}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.sum }}"}}
""",
    "pages": """
- step: pages
  tool:
    - {name: fetch, kind: shell, cmd: 'echo "$KEY $PAGE" >> ledger', input: {KEY: "{{ task_key }}", PAGE: "{{ step.page | default(1) }}"}}
    - {name: next, kind: noop, set: {step.page: "{{ step.page | default(1) + 1 }}"}, spec: {policy: {rules: [{when: "{{ step.page <= 12 }}", then: {do: jump, to: fetch}}]}}}
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
      def main(key):
          with open("ledger", "a") as file:
              file.write(key + " plan\\n")
          def step(n):
              cmd = 'echo "$KEY %d" >> ledger; sleep 0.05' % n
              to = "end" if n == 6 else "do_%d" % (n + 1)
              tool = {"kind": "shell", "cmd": cmd, "input": {"KEY": "{" + "{ task_key }" + "}"}}
              return {"step": "do_%d" % n, "tool": tool, "next": {"arcs": [{"step": to}]}}
          return [step(n) for n in range(1, 7)]
  next: {spec: {synthesize: {from: "{{ output.data }}", allow_kinds: [shell]}}, arcs: []}
- {step: end, tool: {kind: noop, output: planned}}
""",
}
EXPECTED = {"plan": ("planned", 7), "chain": ("done", 3), "loop": (36, 8), "pages": (12, 12)}


def noetl(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NOETL_HOME": str(folder / "home")}
    return subprocess.Popen(
        [sys.executable, "-m", "noetl", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_run_that_is_killed_again_and_again_does_everything_under_one_key(number: int, tmp_path: Path) -> None:
    name = list(PLAYBOOKS)[number % len(PLAYBOOKS)]
    chance = random.Random(number)
    file = tmp_path / "playbook.yaml"
    file.write_text(
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: killed}}\nworkflow:\n{PLAYBOOKS[name]}"
    )
    process = noetl(tmp_path, "run", str(file), "--json")
    kills, again = 0, ["run", str(file), "--json"]
    while kills < KILLS_PER_ROUND:
        time.sleep(chance.uniform(0.15, 0.45))
        if process.poll() is not None and (tmp_path / "home" / "noetl.db").exists():
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        if again[0] == "run" and is_known(tmp_path):  # else it died before it wrote anything
            again = ["resume", "last", "--json"]
        process = noetl(tmp_path, *again)
    answer = process.communicate(timeout=60)[0]
    document = json.loads(answer)
    output, effects = EXPECTED[name]
    assert (document["status"], document["output"]) == ("completed", output)
    lines = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
    by_effect: dict[str, set[str]] = {}
    for key, effect in lines:
        by_effect.setdefault(effect, set()).add(key)
    assert len(by_effect) == effects, "an effect is missing"
    assert all(len(keys) == 1 for keys in by_effect.values()), "an effect has a second key"
    assert len({key for keys in by_effect.values() for key in keys}) == effects, "two effects share a key"
    check = noetl(tmp_path, "fsck")
    check.communicate(timeout=60)
    assert check.returncode == 0


def is_known(folder: Path) -> bool:
    listed = noetl(folder, "ps", "--json").communicate(timeout=60)[0]
    return bool(json.loads(listed or b"[]"))
