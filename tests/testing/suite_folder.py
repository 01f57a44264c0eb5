"""A test file and its playbook in a folder, run as `noetl test` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.testing.suite_runner import CaseResult, SuiteOptions, SuiteResult, SuiteRunner

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: tried}\nworkload: {items: [1, 2, 3], url: 'http://x'}\nworkflow:\n"


class Bench:
    """A folder with a playbook, `tried.yaml`."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.folder = folder
        self.put("tried.yaml", HEAD + steps)

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, cases: str, **wishes: Any) -> SuiteResult:
        """What becomes of a test file."""
        session = SuiteRunner(SuiteOptions(**wishes), self.folder / "home", {"PATH": "/usr/bin:/bin"})
        file = self.folder / "tried.test.yaml"
        ran = session.run(file, cases.encode(), "tried.test.yaml", lambda _ran, _result: None)
        if ran.cassette is not None:
            ran.cassette[0].write_text(ran.cassette[1])
        return ran

    def one(self, case: str, **wishes: Any) -> CaseResult:
        """What becomes of the only case of a test file, which is written without its name."""
        ran = self.run(f"tests:\n- name: it\n{case}", **wishes)
        assert ran.problems == (), [found.message for _, all_found in ran.problems for found in all_found]
        (result,) = ran.results
        return result


def said(result: CaseResult) -> list[str]:
    """What is wrong with a case."""
    return [one.message for one in result.failures]


def told(ran: SuiteResult) -> list[tuple[str, int, str]]:
    """What keeps a file from running: code, line, message."""
    return [(one.code, one.span.line if one.span else 0, one.message) for _, found in ran.problems for one in found]
