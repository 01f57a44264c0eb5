"""kind: resolve"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key

KIND = ToolKind(
    name="resolve",
    doc="Brings a stored payload back by its reference and checks its `sha256`.",
    keys={
        "ref": Key(Anything(), "The reference."),
        "range": Key(Anything(), "Only these rows: `[from, to]`, the end exclusive."),
    },
    input=InputRole.CONFIGURES,
    output="the payload",
    one_of=(("ref",),),
    effect_free=True,
)
