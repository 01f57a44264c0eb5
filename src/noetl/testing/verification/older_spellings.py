"""spell_alike: the many spellings of a step in older texts, as the one that the interpreter reads.

Tools whose keys stand beside them, iterators, branches under `then` and `else`, and `case`. What it does not know stays as
it stands, for the interpreter to name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: what stays with the step when its other keys are those of its tool
_OF_THE_STEP = frozenset(
    {"step", "desc", "description", "next", "loop", "when", "case", "vars", "set", "set_ctx", "result", "bind", "spec",
     "output", "args", "pipe", "retry", "save", "sink", "return"}
)  # fmt: skip
_WITHOUT_TOOL = frozenset({"start", "end", "router", "switch"})
_LOOP = {"collection": "collection", "element": "element", "mode": "mode", "in": "in", "iterator": "iterator"}
#: words of a call that say what is the case anyway
_IDLE = frozenset({"libs", "credential", "follow_redirects", "return_result", "result_step", "return_step", "task"})


def spell_alike(said: dict[str, Any]) -> dict[str, Any]:
    """A step in the spelling of the interpreter."""
    step = dict(said)
    if isinstance(step.get("title"), str):
        step["desc"] = step.pop("title")
    kind = step.pop("type") if isinstance(step.get("type"), str) and "tool" not in step else step.get("tool")
    if isinstance(kind, str):
        step.pop("tool", None)
        _fold(step, kind)
    elif isinstance(kind, dict) and kind.get("kind") in _WITHOUT_TOOL and len(kind) == 1:
        step.pop("tool")
    tool = step.get("tool")
    if isinstance(tool, dict):
        step["tool"] = _spell_tool(tool)
    elif isinstance(tool, list):
        step["tool"] = [_spell_tool(one) if isinstance(one, dict) and "kind" in one else one for one in tool]
    if "return" in step and "output" not in step:
        step["output"] = step.pop("return")
    if isinstance(step.get("case"), list):
        step["next"] = [*_case(step.pop("case")), *_listed(step.get("next"))]
    return step


def _fold(step: dict[str, Any], kind: str) -> None:
    """`tool: http` with the tool's keys beside it."""
    if kind in _WITHOUT_TOOL:
        return
    tool = {"kind": kind, **{key: step.pop(key) for key in list(step) if key not in _OF_THE_STEP}}
    if "retry" in step:
        tool["retry"] = step.pop("retry")
    if kind != "iterator":
        step["tool"] = tool
        return
    body = tool.get("task")
    step["loop"] = {_LOOP[key]: tool[key] for key in tool if key in _LOOP}
    inner = dict(body) if isinstance(body, dict) else {}
    inner["kind"] = inner.pop("type", None) or (
        inner.pop("tool") if isinstance(inner.get("tool"), str) else inner.get("kind")
    )
    left = tool.keys() - {"kind", "task", *_LOOP}
    step["tool"] = {**inner, **{key: tool[key] for key in left}}


def _spell_tool(said: dict[str, Any]) -> dict[str, Any]:
    tool = {key: part for key, part in said.items() if key not in _IDLE}
    if tool.get("kind") == "python" and isinstance(tool.get("data"), dict):
        tool["args"] = tool.pop("data")
    output = tool.get("output")
    if isinstance(output, dict) and output.keys() & {"output_select", "store"}:
        tool.pop("output")
    return tool


def spell_arcs(said: Any) -> Any:
    """The ways out of a step: a word, one arc, or branches."""
    if isinstance(said, str) or (isinstance(said, dict) and "step" in said):
        return [said]
    if not isinstance(said, list) or not any(isinstance(one, dict) and {"then", "else"} & one.keys() for one in said):
        return said
    return [arc for number, one in enumerate(said) for arc in _branch(one, number)]


def _branch(said: Any, number: int) -> Iterator[Any]:
    if not isinstance(said, dict) or not {"then", "else"} & said.keys():
        yield {**({"step": said} if isinstance(said, str) else said), "branch": 2 * number}
        return
    for place, word in enumerate(("then", "else")):
        for one in _listed(said.get(word)):
            arc = {"step": one} if isinstance(one, str) else dict(one)
            if word == "then" and "when" in said:
                arc.setdefault("when", said["when"])
            yield {**arc, "branch": 2 * number + place}


def _case(said: list[Any]) -> Iterator[Any]:
    for one in said:
        if not isinstance(one, dict):
            yield one
            continue
        for word in ("then", "else"):
            then = one.get(word)
            inner = then if isinstance(then, dict) else {"next": then}
            if "step" in inner:
                inner = {"next": [inner]}
            if then is not None:
                yield {**({"when": one["when"]} if word == "then" and "when" in one else {}), word: _carry(inner)}


def _carry(then: dict[str, Any]) -> list[Any]:
    """The targets of a branch, each with what the branch writes."""
    written: Any = then.get("set", {})
    if isinstance(written, list):
        written = {one["name"]: one.get("value") for one in written if isinstance(one, dict) and "name" in one}
    if then.keys() - {"next", "set"} or not isinstance(written, dict):
        return [{"step": "", "case": True}]  # named by the interpreter as what it does not know
    arcs: list[dict[str, Any]] = [
        {"step": one} if isinstance(one, str) else dict(one) for one in _listed(then.get("next"))
    ]
    return [{**arc, "set": {**written, **arc.get("set", {})}} if written else arc for arc in arcs]


def _listed(said: Any) -> list[Any]:
    if said is None:
        return []
    return list(said) if isinstance(said, list) else [said]
