"""kind: http"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Flag, Key, MapOf, OneOf, Text, Word

if TYPE_CHECKING:
    from noetl.model.output import Output
    from noetl.ports import Call, World

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

KIND = ToolKind(
    name="http",
    doc="Makes one HTTP request. A status of 400 or more is an error.",
    keys={
        "method": Key(Word(_METHODS, templated=True), "The request method.", default="GET"),
        "url": Key(Text(templated=True), "The address."),
        "params": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Query parameters."),
        "headers": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Request headers."),
        "json": Key(Anything(), "A value sent as JSON."),
        "body": Key(Anything(), "The body as text; a map or list is sent as JSON."),
        "form": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Fields sent URL-encoded."),
        "follow_redirects": Key(Flag(templated=True), "Whether redirects are followed.", default=True),
    },
    input=InputRole.CONFIGURES,
    output="parsed JSON, else text in the encoding that the answer names, by default UTF-8. Bytes that are no text are lost "
    "(each becomes U+FFFD): a picture or an archive is fetched by a `shell` or `python` task",
    one_of=(("url",),),
    keeps_network=True,
    at_most_one=(("json", "body", "form"),),
    settings=frozenset({"retries", "pool_size", "verify", "timeout.connect", "timeout.read"}),
)


async def run(call: Call, world: World) -> Output:
    """Make the request, over the connections that the execution's earlier requests left open."""
    from noetl.model.output import failed
    from noetl.tools.http.request import HttpClient, InvalidRequest

    try:
        client = await HttpClient.of(call, world)
    except InvalidRequest as error:
        return failed(error.failure)
    return await client.run(call, world)
