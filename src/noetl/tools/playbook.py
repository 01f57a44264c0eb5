"""kind: playbook"""

from typing import Any

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Key, Number, OneOf, Text
from noetl.ports import Call

KIND = ToolKind(
    name="playbook",
    doc="Runs another playbook as a child execution. `input` is its payload.",
    keys={
        "path": Key(Text(templated=True), "A catalog path, or a file relative to this playbook."),
        "version": Key(
            OneOf((Text(templated=True), Number())),
            "A revision of the catalog. There is no catalog yet, so every revision is unknown: leave it out.",
        ),
        "entry_step": Key(Text(templated=True), "The step the child starts with."),
        "return_step": Key(Text(templated=True), "The step whose output comes back."),
    },
    input=InputRole.ARGUMENTS,
    output="the child's output",
    one_of=(("path",),),
    paths=frozenset({"path"}),
    keeps_network=True,  # what its caller may not do, the child may not do either
    suspends=True,
    settings=frozenset(),
)


def suspend(call: Call, now: float) -> dict[str, Any]:
    """The child to start; the caller lets the task go and comes back with the child's output."""
    child = {"path": str(call.config["path"]), "payload": dict(call.input)}
    for name in ("version", "entry_step", "return_step"):
        if call.config.get(name) is not None:
            child[name] = call.config[name]
    timeout = call.spec.get("timeout")
    return {"child": child} if timeout is None else {"child": child, "until": now + float(timeout)}
