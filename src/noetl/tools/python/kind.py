"""kind: python

The code runs in a host (`host`), a process that is kept warm within one execution (`host_pool`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Beside, Key, Text

if TYPE_CHECKING:
    from noetl.model.output import Output
    from noetl.ports import Call, World

KIND = ToolKind(
    name="python",
    doc="Runs Python code in a process of its own, in the folder of the playbook. A task that is cancelled or out of time "
    "gets SIGTERM, which raises `SystemExit` in it, and is killed two seconds later.",
    keys={
        "code": Key(
            Text(),
            "A `def main(…)` whose parameters are filled by name from `input`, or a plain script whose variables are "
            "the keys of `input` and which assigns `result` or returns. Never a template.",
        ),
        "module": Key(Text(), "The module to import, in place of `code`."),
        "callable": Key(Text(), "The function of `module` to call.", beside=Beside("module")),
    },
    input=InputRole.ARGUMENTS,
    output="what the code returned, as JSON holds it: maps, lists, tuples, text, numbers, true, false, null; keys that are "
    "numbers, booleans or null become text, dates and times become ISO 8601 text, `Decimal` a number if no digit is lost and else text, `UUID` text, bytes "
    "base64 text; anything else (a set, a data frame) fails with `result-not-json` and the path to it. 64 MiB at most, "
    "unless `spec.limits.output_bytes` says otherwise",
    one_of=(("code", "module"),),
    keeps_network=True,
    has_process=True,
    literal=frozenset({"code", "module", "callable"}),
    settings=frozenset(),
)


async def run(call: Call, world: World) -> Output:
    """Run the code in a host that is free, in a new one, or in the next one to be free."""
    from noetl.tools.python.host_pool import PythonPool

    async def start() -> PythonPool:
        return PythonPool(world)

    pool = await world.resource("python", start, PythonPool.close)
    return await pool.run(call, world)
