"""kind: secrets"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Output, failed, failure, ok
from noetl.model.shape import Key, Text

if TYPE_CHECKING:
    from noetl.ports import Call, World

KIND = ToolKind(
    name="secrets",
    doc="Fetches one secret; its value is redacted wherever it would be written.",
    keys={
        "provider": Key(
            Text(templated=True),
            "Where the secret lives: `env`, `file`, `vault`, a plugin's, or `store`, the credential store.",
            default="store",
        ),
        "secret": Key(Text(templated=True), "The name of the secret."),
        "key": Key(Text(templated=True), "One field of the secret."),
    },
    input=InputRole.CONFIGURES,
    output="the secret, redacted wherever it is written",
    one_of=(("secret",),),
    name_means="secret",
    keeps_network=True,  # it reaches nobody but the places that whoever runs the worker has set up
    settings=frozenset(),
)


async def run(call: Call, world: World) -> Output:
    """Fetch it. It is known to be a secret before anything else can be done with it."""
    from noetl.ports import NoCredential

    config = call.config
    key = config.get("key")
    try:
        found = await world.secret(
            str(config.get("provider") or "store"), str(config["secret"]), None if key in (None, "") else str(key)
        )
    except NoCredential as error:
        return failed(failure("credential", f"the secret `{config['secret']}`: {error}", retryable=error.retryable))
    return ok(found)
