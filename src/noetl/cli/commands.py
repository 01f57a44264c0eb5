"""Which commands there are: their module, their purpose and one line about each. `--help` reads nothing else."""

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A command that is imported when it is called: `noetl.cli.<module>.command`."""

    module: str
    #: the heading it stands under in the help
    purpose: str
    about: str
    #: whether it acts on a server as well, with --server; False: where one is meant, it is refused; None: it asks nobody
    remote: bool | None = None


#: the variable in which the completion script of a shell says what it asks
COMPLETION = "_NOETL_COMPLETE"
COMMANDS: Mapping[str, Entry] = {
    "init": Entry("init", "Start", "Write a starter project: a playbook, its tests, editor settings."),
    "run": Entry("run", "Run", "Run a playbook to its end; every step is recorded as it happens.", remote=True),
    "resume": Entry("resume", "Run", "Go on with an interrupted run, exactly where it was.", remote=False),
    "rerun": Entry("rerun", "Run", "Run again from a step or an event; what came before is kept.", remote=False),
    "cancel": Entry("cancel", "Run", "End an execution, of this or of another process.", remote=True),
    "pause": Entry("pause", "Run", "Start nothing new in an execution until it is unpaused.", remote=True),
    "unpause": Entry("unpause", "Run", "Let a paused execution go on.", remote=True),
    "signal": Entry("signalling", "Run", "Send a signal to an execution that waits for it, or will.", remote=True),
    "ps": Entry("ps", "Look at runs", "List executions, the latest first.", remote=True),
    "show": Entry("show", "Look at runs", "Show one execution: how it stands, its steps, how it ended.", remote=True),
    "why": Entry(
        "why", "Look at runs", "Say why a step ran or did not: each guard with the values it saw.", remote=True
    ),
    "events": Entry("events", "Look at runs", "Print everything that happened in an execution, in order.", remote=True),
    "result": Entry(
        "result", "Look at runs", "Print or save what a step or an execution yielded, however large.", remote=True
    ),
    "logs": Entry("logs", "Look at runs", "Print what the tools of an execution wrote.", remote=True),
    "state": Entry(
        "state", "Look at runs", "Show the state of an execution, now or at any event of its past.", remote=True
    ),
    "diff": Entry("diff", "Look at runs", "Hold two executions against each other: route, steps, values.", remote=True),
    "fsck": Entry("fsck", "Look at runs", "Check that the recorded executions are whole and make sense.", remote=False),
    "validate": Entry("validate", "Check", "Tell all problems of playbooks, with line, caret and fix."),
    "migrate": Entry("migrate", "Check", "Rewrite older dialects to the canonical one; comments are kept."),
    "test": Entry("test", "Check", "Run the tests of playbooks: mocked tools, skipped time, kills."),
    "format": Entry("formatting", "Check", "Write playbooks in their one canonical spelling."),
    "explain": Entry("explain", "Look", "Say what a playbook means: its steps, its settings, its arcs."),
    "graph": Entry("graph", "Look", "Draw the steps and arcs of a playbook as SVG, Mermaid or DOT.", remote=True),
    "dev": Entry("dev", "Serve", "Serve the API on this machine and run what is started through it."),
    "server": Entry("server", "Serve", "Decide for executions, and hand pipelines to workers."),
    "worker": Entry("worker", "Serve", "Run the pipelines that servers hand out.", remote=True),
    "token": Entry("token", "Serve", "Make and remove the tokens that a server asks for."),
    "credential": Entry(
        "credential", "Set up", "Keep credentials, encrypted: add, list, remove, rotate.", remote=False
    ),
    "archive": Entry("archive", "Set up", "Move executions that are over into files, and back.", remote=False),
    "gc": Entry("gc", "Set up", "Remove stored payloads whose time has run out.", remote=False),
    "schema": Entry("schema", "Set up", "Print the JSON Schema of playbooks or their tests, for editors."),
    "completion": Entry("completion", "Set up", "Print the completion script for bash, zsh or fish."),
    "help": Entry("help", "Set up", "Help about a command, or about the code of a message."),
}
