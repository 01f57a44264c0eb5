"""kind: workbook"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Key, Text

KIND = ToolKind(
    name="workbook",
    doc="Calls a reusable task of this playbook's `workbook`.",
    keys={"task": Key(Text(), "The name of the workbook's task.")},
    input=InputRole.ARGUMENTS,
    output="the workbook task's output",
    one_of=(("task",),),
    name_means="task",
    keeps_network=True,  # its tasks do
    literal=frozenset({"task"}),
    settings=frozenset(),
)
