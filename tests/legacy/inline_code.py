"""InlineCode: Python code of generated playbooks, run in this process."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from noetl.model.output import Output, failed, failure, ok
from noetl.testing.verification.code_runs import find_effect


class InlineCode:
    """Runs the code of generated playbooks in this process: it is ours, and a process for each would take minutes."""

    blocks = False

    def find_refusal(self, code: str) -> str:
        """Why code is not run."""
        return find_effect(code)

    def run_code(self, code: str, given: Mapping[str, Any]) -> Output:
        """What the code yields."""
        try:
            return ok(json.loads(json.dumps(self._run(code, dict(given)))))
        except Exception as error:  # noqa: BLE001  whatever code does wrong is its output
            return failed(failure("python", f"{type(error).__name__}: {error}"))

    def _run(self, code: str, given: dict[str, Any]) -> Any:
        names: dict[str, Any] = {"input_data": dict(given), **given}
        if code.startswith("def main"):
            exec(code, names)  # the code stands in this repository
            wanted = inspect.signature(names["main"]).parameters
            takes_all = any(one.kind is one.VAR_KEYWORD for one in wanted.values())
            return names["main"](**{key: part for key, part in given.items() if takes_all or key in wanted})
        script = f"def _script():\n{textwrap.indent(code, '    ')}\n    return result\n"
        exec(script if "return" in code else code, names)
        return names["_script"]() if "return" in code else names["result"]
