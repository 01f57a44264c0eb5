"""kind: python"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Key, Text

KIND = ToolKind(
    name="python",
    doc="Runs Python code in a process of its own.",
    keys={
        "code": Key(
            Text(),
            "A `def main(…)` whose parameters are filled by name from `input`, or a plain script whose variables are "
            "the keys of `input` and which assigns `result` or returns. Never a template.",
        ),
        "module": Key(Text(), "The module to import, in place of `code`."),
        "callable": Key(Text(), "The function of `module` to call."),
    },
    input=InputRole.ARGUMENTS,
    output="what the code returned",
    one_of=(("code", "module"),),
    literal=frozenset({"code", "module", "callable"}),
)
