"""kind: shell"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key, ListOf, MapOf, OneOf, Text

KIND = ToolKind(
    name="shell",
    doc="Runs a command. Each template in it stands for one word. `input` gives environment variables.",
    keys={
        "cmd": Key(
            OneOf((Text(templated=True), ListOf(Text(templated=True)))),
            "The command, or a list of commands run in order until one fails.",
        ),
        "file": Key(Text(templated=True), "A script file, in place of `cmd`."),
        "env": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Environment variables."),
        "cwd": Key(Text(templated=True), "The folder to run in."),
    },
    input=InputRole.ARGUMENTS,
    output="`{stdout, stderr, exit_code}`; an exit code other than 0 is an error",
    one_of=(("cmd", "file"),),
    shell=frozenset({"cmd"}),
    aliases=("script",),
)
