"""CodeRuns: Python code of a playbook in a verification: run where it is confined, once for the same code and input.

Code that may have effects is not run. Its answers are made up, as those of all other tools are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.model.diagnostics import Span
from noetl.model.output import Output, failed, failure, ok
from noetl.server.core import Catalog
from noetl.testing.case_runner import CaseRunner
from noetl.testing.mocked_tools import MockedTools
from noetl.testing.mocks import Cassette
from noetl.testing.test_file import LIMIT, NOW, Case, TaskSettings
from noetl.testing.verification.made_up_answers import MadeUpAnswers

NOWHERE = Span(1, 1, 1, 1)
#: modules that reach neither files nor processes nor other machines, and always yield the same
_PURE = frozenset(
    {"__future__", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
     "fractions", "functools", "hashlib", "heapq", "html", "io", "itertools", "json", "math", "operator", "re", "statistics",
     "string", "textwrap", "time", "typing", "unicodedata", "urllib.parse", "zlib"}
)  # fmt: skip
_EFFECTS = frozenset(
    {"open", "exec", "eval", "compile", "__import__", "input", "breakpoint", "globals", "locals", "setattr", "delattr"}
)


class CodeRunner(Protocol):
    """Runs code that has no effects."""

    #: whether running code takes so long that an event loop has to leave it to a thread
    blocks: bool

    def run_code(self, code: str, given: Mapping[str, Any]) -> Output:
        """What the code yields for its input."""


def answer_code(
    runner: CodeRunner,
    answers: MadeUpAnswers,
    code: str,
    given: Mapping[str, Any],
    call: tuple[str, str, str],
    number: int,
) -> Output:
    """What a python task yields: its code is run if it has no effects, else its answer is made up."""
    if find_effect(code):
        return answers.make_answer("python", call, number).to_output()
    return runner.run_code(code, given)


@lru_cache(maxsize=1_000)
def find_effect(code: str) -> str:
    """What in the code may have an effect, or may differ from run to run; an empty text if nothing does."""
    try:
        tree = ast.parse(f"def _task():\n{_indent(code)}" if _returns(code) else code)
    except (SyntaxError, ValueError, RecursionError):
        return "it is not Python that can be parsed"
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        strange = next((name for name in names if name not in _PURE), "")
        if strange:
            return f"it imports `{strange}`"
        if isinstance(node, ast.Name) and (node.id in _EFFECTS or node.id == "context"):
            return f"it uses `{node.id}`"
        if isinstance(node, ast.arg) and node.arg in ("context", "results"):
            return f"it uses `{node.arg}`"
        if isinstance(node, ast.Attribute) and (node.attr.startswith("__") or node.attr in ("now", "today", "utcnow")):
            return f"it uses `{node.attr}`"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
            return "it uses the clock"
    return ""


def find_parameters(code: str) -> tuple[str, ...]:
    """The parameters of `main` in older code, if it has one."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    mains = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == "main"]
    return tuple(one.arg for main in mains for one in (*main.args.args, *main.args.kwonlyargs))


def with_modules(code: str, given: Mapping[str, Any]) -> str:
    """Older code with the modules that it had without importing them."""
    used = [name for name in ("os", "json", "datetime", "uuid") if re.search(rf"(?<![\w.]){name}\.", code)]
    own = [name for name in used if re.search(rf"import\b[^\n]*\b{name}\b|\b{name}\s*=[^=]|[(,]\s*{name}\s*[,)=]", code)]
    return "".join(f"import {name}\n" for name in used if name not in own and name not in given) + code


def _returns(code: str) -> bool:
    """Whether `return` stands outside of a function, as scripts may have it."""
    return any(line.startswith(("return", "    return")) for line in code.splitlines()) and "def " not in code


def _indent(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())


class CodeRuns:
    """Runs code as a task of a playbook of its own, in the process that confines it."""

    blocks = True

    def __init__(self, catalog: Catalog, home: Path, environment: dict[str, str]) -> None:
        self._catalog = catalog
        self._home = home
        self._environment = environment
        self._known: dict[bytes, Output] = {}

    def run_code(self, code: str, given: Mapping[str, Any]) -> Output:
        """What the code yields for its input."""
        key = msgspec.json.encode((code, given), order="sorted")
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._run(code, given)
        return known

    def _run(self, code: str, given: Mapping[str, Any]) -> Output:
        # The input goes through the workload: what looks like a template in it is data.
        read = {key: f"{{{{ workload.given[{msgspec.json.encode(key).decode()}] }}}}" for key in given}
        document = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "code"},
            "workload": {"given": dict(given)},
            "workflow": [{"step": "start", "tool": {"kind": "python", "code": code, "input": read}}],
        }
        source, loaded = self._catalog.read(self._home / "code.yaml", msgspec.json.encode(document))
        if loaded.net is None:
            problem = loaded.diagnostics[0].message if loaded.diagnostics else "it cannot be run"
            return failed(failure("python", problem))
        case = Case("code", NOWHERE, {}, (TaskSettings(real=frozenset({"python"})),), (), NOW, LIMIT, None)
        runner = CaseRunner(self._catalog, source, self._home, self._environment)
        done = runner.run_case(case, MockedTools(case, Cassette([]), recording=False))
        if done.trouble is not None:
            return failed(failure("python", done.trouble.message))
        error = done.state.error
        return ok(done.output) if error is None else failed(failure(error["kind"], error["message"]))
