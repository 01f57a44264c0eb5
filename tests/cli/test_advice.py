"""What a diagnostic says to do, done to the letter: the playbook then does what was meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from noetl.model.slugs import SLUGS

if TYPE_CHECKING:
    from cli.conftest import Noetl

UNHANDLED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: advised}
workload: {wrong: false}
workflow:
  - step: start
    tool:
      kind: python
      input: {wrong: "{{ workload.wrong }}"}
      code: |
        def main(wrong):
            if wrong:
                raise ValueError("no luck")
            return 1
      spec:
        policy:
          rules:
            - {when: "{{ output.error.kind == 'timeout' }}", then: {do: retry, delay: 0}}
"""
QUOTED = re.compile(r"`(on_unmatched: [^`]*|- \{[^`]*)`")


def advised(noetl: Noetl, folder: Path) -> str:
    """What `noetl validate` says to do about the playbook."""
    (folder / "advised.yaml").write_text(UNHANDLED, encoding="utf-8")
    (found,) = json.loads(noetl("validate", "advised.yaml", "--format", "json").out)["diagnostics"]
    assert found["code"] == "unhandled-error"
    return str(found["fix"])


def followed(way: str) -> str:
    """The playbook with a key beside its `rules`, or with one more rule at their end."""
    if way.startswith("- "):
        return f"{UNHANDLED}            {way}\n"
    return UNHANDLED.replace("          rules:\n", f"          {way}\n          rules:\n")


def test_the_message_and_the_help_text_of_an_unhandled_error_give_the_same_two_ways_out(
    noetl: Noetl, folder: Path
) -> None:
    ways = QUOTED.findall(advised(noetl, folder))
    assert len(ways) == 2
    assert QUOTED.findall(SLUGS["unhandled-error"].mend) == ways


@pytest.mark.parametrize("which", [0, 1], ids=["on_unmatched", "a last rule"])
def test_what_went_well_completes_and_an_error_fails_with_either_way_out_of_an_unhandled_error(
    noetl: Noetl, folder: Path, which: int
) -> None:
    text = followed(QUOTED.findall(advised(noetl, folder))[which])
    (folder / "advised.yaml").write_text(text, encoding="utf-8")
    assert json.loads(noetl("validate", "advised.yaml", "--format", "json").out)["diagnostics"] == []
    well = noetl("run", "advised.yaml", "--json")
    wrong = noetl("run", "advised.yaml", "--json", "--set", "wrong=true")
    assert (well.code, json.loads(well.out)["output"]) == (0, 1)
    assert (wrong.code, json.loads(wrong.out)["status"]) == (1, "failed")
    assert "no luck" in json.loads(wrong.out)["error"]["message"]
