"""The shape of the document as one table: which keys may stand where, what they hold, what they mean.

`SHAPES` holds the shapes that others refer to by name. A task's shape depends on its kind and is put together by
`task_shape`. Validation (`lang.shapes`), the JSON Schema (`lang.jsonschema`) and the reference pages read this table.
"""

from collections.abc import Mapping

from noetl.model.kinds import ToolKind
from noetl.model.shape import Anything, Condition, Flag, Key, ListOf, MapOf, Number, OneOf, Record, Shape, Text, Use, Word

API_VERSION = "noetl.io/v2"
NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"
CONTROL_WORDS = ("continue", "skip", "retry", "jump", "break", "fail")
REDUCERS = ("sum", "min", "max", "count", "append", "union", "merge", "first", "last")
SUGAR = ("choose", "while", "until")

_TEXT = Text()
_TEMPLATE = Text(templated=True)
_NAME = Text(name=True)
_MAP = MapOf(Anything())
_ARGUMENTS = OneOf((_MAP, _TEMPLATE))
_SECONDS = Number(minimum=0, templated=True)
_COUNT = Number(integer=True, minimum=1, templated=True)
_BYTES = Number(integer=True, minimum=0)

CREDENTIAL_KINDS = (
    "postgres_credential",
    "duckdb_credential",
    "s3_credential",
    "bearer",
    "basic",
    "header",
    "oauth2_client_credentials",
    "secret_manager",
    "generic",
)


def _reserved(doc: str) -> Key:
    return Key(Anything(literal=True), f"Reserved: {doc}; accepted without effect.", reserved=True)


_RESULT = Record(
    title="`result`",
    keys={
        "inline_max_bytes": Key(_BYTES, "A larger payload is stored and travels by reference.", default=65_536),
        "select": Key(MapOf(_TEXT), "Fields lifted into the event by name: JSONPath of each."),
        "store": Key(Word(("auto", "blob", "object_store", "relational", "nats")), "Which store.", default="auto"),
        "ttl": Key(OneOf((_TEXT, Number(minimum=0))), 'How long the payload is kept: seconds, or "24h".'),
    },
)

_RUNTIME: dict[str, Key] = {
    "timeout": Key(
        OneOf(
            (
                _SECONDS,
                Record(
                    title="`timeout`",
                    keys={
                        "connect": Key(_SECONDS, "http: to connect."),
                        "read": Key(_SECONDS, "http: between two reads."),
                        "total": Key(_SECONDS, "In all."),
                    },
                ),
            )
        ),
        "Seconds a task may take; for http also `{connect, read}`.",
    ),
    "retries": Key(Number(integer=True, minimum=0), "http, postgres: the driver's own retries.", default=0),
    "pool_size": Key(_COUNT, "http, postgres: connections kept open."),
    "verify": Key(Flag(templated=True), "http: check the server's certificate.", default=True),
    "result": Key(_RESULT, "How results are kept."),
    "validate": Key(
        Record(
            title="`validate`",
            keys={
                "input": Key(Anything(literal=True), "JSON Schema of the input."),
                "output": Key(Anything(literal=True), "JSON Schema of the output's data."),
            },
        ),
        "JSON Schemas checked at the boundary.",
    ),
    "isolation": Key(Word(("none", "process", "strict")), "How far a tool is kept from the worker."),
    "network": Key(Word(("on", "off")), "Whether a tool may use the network."),
    "allow_hosts": Key(ListOf(_TEXT), "Hosts a tool may reach; layers intersect."),
    "limits": Key(
        Record(
            title="`limits`",
            keys={
                "memory_mb": Key(Number(minimum=1), "Memory of a tool's process."),
                "cpu_s": Key(Number(minimum=0), "Processor time of a tool's process."),
                "output_bytes": Key(_BYTES, "Bytes a tool may print or return."),
                "processes": Key(Number(integer=True, minimum=1), "Processes a tool may start."),
            },
        ),
        "Limits of a tool's process; the smallest layer wins.",
    ),
}

_SCHEDULING: dict[str, Key] = {
    "pool": Key(_TEMPLATE, "The worker pool that runs the step."),
    "priority": Key(Number(integer=True, templated=True), "Higher goes first.", default=0),
    "concurrency": Key(
        Record(
            title="`concurrency`",
            keys={
                "key": Key(_TEMPLATE, "Runs with the same key count together."),
                "limit": Key(_COUNT, "How many at a time.", required=True),
                "on_limit": Key(Word(("queue", "cancel_new", "cancel_running")), "What happens beyond it."),
            },
        ),
        "How many runs of this step at a time, over all executions.",
    ),
    "rate": Key(
        Record(
            title="`rate`",
            keys={
                "key": Key(_TEMPLATE, "Runs with the same key count together."),
                "limit": Key(_COUNT, "How many starts in the period.", required=True),
                "per_s": Key(_SECONDS, "The period in seconds.", required=True),
            },
        ),
        "How often this step may start.",
    ),
    "lease": Key(
        Record(
            title="`lease`",
            keys={
                "ttl_s": Key(Number(minimum=1), "A silent worker loses the step after this.", default=30),
                "heartbeat_s": Key(Number(minimum=0.1), "How often the worker reports.", default=10),
            },
        ),
        "How long a worker holds the step.",
    ),
}

_ELSE_ADMIT = Record(title="`else`", keys={"then": Key(Use("AdmitThen"), "The decision.", required=True)})
_ELSE_TASK = Record(title="`else`", keys={"then": Key(Use("Then"), "What to do.", required=True)})

_ADMIT = Record(
    title="`admit`",
    doc="Which tokens may fire the step.",
    keys={
        "rules": Key(ListOf(Use("AdmitRule")), "First match wins; no match means not admitted."),
        "fire": Key(Word(("each", "once")), "`once`: run at most once in an execution.", default="each"),
        "join": Key(Use("Join"), "Wait for tokens from several predecessors."),
        "mode": _reserved("admission is a yes or no"),
    },
)

_JOIN = Record(
    title="`join`",
    keys={
        "from": Key(
            OneOf((ListOf(_NAME, at_least=1), MapOf(_COUNT))),
            "The predecessors, or a map of how many tokens of each.",
            required=True,
        ),
        "need": Key(OneOf((Number(integer=True, minimum=1), Word(("all",)))), "How many must have one.", default="all"),
        "rest": Key(
            Word(("keep", "ignore", "block", "cancel")), "What becomes of the others of that round.", default="keep"
        ),
    },
)

_STEP_POLICY = Record(
    title="a step's `policy`",
    keys={
        "admit": Key(_ADMIT, "Admission."),
        "lifecycle": Key(
            Record(
                title="`lifecycle`",
                keys={
                    "timeout_s": Key(_SECONDS, "Bounds one run of the step."),
                    "deadline_s": Key(_SECONDS, "Counted from the execution's start."),
                },
            ),
            "How long the step may take.",
        ),
        "failure": Key(
            Record(
                title="`failure`",
                keys={"mode": Key(Word(("fail_fast", "best_effort")), "For loops.", default="fail_fast")},
            ),
            "What a failed iteration means.",
        ),
        "max_jumps": Key(Number(integer=True, minimum=0), "Jumps a pipeline run may make.", default=100_000),
        "emit": _reserved("events are always emitted"),
        "quotas": _reserved("quotas"),
        "compensation": _reserved("compensation"),
        "tracing": _reserved("tracing"),
    },
)

_LOOP_POLICY = Record(
    title="a loop's `policy`",
    keys={
        "exec": Key(Word(("local", "distributed")), "One worker, or spread over many."),
        "reduce": Key(MapOf(Word(REDUCERS)), "For a parallel loop: a reducer for each `ctx.*` it writes."),
        "mode": Key(Word(("sequential", "parallel")), "As beside it."),
        "max_in_flight": Key(_COUNT, "As beside it."),
        "ordering": _reserved("ordering hints"),
        "backpressure": _reserved("backpressure"),
        "partitioning": _reserved("partitioning"),
    },
)

_LOOP = Record(
    title="a loop",
    doc="Runs the step's tasks once for every item.",
    keys={
        "in": Key(OneOf((_TEMPLATE, ListOf(Anything()))), "The items: a list or a reference to rows.", required=True),
        "iterator": Key(_NAME, "The item's name: `iter.<iterator>`.", required=True),
        "spec": Key(
            Record(
                title="a loop's `spec`",
                keys={
                    "mode": Key(Word(("sequential", "parallel")), "One after the other, or together.", default="sequential"),
                    "max_in_flight": Key(_COUNT, "Parallel iterations at a time.", default=16),
                    "until": Key(Condition(), "Sequential: ends the loop early."),
                    "complete_when": Key(Condition(), "Over `loop.{total,completed,succeeded,failed}`: the loop is done."),
                    "complete_rest": Key(Word(("cancel", "run")), "What becomes of running iterations.", default="cancel"),
                    "policy": Key(_LOOP_POLICY, "Scheduling of iterations."),
                    **_RUNTIME,
                },
            ),
            "How the loop runs.",
        ),
        "loop": Key(Use("Loop"), "A loop within each iteration."),
    },
)

_THEN = Record(
    title="`then`",
    doc="What a task's rule does.",
    keys={
        "do": Key(Word(CONTROL_WORDS), "The directive.", default="continue"),
        "attempts": Key(_COUNT, "retry: tries in all, the first included.", default=3),
        "backoff": Key(Word(("none", "fixed", "linear", "exponential")), "retry: how the delay grows.", default="fixed"),
        "delay": Key(_SECONDS, "retry: seconds before the next try.", default=1),
        "max_delay": Key(_SECONDS, "retry: the longest delay.", default=300),
        "jitter": Key(Flag(), "retry: vary the delay at random.", default=False),
        "to": Key(_TEXT, "jump: the task to go to."),
        "message": Key(_TEMPLATE, "fail: what to say."),
        "set": Key(Use("Set"), "Values written when the rule is chosen."),
    },
)

_TASK_POLICY = Record(
    title="a task's `policy`",
    keys={
        "rules": Key(ListOf(Use("Rule")), "Read top to bottom after every attempt; first match wins.", required=True),
        "on_unmatched": Key(Word(("continue", "fail")), "An error that no rule matched.", default="continue"),
        "mode": _reserved("the first match wins"),
        "before": _reserved("hooks"),
        "after": _reserved("hooks"),
        "finally": _reserved("hooks"),
    },
)

_EXECUTOR_POLICY = Record(
    title="the executor's `policy`",
    keys={
        "defaults": Key(
            Record(
                title="`defaults`",
                keys={
                    "timeouts": Key(MapOf(Number(minimum=0)), "Seconds a task may take, by kind."),
                    "resources": _reserved("resources"),
                },
            ),
            "Defaults by kind.",
        ),
        "results": Key(
            Record(title="`results`", keys={"reference_first": Key(Flag(), "Store every payload by reference.")}),
            "How results are kept.",
        ),
        "limits": Key(
            Record(
                title="`limits`",
                keys={
                    "max_payload_bytes": Key(_BYTES, "What one event may lift out of a payload.", default=1_048_576),
                    "max_depth": Key(Number(integer=True, minimum=1), "Playbooks within playbooks.", default=32),
                    "max_steps": Key(Number(integer=True, minimum=1), "Step runs of one execution.", default=100_000),
                },
            ),
            "Limits of one execution.",
        ),
    },
)

_ARC = Record(
    title="an arc",
    keys={
        "step": Key(_TEXT, "The step it leads to."),
        "when": Key(Condition(), "Without it the arc is taken on success only."),
        "set": Key(Use("Set"), "Values written when the arc is taken."),
        "cancel": Key(ListOf(_TEXT), "Steps whose work is ended when the arc is taken."),
        "terminate": Key(Word(("completed", "failed")), "In place of `step`: end the execution."),
        "args": Key(_MAP, "v10: values for the next step.", hidden=True),
        "spec": _reserved("arcs have no knobs"),
    },
)

_NEXT = Record(
    title="`next`",
    doc="Where the tokens go when the step ends.",
    keys={
        "spec": Key(
            Record(
                title="`next.spec`",
                keys={
                    "mode": Key(Word(("exclusive", "inclusive")), "The first match, or every match.", default="exclusive"),
                    "synthesize": Key(
                        Record(
                            title="`synthesize`",
                            keys={
                                "from": Key(_TEMPLATE, "Yields a list of steps.", required=True),
                                "max_steps": Key(Number(integer=True, minimum=1), "At most so many.", default=20),
                                "allow_kinds": Key(ListOf(_TEXT), "Tool kinds they may use."),
                            },
                        ),
                        "Ask the server for new steps.",
                    ),
                    "policy": _reserved("routing hints"),
                },
            ),
            "How arcs are chosen.",
        ),
        "arcs": Key(ListOf(Use("Arc")), "Read in order."),
    },
)

_STEP = Record(
    title="a step",
    keys={
        "step": Key(_NAME, "Its name, unique.", required=True),
        "desc": Key(_TEXT, "What it is for."),
        "input": Key(_ARGUMENTS, "What the step receives."),
        "spec": Key(
            Record(
                title="a step's `spec`", keys={"policy": Key(_STEP_POLICY, "Admission and lifecycle."), **_RUNTIME, **_SCHEDULING}
            ),
            "How the step runs.",
        ),
        "loop": Key(Use("Loop"), "Run the tasks once for every item."),
        "tool": Key(OneOf((Use("Task"), ListOf(Use("TaskItem"), at_least=1))), "One task, or an ordered list of tasks."),
        "output": Key(Anything(), "Reshapes what the step exposes as `output.data`."),
        "set": Key(Use("Set"), "Values written when the body has ended."),
        "next": Key(_NEXT, "Where to go."),
    },
)

_CREDENTIAL = Record(
    title="a keychain entry",
    keys={
        "name": Key(_NAME, "How tasks refer to it: `auth: <name>`.", required=True),
        "kind": Key(Word(CREDENTIAL_KINDS), "What it is.", required=True),
        "from": Key(
            Record(
                title="`from`",
                keys={
                    "env": Key(_TEXT, "An environment variable."),
                    "file": Key(_TEXT, "A file."),
                    "vault": Key(_TEXT, "A path in Vault."),
                    "store": Key(_TEXT, "An entry of the encrypted credential store."),
                },
            ),
            "Where it comes from; by default the credential store, by name.",
        ),
        "provider": Key(_TEMPLATE, "secret_manager: `env`, `file`, `vault` or a plugin's."),
        "secret": Key(_TEMPLATE, "secret_manager: the name of the secret."),
        "key": Key(_TEMPLATE, "One field of the secret."),
        "header": Key(_TEXT, "header: the name of the header."),
        "prefix": Key(_TEXT, "header: text before the value."),
        "token_url": Key(_TEMPLATE, "oauth2: where tokens are issued."),
        "client_id": Key(_TEMPLATE, "oauth2: the client."),
        "client_secret": Key(_TEMPLATE, "oauth2: its secret."),
        "scope": Key(OneOf((_TEMPLATE, ListOf(_TEXT))), "oauth2: the scope asked for."),
        "audience": Key(_TEMPLATE, "oauth2: the audience asked for."),
        "token": Key(_TEMPLATE, "bearer: the token."),
        "username": Key(_TEMPLATE, "basic: the user."),
        "password": Key(_TEMPLATE, "basic: the password."),
        "options": Key(_MAP, "Further settings, by kind."),
    },
)

_METADATA = Record(
    title="`metadata`",
    keys={
        "name": Key(_TEXT, "The playbook's name.", required=True),
        "path": Key(_TEXT, "Its catalog path; by default its name."),
        "version": Key(OneOf((_TEXT, Number())), "Free text; the catalog keeps its own revision number."),
        "description": Key(_TEXT, "What it is for."),
        "labels": Key(MapOf(Anything(literal=True)), "Labels."),
        "tags": Key(ListOf(_TEXT), "Tags."),
        "schema": Key(MapOf(Anything(literal=True)), "JSON Schema of the workload."),
        "on_failure": Key(
            Record(
                title="`on_failure`",
                keys={
                    "webhook": Key(_TEMPLATE, "POSTed to when an execution fails."),
                    "headers": Key(_MAP, "Headers of that request."),
                },
            ),
            "Who is told of a failure.",
        ),
    },
)

PLAYBOOK = Record(
    title="a playbook",
    keys={
        "apiVersion": Key(Word((API_VERSION,)), "Exactly this.", required=True),
        "kind": Key(Word(("Playbook",)), "Exactly this.", required=True),
        "metadata": Key(_METADATA, "What the playbook is.", required=True),
        "keychain": Key(ListOf(_CREDENTIAL), "The credentials it needs."),
        "executor": Key(
            Record(
                title="`executor`",
                keys={
                    "spec": Key(
                        Record(
                            title="the executor's `spec`",
                            keys={"policy": Key(_EXECUTOR_POLICY, "Policies."), **_RUNTIME, **_SCHEDULING},
                        ),
                        "Defaults for every step.",
                    ),
                    "profile": Key(_TEXT, "A placement hint."),
                    "version": Key(OneOf((_TEXT, Number())), "A placement hint."),
                    "requires": Key(Anything(literal=True), "A placement hint."),
                },
            ),
            "Defaults for every step, and placement hints.",
        ),
        "workload": Key(MapOf(Anything(literal=True)), "Inputs with their defaults."),
        "workflow": Key(ListOf(Use("Step"), at_least=1), "The steps.", required=True),
        "workbook": Key(MapOf(OneOf((Use("Task"), ListOf(Use("TaskItem"), at_least=1)))), "Reusable tasks, by name."),
    },
)

SHAPES: Mapping[str, Shape] = {
    "Step": _STEP,
    "Loop": _LOOP,
    "Arc": _ARC,
    "Join": _JOIN,
    "Set": _MAP,
    "AdmitThen": Record(
        title="`then`", keys={"allow": Key(Flag(), "Whether the token may fire the step.", required=True)}
    ),
    "AdmitRule": Record(
        title="a rule",
        keys={
            "when": Key(Condition(), "The condition."),
            "then": Key(Use("AdmitThen"), "The decision."),
            "else": Key(_ELSE_ADMIT, "Closes the list."),
        },
    ),
    "Then": _THEN,
    "Rule": Record(
        title="a rule",
        keys={
            "when": Key(Condition(), "The condition."),
            "then": Key(Use("Then"), "What to do."),
            "else": Key(_ELSE_TASK, "Closes the list."),
        },
    ),
}

TASK_KEYS: Mapping[str, Key] = {
    "name": Key(_NAME, "Its name, unique within the step."),
    "desc": Key(_TEXT, "What it is for."),
    "kind": Key(_TEXT, "The tool kind.", required=True),
    "input": Key(_ARGUMENTS, "What the tool receives."),
    "auth": Key(_TEMPLATE, "The keychain entry to use."),
    "output": Key(Anything(), "Reshapes `output.data` after ok."),
    "set": Key(Use("Set"), "Values written after ok."),
    "spec": Key(
        Record(title="a task's `spec`", keys={"policy": Key(_TASK_POLICY, "What to do after the task."), **_RUNTIME}),
        "How the task runs.",
    ),
}

CHOOSE_BRANCH = Record(
    title="a branch of `choose`",
    keys={
        "when": Key(Condition(), "The condition."),
        "then": Key(ListOf(Use("TaskItem")), "The tasks to run."),
        "else": Key(ListOf(Use("TaskItem")), "The tasks to run when nothing matched."),
    },
)

SUGAR_SHAPES: Mapping[str, Shape] = {
    "choose": ListOf(CHOOSE_BRANCH, at_least=1),
    **{
        word: Record(
            title=f"`{word}`",
            keys={
                "when": Key(Condition(), "The condition.", required=True),
                "do": Key(ListOf(Use("TaskItem"), at_least=1), "The tasks to run.", required=True),
            },
        )
        for word in ("while", "until")
    },
}


def task_shape(kind: ToolKind) -> Record:
    """The shape of a task of that kind."""
    return Record(title=f"`kind: {kind.name}`", keys={**TASK_KEYS, **kind.keys})
