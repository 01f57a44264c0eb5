"""kind: wait"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Flag, Key, Number, Text

KIND = ToolKind(
    name="wait",
    doc="Waits for a time or a signal. Durable; holds no worker.",
    keys={
        "seconds": Key(Number(minimum=0, templated=True), "How long."),
        "until": Key(Text(templated=True), "A point in time, ISO 8601."),
        "signal": Key(Text(templated=True), "The name of the signal to wait for."),
        "timeout": Key(Number(minimum=0, templated=True), "With `signal`: how long at most, in seconds."),
        "transient": Key(Flag(templated=True), "With `signal`: only one that arrives during the wait counts."),
    },
    input=InputRole.CONFIGURES,
    output="what the signal carried",
    one_of=(("seconds", "until", "signal"),),
    effect_free=True,
)
