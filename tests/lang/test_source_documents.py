"""Every YAML block of the five documents the language comes from validates, migrates clean, or is refused with a reason.

The documents do not belong to this repository; where they are not there, nothing is tested.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from noetl.lang import load
from noetl.lang.legacy import migrate
from noetl.model.diagnostics import Severity
from noetl.tools.registry import Kinds

DOCUMENTS = sorted((Path(__file__).resolve().parents[3] / "shared" / "spec" / "sources").glob("*.txt"))
KINDS = Kinds()
STEP_KEYS = {"step", "desc", "when", "loop", "tool", "result", "next", "spec", "set", "input", "output"}

#: blocks that cannot be a playbook, and why: what refuses them
REFUSED = {
    "000-0": "a table of types, not YAML values",
    "000-3": "placeholders in angle brackets",
    "000-5": "placeholders in angle brackets",
    "000-6": "GET|POST|PUT|DELETE is no method, and `token` and `request_data` are nobody's names",
    "000-12": "a list of names with comments",
    "000-13": "insert|upsert|replace|append is no mode",
    "000-14": "insert|upsert|replace|append is no mode",
    "000-15": "parquet|json|csv is no format",
    "000-27": "a tool without its kind",
    "000-33": "`file_path` is nobody's name",
    "000-34": "placeholders in angle brackets",
    "000-35": "`score` is nobody's name",
    "000-36": "a list of names with types",
    "000-38": "`api` is nobody's name",
    "002-0": "placeholders in angle brackets",
    "002-1": "placeholders in angle brackets",
    "002-2": "`10[...]` is no number of attempts",
    "003-1": "`{{ ... }}` is no expression",
    "003-2": "`{{ ... }}` is no expression",
    "003-3": "`{{ ... }}` is no expression",
    "003-4": "`...` stands for a task",
    "004-1": "placeholders in angle brackets",
    "004-2": "placeholders in angle brackets",
    "004-3": "placeholders in angle brackets",
    "004-4": "`...` stands for keys",
    "004-5": "placeholders in angle brackets",
    "004-6": "placeholders in angle brackets",
}


def blocks() -> list[tuple[str, str]]:
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        fenced = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) or unfenced(text)
        found += [(f"{document.name[:3]}-{number}", block) for number, block in enumerate(fenced)]
    return found


def unfenced(text: str) -> list[str]:
    """001 lost its fences and its indentation: runs of lines that look like YAML."""
    runs: list[list[str]] = [[]]
    for line in text.splitlines():
        if re.match(r"(- )?[\w.]+:( .*)?$|- \w+:", line) and "  •" not in line:
            runs[-1].append(line)
        elif runs[-1] and line.strip():
            runs.append([])
    return ["\n".join(run) + "\n" for run in runs if len(run) > 1]


def wrapped(block: str) -> str:
    """A fragment as a whole playbook; text that is no YAML stays as it is."""
    try:
        data = yaml.safe_load(block)
    except yaml.YAMLError:
        return block
    if isinstance(data, dict) and "apiVersion" in data:
        return block
    document: dict[str, Any] = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "wrapped"}}
    if isinstance(data, dict) and "keychain" in data:
        return yaml.safe_dump(
            {**document, **data, "workflow": [{"step": "start", "tool": {"kind": "noop"}}]}, sort_keys=False
        )
    steps = as_steps(data)
    if steps is None:
        return block
    for step in steps:
        complete(step)
    known = {step.get("step") for step in steps if isinstance(step, dict)}
    named = re.findall(r"step: (\w+)", block) + re.findall(r"(?:done|ok)\('(\w+)'\)", block)
    ends = sorted(set(named) - known)
    document["workload"] = {"user": {"id": 1}} if "user.id" in block and "element: user" not in block else {}
    document["workflow"] = [*steps, *({"step": name, "tool": {"kind": "noop"}} for name in ends)]
    names = set(re.findall(r"name: (my_task|summarize_scores)", block))
    if names:
        document["workbook"] = {name: {"kind": "noop"} for name in names}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def complete(step: Any) -> None:
    """Fragments leave out what they do not speak of."""
    tool = step.get("tool") if isinstance(step, dict) else None
    if isinstance(tool, dict):
        spec = tool.get("spec") or {}
        if tool.get("kind") == "http" and not {"url", "endpoint"} & (tool.keys() | spec.keys()):
            tool["url"] = "https://example.com/"
        if tool.get("kind") == "python" and not {"code", "module"} & (tool.keys() | spec.keys()):
            tool["code"] = "result = 1\n"


def as_steps(data: Any) -> list[Any] | None:
    python = {"kind": "python", "code": "result = 1\n"}
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return data if "step" in data[0] else [{"step": "start", "tool": {**python, "sink": data}}]
    if not isinstance(data, dict):
        return None
    if "step" in data:
        return [data]
    if "sink" in data or "args" in data:
        return [{"step": "start", "result": "my_result", "tool": {**python, **data}}]
    if "eval" in data:
        return [{"step": "start", "tool": [{"one": {"kind": "noop", **data}}]}]
    if "rules" in ((data.get("spec") or {}).get("policy") or {}):
        return [{"step": "start", "tool": {"kind": "noop", **data}}]
    if data.keys() <= STEP_KEYS:
        return [{"step": "start", **({} if "tool" in data else {"tool": {"kind": "noop"}}), **data}]
    return None


@pytest.mark.skipif(not DOCUMENTS, reason="the source documents are not here")
@pytest.mark.parametrize(("name", "block"), blocks(), ids=[name for name, _ in blocks()])
def test_a_block_validates_or_migrates_clean_or_is_refused_with_a_reason(name: str, block: str) -> None:
    text = wrapped(block)
    migrated = migrate(text, KINDS)
    result = load(migrated.text, KINDS) if migrated is not None else load(text, KINDS)
    errors = [found for found in result.diagnostics if found.severity is Severity.ERROR]
    if name in REFUSED or name.startswith("001"):
        assert errors or result.ok
        assert all(found.message and (found.span is None or found.span.line > 0) for found in errors)
        assert bool(errors) or name.startswith("001")
        return
    assert not errors, f"{errors}\n{migrated.text if migrated else text}"
    assert load(text, KINDS, legacy=True).ok
