"""kind: secrets"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Key, Text

KIND = ToolKind(
    name="secrets",
    doc="Fetches one secret; its value is redacted wherever it would be written.",
    keys={
        "provider": Key(Text(templated=True), "Where the secret lives: `env`, `file`, `vault` or a plugin's."),
        "secret": Key(Text(templated=True), "The name of the secret."),
        "key": Key(Text(templated=True), "One field of the secret."),
    },
    input=InputRole.ARGUMENTS,
    output="the secret, redacted wherever it is written",
    one_of=(("secret",),),
    name_means="secret",
)
