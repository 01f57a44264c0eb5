"""CodeRuns: Python code of a playbook in a verification: run where it is confined, once for the same code and input.

Whose playbook it is nobody knows. So code runs only where the system keeps it from files, processes and other machines,
and not for long. Code that asks for any of them is not run at all: its answers are made up, as those of all other tools are.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.drivers.confinement import Bounds, enforcement_failure
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
     "string", "textwrap", "typing", "unicodedata", "urllib.parse", "zlib"}
)  # fmt: skip
_EFFECTS = frozenset(
    {"open", "exec", "eval", "compile", "__import__", "input", "breakpoint", "globals", "locals", "vars", "getattr",
     "setattr", "delattr", "context"}
)  # fmt: skip
#: the clock, ways out of a module, and ways from a value to the interpreter that runs the code
_EFFECTS_BELOW = frozenset(
    {"now", "today", "utcnow", "open", "modules", "system", "gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back",
     "f_builtins", "f_globals", "f_locals"}
)  # fmt: skip
#: what named tuples offer
_HARMLESS = frozenset({"_asdict", "_fields", "_make", "_replace"})
#: what code may take: seconds for one run, megabytes, and how many codes of a playbook may take too long
_SECONDS, _MEMORY_MB, _MOST_SLOW = 3.0, 1_024, 3
#: how a run says that it took too much
_TOO_MUCH = frozenset({"timeout", "limit"})


#: what the process of code may not do
_SPEC = {
    "isolation": "strict",
    "network": "off",
    "limits": {"memory_mb": _MEMORY_MB, "output_bytes": 1_000_000, "processes": 1},
}


class CodeRunner(Protocol):
    """Runs code that has no effects."""

    #: whether running code takes so long that an event loop has to leave it to a thread
    blocks: bool

    def find_refusal(self, code: str) -> str:
        """Why code is not run; an empty text if it is."""

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
    """What a python task yields: its code is run unless the runner refuses it, else its answer is made up."""
    if not runner.find_refusal(code):
        output = runner.run_code(code, given)
        if not runner.find_refusal(code):
            return output
    return answers.make_answer("python", call, number).to_output()


@lru_cache(maxsize=1_000)
def find_effect(code: str) -> str:
    """What in the code may have an effect, or may differ from run to run; an empty text if nothing does.

    It keeps code apart that is worth running; that no code has an effect is for the confinement to see to.
    """
    try:
        tree = ast.parse(f"def _task():\n{_indent(code)}" if _returns(code) else code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "it is not Python that can be parsed"
    return next((said for node in ast.walk(tree) if (said := _effect_of(node))), "")


def _effect_of(node: ast.AST) -> str:
    """The same of one part of the code."""
    strange = next((name for name in _imported(node) if name not in _PURE), "")
    if strange:
        return f"it imports `{strange}`"
    if isinstance(node, ast.Name) and node.id in _EFFECTS:
        return f"it uses `{node.id}`"
    if isinstance(node, ast.arg) and node.arg in ("context", "results"):
        return f"it uses `{node.arg}`"
    if not isinstance(node, ast.Attribute):
        return ""
    if node.attr in _EFFECTS_BELOW or (node.attr.startswith("_") and node.attr not in _HARMLESS):
        return f"it uses `{node.attr}`"
    return ""


def _imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports; one that a module has imported itself is one, too."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = [one.name for one in node.names if one.name in sys.stdlib_module_names or one.name.startswith("_")]
        return [node.module or ".", *(name for name in parts if name != node.module)]
    return []


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
    own = [
        name for name in used if re.search(rf"import\b[^\n]*\b{name}\b|\b{name}\s*=[^=]|[(,]\s*{name}\s*[,)=]", code)
    ]
    return "".join(f"import {name}\n" for name in used if name not in own and name not in given) + code


def _returns(code: str) -> bool:
    """Whether `return` stands outside of a function, as scripts may have it."""
    return any(line.startswith(("return", "    return")) for line in code.splitlines()) and "def " not in code


def _indent(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())


class CodeRuns:
    """Runs code as a task of a playbook of its own, in a process that can reach no files, processes or machines."""

    blocks = True

    def __init__(self, catalog: Catalog, home: Path, environment: dict[str, str], *, seconds: float = _SECONDS) -> None:
        self._catalog = catalog
        self._home = home
        self._environment = environment
        self._seconds = seconds
        self._known: dict[bytes, Output] = {}
        self._slow: set[str] = set()

    @cached_property
    def _unconfined(self) -> str:
        """Why this machine cannot confine code; an empty text if it can."""
        problem = enforcement_failure(Bounds(strict=True, network=False))
        return "" if problem is None else "this machine cannot confine it"

    def find_refusal(self, code: str) -> str:
        """Why code is not run; an empty text if it is."""
        if code in self._slow:
            return f"it took more than {self._seconds:g} s, or more memory than it may"
        if len(self._slow) >= _MOST_SLOW:
            return "other code of the playbook took too long"
        return self._unconfined or find_effect(code)

    def run_code(self, code: str, given: Mapping[str, Any]) -> Output:
        """What the code yields for its input."""
        key = msgspec.json.encode((code, given), order="sorted")
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._run(code, given)
            if known["error"] is not None and known["error"]["kind"] in _TOO_MUCH:
                self._slow.add(code)
        return known

    def _run(self, code: str, given: Mapping[str, Any]) -> Output:
        # The input goes through the workload: what looks like a template in it is data.
        read = {key: f"{{{{ workload.given[{msgspec.json.encode(key).decode()}] }}}}" for key in given}
        document = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "code"},
            "workload": {"given": dict(given)},
            "executor": {"spec": {**_SPEC, "timeout": self._seconds}},
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
