"""Which commands there are: their module, their purpose and one line about each. `--help` reads nothing else."""

from collections.abc import Mapping
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command, which is imported when it is called."""

    #: the module below `noetl.cli`; behind a colon, the name in it, where that is not `command`
    place: str
    #: the heading it stands under in the help
    purpose: str
    about: str
    #: whether it acts on a server as well, with --server; False: where one is meant, it is refused; None: it asks nobody
    remote: bool | None = None


#: the variable in which the completion script of a shell says what it asks
COMPLETION = "_NOETL_COMPLETE"
COMMANDS: Mapping[str, CommandEntry] = {
    "init": CommandEntry(
        "commands.playbooks.init", "Start", "Write a starter project: a playbook, its tests, editor settings."
    ),
    "run": CommandEntry(
        "commands.runs.run", "Run", "Run a playbook to its end; every step is recorded as it happens.", remote=True
    ),
    "resume": CommandEntry(
        "commands.runs.resume", "Run", "Go on with an interrupted run, exactly where it was.", remote=False
    ),
    "rerun": CommandEntry(
        "commands.runs.rerun", "Run", "Run again from a step or an event; what came before is kept.", remote=False
    ),
    "cancel": CommandEntry(
        "commands.runs.control:cancel", "Run", "End an execution, of this or of another process.", remote=True
    ),
    "pause": CommandEntry(
        "commands.runs.control:pause", "Run", "Start nothing new in an execution until it is unpaused.", remote=True
    ),
    "unpause": CommandEntry("commands.runs.control:unpause", "Run", "Let a paused execution go on.", remote=True),
    "signal": CommandEntry(
        "commands.runs.control:signal", "Run", "Send a signal to an execution that waits for it, or will.", remote=True
    ),
    "ps": CommandEntry("commands.inspect.ps", "Look at runs", "List executions, the latest first.", remote=True),
    "show": CommandEntry(
        "commands.inspect.show",
        "Look at runs",
        "Show one execution: how it stands, its steps, how it ended.",
        remote=True,
    ),
    "why": CommandEntry(
        "commands.inspect.why",
        "Look at runs",
        "Say why a step ran or did not: each guard with the values it saw.",
        remote=True,
    ),
    "events": CommandEntry(
        "commands.inspect.events",
        "Look at runs",
        "Print everything that happened in an execution, in order.",
        remote=True,
    ),
    "result": CommandEntry(
        "commands.inspect.result",
        "Look at runs",
        "Print or save what a step or an execution yielded, however large.",
        remote=True,
    ),
    "logs": CommandEntry(
        "commands.inspect.logs", "Look at runs", "Print what the tools of an execution wrote.", remote=True
    ),
    "state": CommandEntry(
        "commands.inspect.state",
        "Look at runs",
        "Show the state of an execution, now or at any event of its past.",
        remote=True,
    ),
    "diff": CommandEntry(
        "commands.inspect.diff",
        "Look at runs",
        "Hold two executions against each other: route, steps, values.",
        remote=True,
    ),
    "fsck": CommandEntry(
        "commands.admin.fsck",
        "Look at runs",
        "Check that the recorded executions are whole and make sense.",
        remote=False,
    ),
    "validate": CommandEntry(
        "commands.playbooks.validate", "Check", "Tell all problems of playbooks, with line, caret and fix."
    ),
    "migrate": CommandEntry(
        "commands.playbooks.migrate", "Check", "Rewrite older dialects to the canonical one; comments are kept."
    ),
    "test": CommandEntry(
        "commands.playbooks.test", "Check", "Run the tests of playbooks: mocked tools, skipped time, kills."
    ),
    "format": CommandEntry("commands.playbooks.format", "Check", "Write playbooks in their one canonical spelling."),
    "explain": CommandEntry(
        "commands.playbooks.explain", "Look", "Say what a playbook means: its steps, its settings, its arcs."
    ),
    "graph": CommandEntry(
        "commands.playbooks.graph", "Look", "Draw the steps and arcs of a playbook as SVG, Mermaid or DOT.", remote=True
    ),
    "dev": CommandEntry(
        "commands.serve.dev", "Serve", "Serve the API on this machine and run what is started through it."
    ),
    "server": CommandEntry("commands.serve.server", "Serve", "Decide for executions, and hand pipelines to workers."),
    "worker": CommandEntry("commands.serve.worker", "Serve", "Run the pipelines that servers hand out.", remote=True),
    "token": CommandEntry(
        "commands.admin.token", "Serve", "Make and remove the tokens that servers require.", remote=True
    ),
    "audit": CommandEntry(
        "commands.admin.audit", "Serve", "Print who changed what, and which calls were refused.", remote=True
    ),
    "credential": CommandEntry(
        "commands.admin.credential", "Set up", "Keep credentials, encrypted: add, list, remove, rotate.", remote=False
    ),
    "archive": CommandEntry(
        "commands.admin.archive", "Set up", "Move executions that are over into files, and back.", remote=False
    ),
    "gc": CommandEntry("commands.admin.gc", "Set up", "Remove stored payloads whose time has run out.", remote=False),
    "schema": CommandEntry(
        "commands.playbooks.schema", "Set up", "Print the JSON Schema of playbooks or their tests, for editors."
    ),
    "completion": CommandEntry("completion", "Set up", "Print the completion script for bash, zsh or fish."),
    "help": CommandEntry("commands.admin.help", "Set up", "Help about a command, or about the code of a message."),
}
