"""kind: resolve"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import failed, failure, ok
from noetl.model.shape import Anything, Key

if TYPE_CHECKING:
    from noetl.model.output import Output
    from noetl.ports import Call, World

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
    keeps_network=True,  # payloads lie where whoever runs the worker has set up a store for them
    settings=frozenset(),
)


async def run(call: Call, world: World) -> Output:
    """Read what a reference leads to."""
    from noetl.errors import NoetlError
    from noetl.expr import is_reference
    from noetl.ports import ResultDamaged, ResultGone

    reference, some = call.config.get("ref"), call.config.get("range")
    if not isinstance(reference, dict) or not is_reference(reference):
        return failed(failure("type", f"`ref` must be a reference such as `output.ref`, not {_describe(reference)}"))
    if some is not None and not _is_range(some):
        said = "`range` must be two row numbers, `[from, to]`, the second no less than the first"
        return failed(failure("type", f"{said}, not {_describe(some)}"))
    try:
        return ok(await (world.results.read(reference) if some is None else world.results.rows(reference, *some)))
    except ResultGone as error:
        return failed(failure("result-expired", str(error)))
    except ResultDamaged as error:
        return failed(failure("result-damaged", str(error)))
    except NoetlError as error:
        return failed(failure("result", str(error)))


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in value)
        and value[0] <= value[1]
    )


def _describe(value: Any) -> str:
    from noetl.drivers.text import summarize_value

    return summarize_value(value) if value is not None else "nothing"
