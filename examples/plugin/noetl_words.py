"""kind: words

A tool kind is a module with two names. `KIND` says what there is to configure: validation, editor schema and
documentation follow from it. `run` does the work.
"""

from __future__ import annotations

from collections import Counter

from noetl.plugin import Call, InputRole, Key, Number, Output, Text, ToolKind, World, failed, failure, ok

KIND = ToolKind(
    name="words",
    doc="Counts the words of a text.",
    keys={
        "text": Key(Text(templated=True), "The text."),
        "most": Key(Number(integer=True, minimum=1, templated=True), "How many of the words.", default=10),
    },
    #: keys under `input` mean the same as keys beside `kind`
    input=InputRole.CONFIGURES,
    output="`[{word, count}]`, the most frequent first",
    #: it changes nothing outside, so nothing is lost when a crash makes it run twice
    effect_free=True,
    #: of each group exactly one must be given, under `input` or beside `kind`
    one_of=(("text",),),
)


async def run(call: Call, world: World) -> Output:
    """Count. Everything a task is told is in `call`, rendered; what it may use of the world is in `world`."""
    text = call.config["text"]
    if not isinstance(text, str):
        # A failure of the task is an output, so that the task's policy can speak of it; nothing is raised.
        return failed(failure("words", f"`text` must be text, not {type(text).__name__}"))
    counted = Counter(text.lower().split())
    world.log(call, "stdout", f"{len(counted)} different words\n")
    most = counted.most_common(call.config.get("most", 10))
    return ok([{"word": word, "count": count} for word, count in most])
