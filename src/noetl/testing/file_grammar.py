"""The shape of a test file as one table, read by its validation, its JSON Schema and the reference page."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.model.shape import (
    Anything,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Shape,
    ShapeRef,
    Text,
    When,
    Word,
)

#: how a list of mocks is gone through
COUNTED = ("calls", "attempts", "visits", "iterations")
#: the parts of an output that only some kinds have
HELPERS = ("http", "pg", "py")
STATUSES = ("completed", "failed", "cancelled")
STEP_STATUSES = ("done", "failed", "skipped", "cancelled", "never ran")

_TEXT = Text()
_NAMES = ListOf(_TEXT)
_ANY_MAP = MapOf(Anything())
_SECONDS = Number(minimum=0)
_OWN_NUMBER = OneOf((Number(minimum=0), Text(templated=True)))


_PART = ShapeRef("Mock")
_PARTS = ListOf(_PART, at_least=1)
_BRANCH = Record(
    title="a branch of `choose`",
    keys={
        "when": Key(When(), "The condition, over the same names as `data`."),
        "then": Key(_PART, "The mock that holds then."),
        "else": Key(_PART, "The mock that holds when nothing matched."),
    },
)
_MOCK = Record(
    title="a mock",
    doc="What a task yields instead of running. Templates see what the task's own see, and `call`: its rendered keys,"
    " with `input`, `attempt` and `iteration`. A list in place of the map is the same as `calls`.",
    keys={
        "data": Key(Anything(), "What becomes `output.data`."),
        "error": Key(
            OneOf((_ANY_MAP, Text(templated=True))),
            "The task fails: a message, or a map with `kind`, `message`, `retryable` and more.",
        ),
        "http": Key(_ANY_MAP, "`output.http`: `status` and `headers`. A status of 400 or more is an error."),
        "pg": Key(_ANY_MAP, "`output.pg`."),
        "py": Key(_ANY_MAP, "`output.py`."),
        "delay": Key(Number(minimum=0, templated=True), "Seconds it takes; they are skipped."),
        "calls": Key(_PARTS, "One for each call of the task in the whole run, in order."),
        "attempts": Key(_PARTS, "One for each attempt, counted anew at each visit."),
        "visits": Key(_PARTS, "One for each visit of the task within its pipeline."),
        "iterations": Key(_PARTS, "One for each iteration of the loop, by index; nested loops nest them."),
        "choose": Key(ListOf(_BRANCH, at_least=1), "The first branch that matches."),
    },
)
NAMED: Mapping[str, Shape] = {"Mock": OneOf((ListOf(_PART, at_least=1), _MOCK))}

_SETTING: Mapping[str, Key] = {
    "payload": Key(_ANY_MAP, "What the run is given: laid over the playbook's workload."),
    "mocks": Key(
        MapOf(ShapeRef("Mock")),
        "What tasks yield, by `task` or `step.task`; of another playbook that is called, `path:step.task`.",
    ),
    "real": Key(_NAMES, "Tasks, or tool kinds, that run for real; of a kind, those that have no mock beside it."),
    "now": Key(_TEXT, "What time it is when the run starts, ISO 8601.", default="2026-01-01T00:00:00Z"),
    "limit": Key(_SECONDS, "Seconds of real time that a case may take.", default=60),
}
_SIGNAL = Record(
    title="a signal",
    doc="Without `at` and `after` it is sent as soon as somebody waits for it.",
    keys={
        "name": Key(_TEXT, "Its name.", required=True),
        "data": Key(Anything(), "What it carries."),
        "at": Key(_SECONDS, "Sent so many seconds after the start; they are skipped."),
        "after": Key(_TEXT, "Sent when this step has ended."),
    },
)
_STEP = Record(
    title="an expected step",
    keys={
        "status": Key(Word(STEP_STATUSES), "How its latest run ended."),
        "runs": Key(_OWN_NUMBER, "How often it ran."),
        "error": Key(Anything(), "Its error."),
    },
)
_EXPECT = Record(
    title="`expect`",
    doc="Maps are held against what is expected of them: keys that are not named do not matter. Lists have as many"
    ' items as expected. A text that is one `"{{ … }}"` is a condition over `it`, the value that is there.',
    keys={
        "status": Key(
            Word(STATUSES), "How the run ends. By default `completed`, or `failed` where an `error` is expected."
        ),
        "output": Key(Anything(), "What the run yields."),
        "ctx": Key(Anything(), "What is in `ctx` at the end."),
        "error": Key(Anything(), "Why it failed."),
        "route": Key(
            ListOf(OneOf((_TEXT, _NAMES))),
            "All steps in the order in which they started; those in a list of their own in any order.",
        ),
        "arcs": Key(
            MapOf(OneOf((_TEXT, _NAMES))),
            "Where the tokens of a step went, in order: steps, or `completed` or `failed` of an arc that ends the run.",
        ),
        "steps": Key(MapOf(OneOf((Word(STEP_STATUSES), _STEP))), "How steps ended, and how often they ran."),
        "calls": Key(
            MapOf(OneOf((Number(integer=True, minimum=0), ListOf(Anything()), Text(templated=True)))),
            "How often a task was called, or what with: each call's rendered keys, with `input`, `attempt`, `iteration`.",
        ),
        "events": Key(ListOf(_ANY_MAP), "Events that occur, in this order; others may stand between them."),
        "no_events": Key(ListOf(_ANY_MAP), "Events that do not occur."),
        "stalled": Key(_NAMES, "Steps at which tokens were left."),
        "unmatched": Key(_NAMES, "Steps that ended well and none of whose arcs matched."),
        "seconds": Key(_OWN_NUMBER, "How long the run took, skipped time included."),
    },
)
_CASE = Record(
    title="a test",
    doc="What it says of its own goes before what the file says for all.",
    keys={
        "name": Key(_TEXT, "What is to hold, in words; unique in its file.", required=True),
        "skip": Key(_TEXT, "Leave it out: why."),
        **_SETTING,
        "signals": Key(ListOf(_SIGNAL), "What is told to the run from outside."),
        "expect": Key(_EXPECT, "What must hold when the run is over."),
    },
)
TEST_FILE = Record(
    title="a test file",
    doc="A file `*.test.yaml`: a playbook, and cases that say what becomes of it. Beside `playbook`, `legacy` and"
    " `tests` it takes what holds for all of its cases.",
    keys={
        "playbook": Key(_TEXT, "The playbook's file, as seen from this one. By default the file of the same name."),
        "legacy": Key(Flag(), "Accept older dialects as they are."),
        **_SETTING,
        "tests": Key(ListOf(_CASE, at_least=1), "The cases.", required=True),
    },
)
