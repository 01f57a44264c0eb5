"""The canonical playbook as a typed tree: what every pass before has made of the author's text.

Older dialects and sugar are gone here, tasks are one ordered list of named tasks, and every template is a compiled
`Template`, `Condition` or `Value`. The engines run this; `noetl explain` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec

from noetl.model.diagnostics import Span

#: the default of `limits.max_payload_bytes`
MAX_PAYLOAD = 1_048_576
#: the name of a compensation's task
COMPENSATION = "compensation"


class Value(Protocol):
    """A value that may have templates inside."""

    tree: Any
    templates: tuple[Any, ...]

    @property
    def constant(self) -> bool:
        """Whether it has no template inside."""

    def evaluate(self, scopes: Mapping[str, Any]) -> Any:
        """The value, rendered."""


class Condition(Protocol):
    """A `when`: it evaluates to true or false."""

    @property
    def source(self) -> str:
        """The text the author wrote."""

    @property
    def reads(self) -> tuple[Any, ...]:
        """Which paths of which scopes it reads."""

    @property
    def calls(self) -> tuple[Any, ...]:
        """Which functions it calls."""

    def evaluate(self, scopes: Mapping[str, Any]) -> bool:
        """Whether it holds."""


class Assignment(msgspec.Struct, frozen=True):
    """One line of a `set`: `ctx.total: …` has the scope `ctx` and the path `("total",)`."""

    scope: str
    path: tuple[str, ...]
    value: Value
    at: Span


class Directive(msgspec.Struct, frozen=True):
    """What a task's rule does."""

    do: str = "continue"
    attempts: Value | int = 3
    backoff: str = "fixed"
    delay: Value | float = 1.0
    max_delay: Value | float = 300.0
    jitter: bool = False
    to: str | None = None
    to_at: Span | None = None
    message: Value | None = None
    set: tuple[Assignment, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """A rule of a task's policy; without `when` it is the `else`."""

    when: Condition | None
    then: Directive
    at: Span
    then_at: Span | None = None


class Policy(msgspec.Struct, frozen=True):
    """What happens after a task, by rules read top to bottom."""

    rules: tuple[Rule, ...]
    on_unmatched: str = "continue"


class LayeredValue(msgspec.Struct, frozen=True):
    """One value of an effective spec, and the layer it comes from."""

    value: Any
    origin: str


class Task(msgspec.Struct, frozen=True):
    """One task of a pipeline."""

    name: str
    kind: str
    at: Span
    desc: str | None = None
    config: Mapping[str, Any] = {}
    input: Mapping[str, Value] | Value | None = None
    auth: Value | None = None
    #: where `auth` and the keys of `input` stand
    auth_at: Span | None = None
    input_at: Mapping[str, Span] = {}
    #: where the code of a kind that has some stands
    code_at: Span | None = None
    output: Value | None = None
    set: tuple[Assignment, ...] = ()
    policy: Policy | None = None
    #: effective spec: dotted key → value with its origin
    spec: Mapping[str, LayeredValue] = {}
    #: made by sugar: its output is discarded, as after `skip`, whatever its rules say
    silent: bool = False


class AdmitRule(msgspec.Struct, frozen=True):
    """A rule of admission; without `when` it is the `else`."""

    when: Condition | None
    allow: bool
    at: Span


class Join(msgspec.Struct, frozen=True):
    """A join that counts tokens: predecessor → how many of its tokens one firing takes."""

    places: Mapping[str, Value | int]
    need: int | None
    rest: str
    at: Span


class Admission(msgspec.Struct, frozen=True):
    """Which tokens may fire a step. `rules` None: every token."""

    rules: tuple[AdmitRule, ...] | None = None
    fire: str = "each"
    join: Join | None = None


class Loop(msgspec.Struct, frozen=True):
    """A loop around a step's pipeline."""

    items: Value
    iterator: str
    at: Span
    mode: str = "sequential"
    max_in_flight: Value | int = 16
    until: Condition | None = None
    complete_when: Condition | None = None
    complete_rest: str = "cancel"
    exec: str | None = None
    reduce: Mapping[str, str] = {}
    inner: Loop | None = None
    items_at: Span | None = None


class Arc(msgspec.Struct, frozen=True):
    """A way out of a step: to another one, or to the end of the execution."""

    step: str | None
    at: Span
    when: Condition | None = None
    set: tuple[Assignment, ...] = ()
    cancel: tuple[str, ...] = ()
    cancel_at: Span | None = None
    terminate: str | None = None
    #: v10: each token carries these to the step it leads to
    args: Value | None = None


class Synthesis(msgspec.Struct, frozen=True):
    """A wish for new steps."""

    plan: Value
    max_steps: int = 20
    allow_kinds: tuple[str, ...] | None = None


class Router(msgspec.Struct, frozen=True):
    """Where the tokens go when a step has ended."""

    mode: str = "exclusive"
    arcs: tuple[Arc, ...] = ()
    synthesize: Synthesis | None = None
    #: what a success that no arc matches means: `end`, `fail`, or None: the branch ends and the step is reported
    on_no_match: str | None = None


class Step(msgspec.Struct, frozen=True):
    """A node of the workflow: a transition of the net. Without tasks it is a router."""

    name: str
    at: Span
    desc: str | None = None
    input: Mapping[str, Value] | Value | None = None
    admission: Admission = Admission()
    timeout: Value | float | None = None
    deadline: Value | float | None = None
    failure_mode: str = "fail_fast"
    max_jumps: int = 100_000
    loop: Loop | None = None
    tasks: tuple[Task, ...] = ()
    #: tasks around the body, once per step run: `spec.policy.before`, `after` and `finally`
    before: tuple[Task, ...] = ()
    after: tuple[Task, ...] = ()
    cleanup: tuple[Task, ...] = ()
    #: undoes a run that ended well, when the execution fails or is cancelled
    compensation: Task | None = None
    output: Value | None = None
    set: tuple[Assignment, ...] = ()
    router: Router = Router()
    #: effective spec of the step itself: scheduling keys and what tasks inherit
    spec: Mapping[str, LayeredValue] = {}

    @property
    def pipeline(self) -> tuple[Task, ...]:
        """The body with the tasks around it, in the order in which they run."""
        if not (self.before or self.after or self.cleanup):
            return self.tasks
        return (*self.before, *self.tasks, *self.after, *self.cleanup)

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """Every task of the step, its compensation included."""
        if not (self.compensation or self.before or self.after or self.cleanup):
            return self.tasks
        return self.pipeline if self.compensation is None else (*self.pipeline, self.compensation)


class Credential(msgspec.Struct, frozen=True):
    """A keychain entry."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    at: Span


class FailureWebhook(msgspec.Struct, frozen=True):
    """Who is told of a failure."""

    webhook: Value
    headers: Value | None = None


def _map_under(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The map under a key; an empty one, should something else be there, which the shape check reports."""
    found = parent.get(key)
    return found if isinstance(found, Mapping) else {}


class Playbook(msgspec.Struct, frozen=True, dict=True):
    """The whole document."""

    name: str
    path: str
    steps: tuple[Step, ...]
    metadata: Mapping[str, Any] = {}
    keychain: tuple[Credential, ...] = ()
    executor: Mapping[str, Any] = {}
    workload: Mapping[str, Any] = {}
    workbook: Mapping[str, tuple[Task, ...]] = {}
    on_failure: FailureWebhook | None = None
    #: some template reads `args`, the values that tokens carry (v10)
    reads_args: bool = False
    #: where `executor.spec.policy.finally.step` stands
    final_step_at: Span | None = None

    @property
    def final_step(self) -> str | None:
        """The step that runs last, whatever the outcome: `executor.spec.policy.finally`."""
        found = self.policy.get("finally")
        name = found.get("step") if isinstance(found, Mapping) else None
        return name if isinstance(name, str) else None

    @cached_property
    def policy(self) -> Mapping[str, Any]:
        """`executor.spec.policy`."""
        return _map_under(_map_under(self.executor, "spec"), "policy")

    @property
    def fails_when_stalled(self) -> bool:
        """Whether tokens that can never move are an error of the execution."""
        return self.policy.get("stalled") == "fail"

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits of a whole execution."""
        return _map_under(self.policy, "limits")

    @cached_property
    def max_payload(self) -> int:
        """How much of a payload the server may be shown, in bytes."""
        found: int = self.limits.get("max_payload_bytes", MAX_PAYLOAD)
        return found
