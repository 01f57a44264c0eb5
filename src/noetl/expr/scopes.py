"""The names a template sees at each boundary, as one table."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final

# The names of all filters, tests and global functions, known without importing jinja2.


#: the language's own, beside Jinja2's
OWN_FILTERS: Final = frozenset({"to_json", "from_json", "sha256", "b64encode", "b64decode", "jsonpath", "sql", "raw"})
#: Jinja2's; a test compares them with the installed version
JINJA_FILTERS: Final = frozenset(
    """abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape
    format groupby indent int items join last length list lower map max min pprint random reject rejectattr
    replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate
    unique upper urlencode urlize wordcount wordwrap xmlattr""".split()  # noqa: SIM905  a list of words reads better so
)
FILTERS: Final = OWN_FILTERS | JINJA_FILTERS
TESTS: Final = frozenset(
    """boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer
    iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true undefined upper
    == != > >= < <=""".split()  # noqa: SIM905  a list of words reads better so
)
#: the language's own functions that are there in every template; they are called with nothing
OWN_FUNCTIONS: Final = frozenset({"now", "uuid"})
#: functions of Jinja2 that are there in every template
FUNCTIONS: Final = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace"})


class EvaluationPoint(Enum):
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

_NAMES: Final[dict[EvaluationPoint, frozenset[str]]] = {
    EvaluationPoint.ADMIT: _EXECUTION | STEP_HELPERS | {"quiet", "event"},
    EvaluationPoint.ARC_WHEN: _ARC,
    EvaluationPoint.ARC_SET: _ARC,
    EvaluationPoint.STEP_INPUT: _STEP | STEP_HELPERS,
    EvaluationPoint.LOOP_IN: _STEP,
    EvaluationPoint.LOOP_UNTIL: _STEP | {"output"},
    EvaluationPoint.LOOP_COMPLETE: _STEP | {"loop"},
    EvaluationPoint.TASK_INPUT: _TASK,
    EvaluationPoint.TASK_CONFIG: _TASK | _ROWS,
    EvaluationPoint.TASK_OUTPUT: _TASK,
    EvaluationPoint.TASK_SET: _TASK,
    EvaluationPoint.RULE: _TASK,
    EvaluationPoint.STEP_OUTPUT: _STEP | {"output"},
    EvaluationPoint.STEP_SET: _STEP | {"output"},
    EvaluationPoint.SYNTHESIZE: _STEP | {"output"},
    EvaluationPoint.KEYCHAIN: frozenset(),
    EvaluationPoint.NOTICE: frozenset({"ctx"}),
    EvaluationPoint.SPEC: _STEP,
}
#: where a loop's own iteration is in sight; admission, arcs and a step's `set` see the loop as a whole
_PER_ITERATION: Final = frozenset(
    {
        EvaluationPoint.STEP_INPUT,
        EvaluationPoint.LOOP_IN,
        EvaluationPoint.LOOP_UNTIL,
        EvaluationPoint.TASK_INPUT,
        EvaluationPoint.TASK_CONFIG,
        EvaluationPoint.TASK_OUTPUT,
        EvaluationPoint.TASK_SET,
        EvaluationPoint.RULE,
        EvaluationPoint.SPEC,
    }
)


@cache
def visible_names(boundary: EvaluationPoint, in_loop: bool) -> frozenset[str]:  # noqa: FBT001  it is half of the question
    """The root names a template may use there; `in_loop` is whether the step has a loop (for LOOP_IN: an outer one)."""
    names = _EVERYWHERE | _NAMES[boundary]
    return names | {"iter"} if in_loop and boundary in _PER_ITERATION else names
