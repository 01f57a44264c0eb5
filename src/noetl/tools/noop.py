"""kind: noop"""

from noetl.model.kinds import InputRole, ToolKind

KIND = ToolKind(
    name="noop",
    doc="Does nothing. A place for `set`, `output` and policy rules.",
    keys={},
    input=InputRole.ARGUMENTS,
    output="`null`",
    effect_free=True,
)
