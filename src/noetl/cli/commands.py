"""Which commands there are: their module, their purpose and one line about each. `--help` reads nothing else."""

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A command that is imported when it is called: `noetl.cli.<module>.command`."""

    module: str
    #: the heading it stands under in the help
    purpose: str
    about: str


#: the variable in which the completion script of a shell says what it asks
COMPLETION = "_NOETL_COMPLETE"
COMMANDS: Mapping[str, Entry] = {
    "init": Entry("init", "Start", "Write a starter project: a playbook, editor settings, a README."),
    "run": Entry("run", "Run", "Run a playbook to its end; every step is recorded as it happens."),
    "validate": Entry("validate", "Check", "Tell all problems of playbooks, with line, caret and fix."),
    "migrate": Entry("migrate", "Check", "Rewrite older dialects to the canonical one; comments are kept."),
    "format": Entry("formatting", "Check", "Write playbooks in their one canonical spelling."),
    "explain": Entry("explain", "Look", "Say what a playbook means: its steps, its settings, its arcs."),
    "graph": Entry("graph", "Look", "Draw the steps and arcs of a playbook as SVG, Mermaid or DOT."),
    "schema": Entry("schema", "Set up", "Print the JSON Schema of playbooks, for editors."),
    "completion": Entry("completion", "Set up", "Print the completion script for bash, zsh or fish."),
    "help": Entry("help", "Set up", "Help about a command, or about the code of a message."),
}
