"""The names a template sees at each boundary, as one table."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final

from noetl.expr.vocabulary import FUNCTIONS, OWN_FUNCTIONS


class Boundary(Enum):
    """A place in a playbook where templates stand."""

    #: an admission rule
    ADMIT = "admission"
    #: an arc's `when`
    ARC_WHEN = "arc"
    #: an arc's `set`
    ARC_SET = "set of an arc"
    #: a step's `input`
    STEP_INPUT = "input of a step"
    #: `loop.in`
    LOOP_IN = "loop.in"
    #: `loop.spec.until`
    LOOP_UNTIL = "until"
    #: `loop.spec.complete_when`
    LOOP_COMPLETE = "complete_when"
    #: a task's `input`
    TASK_INPUT = "input of a task"
    #: a task's own fields: `url`, `query`, `auth` …
    TASK_CONFIG = "a task's fields"
    #: a task's `output`
    TASK_OUTPUT = "output of a task"
    #: a task's `set`
    TASK_SET = "set of a task"
    #: a rule of a task's policy, its `then` included
    RULE = "rule"
    #: a step's `output`
    STEP_OUTPUT = "output of a step"
    #: a step's `set`
    STEP_SET = "set of a step"
    #: `next.spec.synthesize`
    SYNTHESIZE = "synthesize"
    #: a keychain entry
    KEYCHAIN = "keychain"
    #: `metadata.on_failure`
    NOTICE = "on_failure"
    #: a `spec` value of a step, such as `concurrency.key`
    SPEC = "spec"


#: known everywhere; that `keychain` may not be used everywhere is for another check to say
_EVERYWHERE: Final = frozenset({"workload", "keychain", "execution_id"}) | OWN_FUNCTIONS | FUNCTIONS
_EXECUTION: Final = frozenset({"ctx", "steps"})
#: helpers over `steps`
STEP_HELPERS: Final = frozenset({"done", "ok", "fail", "running", "loop_done", "all_done", "any_done"})
_STEP: Final = _EXECUTION | {"step", "input"}
_PIPELINE: Final = frozenset({"_prev", "_task", "_attempt", "task_key", "output"})
_TASK: Final = _STEP | _PIPELINE
_ROWS: Final = frozenset({"row", "chunk"})
_ARC: Final = _STEP | STEP_HELPERS | {"output", "event"}

_NAMES: Final[dict[Boundary, frozenset[str]]] = {
    Boundary.ADMIT: _EXECUTION | STEP_HELPERS | {"quiet", "event"},
    Boundary.ARC_WHEN: _ARC,
    Boundary.ARC_SET: _ARC,
    Boundary.STEP_INPUT: _STEP | STEP_HELPERS,
    Boundary.LOOP_IN: _STEP,
    Boundary.LOOP_UNTIL: _STEP | {"output"},
    Boundary.LOOP_COMPLETE: _STEP | {"loop"},
    Boundary.TASK_INPUT: _TASK,
    Boundary.TASK_CONFIG: _TASK | _ROWS,
    Boundary.TASK_OUTPUT: _TASK,
    Boundary.TASK_SET: _TASK,
    Boundary.RULE: _TASK,
    Boundary.STEP_OUTPUT: _STEP | {"output"},
    Boundary.STEP_SET: _STEP | {"output"},
    Boundary.SYNTHESIZE: _STEP | {"output"},
    Boundary.KEYCHAIN: frozenset(),
    Boundary.NOTICE: frozenset({"ctx"}),
    Boundary.SPEC: _STEP,
}
#: where a loop's own iteration is in sight; admission, arcs and a step's `set` see the loop as a whole
_PER_ITERATION: Final = frozenset(
    {
        Boundary.STEP_INPUT,
        Boundary.LOOP_IN,
        Boundary.LOOP_UNTIL,
        Boundary.TASK_INPUT,
        Boundary.TASK_CONFIG,
        Boundary.TASK_OUTPUT,
        Boundary.TASK_SET,
        Boundary.RULE,
        Boundary.SPEC,
    }
)


@cache
def known_names(boundary: Boundary, in_loop: bool) -> frozenset[str]:  # noqa: FBT001  it is half of the question
    """The root names a template may use there; `in_loop` is whether the step has a loop (for LOOP_IN: an outer one)."""
    names = _EVERYWHERE | _NAMES[boundary]
    return names | {"iter"} if in_loop and boundary in _PER_ITERATION else names
