"""kind: noop"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Output, ok
from noetl.ports import Call, World

KIND = ToolKind(
    name="noop",
    doc="Does nothing. A place for `set`, `output` and policy rules.",
    keys={},
    input=InputRole.ARGUMENTS,
    output="`null`",
    effect_free=True,
)


async def run(_call: Call, _world: World) -> Output:
    """Nothing."""
    return ok()
