"""The YAML blocks of the five documents the language comes from, and a fragment of one as a whole playbook.

The documents do not belong to this repository; where they are not there, there are no blocks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

DOCUMENTS = sorted((Path(__file__).resolve().parents[3] / "shared" / "spec" / "sources").glob("*.txt"))
STEP_KEYS = {"step", "desc", "when", "loop", "tool", "result", "next", "spec", "set", "input", "output"}


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
