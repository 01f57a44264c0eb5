"""The shape of the document as one table: which keys may stand where, what they hold, what they mean.

`SHAPES` holds the shapes that others refer to by name. A task's shape depends on its kind and is put together by
`task_shape`. Validation (`lang.grammar.shape_check`), the JSON Schema (`lang.grammar.json_schema`) and the reference pages read this table.
"""

from collections.abc import Mapping

from noetl.lang.grammar.spec_shape import (
    ARGUMENTS,
    BYTES,
    COUNT,
    CREDENTIAL,
    MAP,
    NAME,
    RUNTIME,
    SCHEDULING,
    SECONDS,
    TEMPLATE,
    TEXT,
)
from noetl.model.kinds import ToolKind
from noetl.model.shape import (
    Anything,
    Beside,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Shape,
    ShapeRef,
    When,
    Word,
    reserve_key,
)

API_VERSION = "noetl.io/v2"
NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"
CONTROL_WORDS = ("continue", "skip", "retry", "jump", "break", "fail")
REDUCERS = ("sum", "min", "max", "count", "append", "union", "merge", "first", "last")
SUGAR = ("choose", "while", "until")
RUNTIME_VERSION = "noetl-runtime/1"

_SCHEDULER = "start it with your scheduler: `noetl run FILE`, or a POST to the server's `/api/executions`"
#: kinds of documents that have no meaning yet, each with what to write instead
RESERVED_DOCUMENTS = {"Schedule": _SCHEDULER, "Trigger": _SCHEDULER}
#: tool kinds that have no meaning yet, each with what to write instead
RESERVED_KINDS = {"variable": "keep the value in a table with `kind: postgres`, or pass it with the request's payload"}

_ELSE_ADMIT = Record(title="`else`", keys={"then": Key(ShapeRef("AdmitThen"), "The decision.", required=True)})
_ELSE_TASK = Record(title="`else`", keys={"then": Key(ShapeRef("Then"), "What to do.", required=True)})

_ADMIT = Record(
    title="`admit`",
    doc="Which tokens may fire the step.",
    keys={
        "rules": Key(ListOf(ShapeRef("AdmitRule")), "First match wins; no match means not admitted."),
        "fire": Key(Word(("each", "once")), "`once`: run at most once in an execution.", default="each"),
        "join": Key(ShapeRef("Join"), "Wait for tokens from several predecessors."),
        "mode": reserve_key("remove it; the first rule that matches decides", dropped=True),
    },
)

_JOIN = Record(
    title="`join`",
    keys={
        "from": Key(
            OneOf((ListOf(NAME, at_least=1), MapOf(COUNT))),
            "The predecessors, or a map of how many tokens of each.",
            required=True,
        ),
        "need": Key(OneOf((Number(integer=True, minimum=1), Word(("all",)))), "How many must have one.", default="all"),
        "rest": Key(
            Word(("keep", "ignore", "block", "cancel")), "What becomes of the others of that round.", default="keep"
        ),
    },
)

_HOOKS = ListOf(ShapeRef("TaskItem"), at_least=1)

_STEP_POLICY = Record(
    title="a step's `policy`",
    keys={
        "admit": Key(_ADMIT, "Admission."),
        "lifecycle": Key(
            Record(
                title="`lifecycle`",
                keys={
                    "timeout_s": Key(SECONDS, "Bounds one run of the step."),
                    "deadline_s": Key(SECONDS, "Counted from the execution's start."),
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
        "before": Key(_HOOKS, "Tasks that run before the body, once per step run."),
        "after": Key(_HOOKS, "Tasks that run after a body that ended well, once per step run."),
        "finally": Key(_HOOKS, "Tasks that run last, however the step ended; they see the body's `output`."),
        "compensation": Key(
            ShapeRef("Task"),
            "A task that undoes a run of the step that ended well, when the execution fails or is cancelled.",
        ),
        "emit": reserve_key("remove it; every event of the step is recorded", dropped=True),
        "quotas": reserve_key(
            "bound tasks with `spec.limits`, and step runs with `spec.concurrency` or `spec.rate`", dropped=True
        ),
        "tracing": reserve_key("remove it; every step, task and attempt is recorded with its times", dropped=True),
    },
)

_LOOP_POLICY = Record(
    title="a loop's `policy`",
    keys={
        "exec": Key(Word(("local", "distributed")), "One worker, or spread over many."),
        "reduce": Key(MapOf(Word(REDUCERS)), "For a parallel loop: a reducer for each `ctx.*` it writes."),
        "mode": Key(Word(("sequential", "parallel")), "As beside it."),
        "max_in_flight": Key(COUNT, "As beside it."),
        "ordering": reserve_key("remove it; iterations start in index order, and so do their results", dropped=True),
        "backpressure": reserve_key("write `max_in_flight` under the loop's `spec`", dropped=True),
        "partitioning": reserve_key(
            "remove it; `exec: distributed` lets the server spread the iterations", dropped=True
        ),
    },
)

_LOOP = Record(
    title="a loop",
    doc="Runs the step's tasks once for every item.",
    keys={
        "in": Key(OneOf((TEMPLATE, ListOf(Anything()))), "The items: a list or a reference to rows.", required=True),
        "iterator": Key(NAME, "The item's name: `iter.<iterator>`.", required=True),
        "spec": Key(
            Record(
                title="a loop's `spec`",
                keys={
                    "mode": Key(
                        Word(("sequential", "parallel")), "One after the other, or together.", default="sequential"
                    ),
                    "max_in_flight": Key(COUNT, "Parallel iterations at a time.", default=16),
                    "until": Key(When(), "Sequential: ends the loop early."),
                    "complete_when": Key(When(), "Over `loop.{total,completed,succeeded,failed}`: the loop is done."),
                    "complete_rest": Key(
                        Word(("cancel", "run")),
                        "What becomes of running iterations.",
                        default="cancel",
                        beside=Beside("complete_when"),
                    ),
                    "policy": Key(_LOOP_POLICY, "Scheduling of iterations."),
                    **RUNTIME,
                },
            ),
            "How the loop runs.",
        ),
        "loop": Key(ShapeRef("Loop"), "A loop within each iteration."),
    },
)

_RETRY = Beside("do", ("retry",))
_THEN = Record(
    title="`then`",
    doc="What a task's rule does.",
    keys={
        "do": Key(Word(CONTROL_WORDS), "The directive.", default="continue"),
        "attempts": Key(COUNT, "retry: tries in all, the first included.", default=3, beside=_RETRY),
        "backoff": Key(
            Word(("none", "fixed", "linear", "exponential")),
            "retry: how the delay grows.",
            default="fixed",
            beside=_RETRY,
        ),
        "delay": Key(SECONDS, "retry: seconds before the next try.", default=1, beside=_RETRY),
        "max_delay": Key(SECONDS, "retry: the longest delay.", default=300, beside=_RETRY),
        "jitter": Key(Flag(), "retry: vary the delay at random.", default=False, beside=_RETRY),
        "to": Key(TEXT, "jump: the task to go to.", beside=Beside("do", ("jump",))),
        "message": Key(TEMPLATE, "fail: what to say.", beside=Beside("do", ("fail",))),
        "set": Key(ShapeRef("Set"), "Values written when the rule is chosen."),
    },
)

_TASK_POLICY = Record(
    title="a task's `policy`",
    keys={
        "rules": Key(
            ListOf(ShapeRef("Rule")), "Read top to bottom after every attempt; first match wins.", required=True
        ),
        "on_unmatched": Key(Word(("continue", "fail")), "An error that no rule matched.", default="continue"),
        "mode": reserve_key("remove it; the first rule that matches decides", dropped=True),
        "before": reserve_key("move it to the step's `spec.policy`"),
        "after": reserve_key("move it to the step's `spec.policy`"),
        "finally": reserve_key("move it to the step's `spec.policy`"),
        "compensation": reserve_key("move it to the step's `spec.policy`"),
    },
)

_EXECUTOR_POLICY = Record(
    title="the executor's `policy`",
    keys={
        "defaults": Key(
            Record(
                title="`defaults`",
                keys={
                    "timeouts": Key(
                        MapOf(
                            Number(minimum=0),
                            of_kinds=True,
                            reserved={"wait": "write `timeout` beside `signal`, or `spec.timeout` on the task itself"},
                        ),
                        "Seconds a task may take, by kind.",
                    ),
                    "resources": reserve_key(
                        "bound processes with `limits` under `executor.spec`, and choose workers with `pool`",
                        dropped=True,
                    ),
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
                    "max_payload_bytes": Key(BYTES, "What one event may lift out of a payload.", default=1_048_576),
                    "max_depth": Key(Number(integer=True, minimum=1), "Playbooks within playbooks.", default=32),
                    "max_steps": Key(Number(integer=True, minimum=1), "Step runs of one execution.", default=100_000),
                },
            ),
            "Limits of one execution.",
        ),
        "stalled": Key(
            Word(("fail",)),
            "`fail`: an execution that ends with parked tokens fails. Without it the steps are reported as `stalled`.",
        ),
        "finally": Key(
            Record(
                title="the executor's `finally`",
                keys={"step": Key(TEXT, "A step of the workflow that no arc leads to.", required=True)},
            ),
            "A step that runs once, last, whatever the outcome; it sees the outcome as `event.status`.",
        ),
    },
)

_ARC = Record(
    title="an arc",
    keys={
        "step": Key(TEXT, "The step it leads to."),
        "when": Key(When(), "Without it the arc is taken on success only."),
        "set": Key(ShapeRef("Set"), "Values written when the arc is taken."),
        "cancel": Key(ListOf(TEXT), "Steps whose work is ended when the arc is taken."),
        "terminate": Key(Word(("completed", "failed")), "In place of `step`: end the execution."),
        "args": Key(MAP, "v10: values for the next step.", hidden=True),
        "spec": reserve_key(
            "write conditions as `when` and values as `set`; `priority` belongs to the spec of a step", dropped=True
        ),
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
                    "mode": Key(
                        Word(("exclusive", "inclusive")), "The first match, or every match.", default="exclusive"
                    ),
                    "synthesize": Key(
                        Record(
                            title="`synthesize`",
                            keys={
                                "from": Key(TEMPLATE, "Yields a list of steps.", required=True),
                                "max_steps": Key(Number(integer=True, minimum=1), "At most so many.", default=20),
                                "allow_kinds": Key(ListOf(TEXT), "Tool kinds they may use."),
                            },
                        ),
                        "Ask the server for new steps.",
                    ),
                    "on_no_match": Key(
                        Word(("end", "fail")),
                        "A success that no arc matches. Without it the branch ends and the step is reported as"
                        " `unmatched`; `end`: it is not reported; `fail`: the execution fails.",
                    ),
                    "policy": reserve_key(
                        "remove it; `mode` and the arcs' `when` decide, and `priority` belongs to the spec of a step",
                        dropped=True,
                    ),
                },
            ),
            "How arcs are chosen.",
        ),
        "arcs": Key(ListOf(ShapeRef("Arc")), "Read in order."),
    },
)

_STEP = Record(
    title="a step",
    keys={
        "step": Key(NAME, "Its name, unique.", required=True),
        "desc": Key(TEXT, "What it is for."),
        "input": Key(ARGUMENTS, "What the step receives."),
        "spec": Key(
            Record(
                title="a step's `spec`",
                keys={"policy": Key(_STEP_POLICY, "Admission and lifecycle."), **RUNTIME, **SCHEDULING},
            ),
            "How the step runs.",
        ),
        "loop": Key(ShapeRef("Loop"), "Run the tasks once for every item."),
        "tool": Key(
            OneOf((ShapeRef("Task"), ListOf(ShapeRef("TaskItem"), at_least=1))),
            "One task, or an ordered list of tasks.",
        ),
        "output": Key(Anything(), "Reshapes what the step exposes as `output.data`."),
        "set": Key(ShapeRef("Set"), "Values written when the body has ended."),
        "next": Key(_NEXT, "Where to go."),
    },
)

_METADATA = Record(
    title="`metadata`",
    keys={
        "name": Key(TEXT, "The playbook's name.", required=True),
        "path": Key(TEXT, "Its catalog path; by default its name."),
        "version": Key(OneOf((TEXT, Number())), "Free text; the catalog keeps its own revision number."),
        "description": Key(TEXT, "What it is for."),
        "labels": Key(MapOf(Anything(literal=True)), "Labels."),
        "tags": Key(ListOf(TEXT), "Tags."),
        "schema": Key(MapOf(Anything(literal=True)), "JSON Schema of the workload."),
        "on_failure": Key(
            Record(
                title="`on_failure`",
                keys={
                    "webhook": Key(TEMPLATE, "POSTed to when an execution fails.", required=True),
                    "headers": Key(MAP, "Headers of that request."),
                },
            ),
            "Who is told of a failure.",
        ),
        "notify": reserve_key("write `on_failure: {webhook: …}`"),
        "concurrency": reserve_key("limit the steps that must not overlap: `spec.concurrency` of each"),
        "timeout": reserve_key("write `lifecycle: {deadline_s: …}` under `spec.policy` of the steps"),
    },
)

PLAYBOOK = Record(
    title="a playbook",
    keys={
        "apiVersion": Key(Word((API_VERSION,)), f"Always `{API_VERSION}`.", required=True),
        "kind": Key(Word(("Playbook",), reserved=RESERVED_DOCUMENTS), "Always `Playbook`.", required=True),
        "metadata": Key(_METADATA, "What the playbook is.", required=True),
        "keychain": Key(ListOf(CREDENTIAL), "The credentials it needs."),
        "executor": Key(
            Record(
                title="`executor`",
                keys={
                    "spec": Key(
                        Record(
                            title="the executor's `spec`",
                            keys={"policy": Key(_EXECUTOR_POLICY, "Policies."), **RUNTIME, **SCHEDULING},
                        ),
                        "Defaults for every step.",
                    ),
                    "profile": Key(
                        Word(("local", "auto", "distributed")),
                        "`local` keeps all pipelines of an execution on one worker; the others let the server spread them.",
                        default="auto",
                    ),
                    "version": Key(Word((RUNTIME_VERSION,)), "The runtime that the playbook is written for."),
                    "requires": Key(
                        Record(
                            title="`requires`",
                            keys={"tools": Key(ListOf(TEXT), "Tool kinds that must be installed.")},
                        ),
                        "What must be there before anything runs.",
                    ),
                },
            ),
            "Defaults for every step, and where and by what they are run.",
        ),
        "workload": Key(MapOf(Anything(literal=True)), "Inputs with their defaults."),
        "workflow": Key(ListOf(ShapeRef("Step"), at_least=1), "The steps.", required=True),
        "workbook": Key(
            MapOf(OneOf((ShapeRef("Task"), ListOf(ShapeRef("TaskItem"), at_least=1)))), "Reusable tasks, by name."
        ),
    },
)

SHAPES: Mapping[str, Shape] = {
    "Step": _STEP,
    "Loop": _LOOP,
    "Arc": _ARC,
    "Join": _JOIN,
    "Set": MAP,
    "AdmitThen": Record(
        title="`then`", keys={"allow": Key(Flag(), "Whether the token may fire the step.", required=True)}
    ),
    "AdmitRule": Record(
        title="a rule",
        keys={
            "when": Key(When(), "The condition."),
            "then": Key(ShapeRef("AdmitThen"), "The decision."),
            "else": Key(_ELSE_ADMIT, "Closes the list."),
        },
    ),
    "Then": _THEN,
    "Rule": Record(
        title="a rule",
        keys={
            "when": Key(When(), "The condition."),
            "then": Key(ShapeRef("Then"), "What to do."),
            "else": Key(_ELSE_TASK, "Closes the list."),
        },
    ),
}

TASK_KEYS: Mapping[str, Key] = {
    "name": Key(NAME, "Its name, unique within the step."),
    "desc": Key(TEXT, "What it is for."),
    "kind": Key(TEXT, "The tool kind.", required=True),
    "input": Key(ARGUMENTS, "What the tool receives."),
    "auth": Key(TEMPLATE, "The keychain entry to use."),
    "output": Key(Anything(), "Reshapes `output.data` after ok."),
    "set": Key(ShapeRef("Set"), "Values written after ok."),
    "spec": Key(
        Record(title="a task's `spec`", keys={"policy": Key(_TASK_POLICY, "What to do after the task."), **RUNTIME}),
        "How the task runs.",
    ),
}

CHOOSE_BRANCH = Record(
    title="a branch of `choose`",
    keys={
        "when": Key(When(), "The condition."),
        "then": Key(ListOf(ShapeRef("TaskItem")), "The tasks to run."),
        "else": Key(ListOf(ShapeRef("TaskItem")), "The tasks to run when nothing matched."),
    },
)

SUGAR_SHAPES: Mapping[str, Shape] = {
    "choose": ListOf(CHOOSE_BRANCH, at_least=1),
    **{
        word: Record(
            title=f"`{word}`",
            keys={
                "when": Key(When(), "The condition.", required=True),
                "do": Key(ListOf(ShapeRef("TaskItem"), at_least=1), "The tasks to run.", required=True),
            },
        )
        for word in ("while", "until")
    },
}


def task_shape(kind: ToolKind) -> Record:
    """The shape of a task of that kind."""
    return Record(title=f"`kind: {kind.name}`", keys={**TASK_KEYS, **kind.keys})
