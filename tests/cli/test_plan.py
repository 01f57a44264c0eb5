"""noetl run --plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flow, schema: {properties: {n: {type: integer}}}}
keychain: [{name: api, kind: bearer}]
workload: {n: 3, url: http://x, cities: [Oslo, Porto]}
workflow:
  - step: start
    loop: {in: "{{ workload.cities }}", iterator: city}
    tool:
      kind: http
      url: "{{ workload.url }}/{{ iter.city }}"
      headers: {Authorization: "Bearer {{ keychain.api.token }}"}
    set: {ctx.total: "{{ output.data | length }}"}
    next: {arcs: [{step: many, when: "{{ workload.n > 2 }}"}, {step: few}]}
  - {step: many, tool: {kind: shell, cmd: "echo {{ workload.n }} {{ ctx.total }}"}}
  - {step: few, tool: {kind: noop}}
"""


@pytest.fixture
def flow(folder: Path, home: Path) -> Path:
    """The current folder with a playbook."""
    (folder / "flow.yaml").write_text(PLAYBOOK)
    return folder


@pytest.mark.usefixtures("flow")
def test_a_plan_says_what_would_run_and_runs_nothing(noetl: Noetl, home: Path) -> None:
    done = noetl("run", "--plan", "flow.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "flow: nothing is run\n"
        "  needs the credential api (bearer)\n"
        "\n"
        "1. start\n"
        '   2 times, sequential, over ["Oslo","Porto"] as iter.city; below is the first\n'
        "   start: http\n"
        "     url: http://x/Oslo\n"
        "     headers:\n"
        "       Authorization: Bearer ‹secret: keychain.api.token›\n"
        "   → many when {{ workload.n > 2 }}\n"
        "   · few  (would not be taken)\n"
        "\n"
        "2. many\n"
        "   many: shell\n"
        "     cmd: echo 3 ‹from step start: ctx.total›\n"
        "\n"
        "would not run: few\n"
    )
    assert not home.exists()


@pytest.mark.usefixtures("flow")
def test_a_plan_follows_the_payload(noetl: Noetl) -> None:
    done = noetl("run", "--plan", "flow.yaml", "--json", "--set", "n=1", "--payload", '{"cities": []}')
    told = json.loads(done.out)
    assert [(step["name"], step["runs"]) for step in told["steps"]] == [("start", "yes"), ("few", "yes")]
    assert told["steps"][0]["loop"]["count"] == 0
    assert told["not_run"] == ["many"]


@pytest.mark.usefixtures("flow")
def test_a_plan_of_something_invalid_says_what_is_wrong(noetl: Noetl, folder: Path) -> None:
    assert noetl("run", "--plan", "flow.yaml", "--set", "n=x").code == 2
    (folder / "flow.yaml").write_text(PLAYBOOK.replace("tool:", "tol:"))
    done = noetl("run", "--plan", "flow.yaml", "--json")
    assert done.code == 2
    assert {one["code"] for one in json.loads(done.out)["diagnostics"]} == {"unknown-key"}


def test_a_plan_shows_a_script_line_by_line(noetl: Noetl, folder: Path) -> None:
    script = "        if true; then\n          echo one\n        fi\n"
    (folder / "script.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: script}\n"
        f"workflow:\n  - step: start\n    tool:\n      kind: shell\n      cmd: |\n{script}"
    )
    told = noetl("run", "--plan", "script.yaml").out
    assert "     cmd: |\n       if true; then\n         echo one\n       fi\n" in told
