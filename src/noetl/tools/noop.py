"""kind: noop"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Output, ok

if TYPE_CHECKING:
    from noetl.ports import Call, World

KIND = ToolKind(
    name="noop",
    doc="Does nothing. A place for `set`, `output` and policy rules.",
    keys={},
    input=InputRole.ARGUMENTS,
    output="`null`",
    effect_free=True,
    keeps_network=True,
    settings=frozenset(),
)


def run(call: Call, world: World) -> Output:  # noqa: ARG001  there is nothing to do with them
    """Do nothing."""
    return ok()
