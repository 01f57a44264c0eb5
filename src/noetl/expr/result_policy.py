"""What is kept of a step's results and how: the `result` keys of its effective spec, and the paths that templates read."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from noetl.errors import TemplateError
from noetl.expr.values import failure_of, is_larger, render, too_large_error
from noetl.model.output import Failure, failure
from noetl.model.playbook import LayeredValue, Playbook, Rule, Step, Task

#: the default of `spec.result.inline_max_bytes`
INLINE = 65_536
_TTL_KEY, _SELECT = "result.ttl", "result.select."
_TTL = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
#: a hundred years: whoever says more means for ever, which is to say nothing
_LONGEST_TTL = 100 * 365.25 * 86_400


class ResultRules(msgspec.Struct, frozen=True):
    """How results are kept."""

    #: a payload of more bytes is not written to the log
    inline: int = INLINE
    #: for how many seconds; None: for ever
    ttl: float | None = None
    #: name → JSONPath of what the server is shown, in place of what its templates read
    select: Mapping[str, str] = {}
    #: hash of the schema that the data was checked against
    schema: str | None = None
    #: which of the stores that are there
    store: str = "auto"
    #: why nothing can be kept so
    problem: Failure | None = None


_USUAL = ResultRules()


def rules_of(spec: Mapping[str, LayeredValue], scopes: Mapping[str, Any]) -> ResultRules:
    """What a spec says; what it says wrongly is a problem, and the default stands in its place."""
    if not spec or not any(key.startswith(("result.", "validate.")) for key in spec):
        return _USUAL
    select = {key[len(_SELECT) :]: str(one.value) for key, one in spec.items() if key.startswith(_SELECT)}
    schema = hash_of(spec["validate.output"].value) if "validate.output" in spec else None
    ttl, problem = None, None
    try:
        if _TTL_KEY in spec:
            ttl = _seconds_of(render(spec[_TTL_KEY].value, scopes))
    except TemplateError as error:
        problem = failure_of(error)
    except _InvalidSetting as wrong:
        problem = failure("type", str(wrong))
    return ResultRules(inline_of(spec), ttl, select, schema, problem=problem)


def inline_of(spec: Mapping[str, LayeredValue]) -> int:
    """A payload of more bytes is not written to the log."""
    said = spec.get("result.inline_max_bytes")
    return INLINE if said is None else int(said.value)


def selects(spec: Mapping[str, LayeredValue]) -> bool:
    """Whether it names the fields that the server is shown."""
    return any(key.startswith(_SELECT) for key in spec)


def hash_of(schema: Any) -> str:
    """The identity of a JSON Schema."""
    return hashlib.sha256(msgspec.json.encode(schema, order="deterministic")).hexdigest()


class _InvalidSetting(Exception):
    """What is said of a value that cannot be meant."""


def _seconds_of(said: Any) -> float | None:
    if said is None:
        return None
    found = math.nan
    if isinstance(said, str) and (match := _TTL.fullmatch(said.strip())):
        found = float(match[1]) * _UNITS[match[2]]
    elif isinstance(said, int | float) and not isinstance(said, bool):
        found = float(min(said, 2 * _LONGEST_TTL))
    if not 0 <= found <= _LONGEST_TTL:
        raise _InvalidSetting(
            f"`spec.result.ttl` is seconds, or a text such as 24h, not {_describe(said)}; at most 100 years"
        )
    return found


def _describe(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 60 else f"a {type(value).__name__}"


# Who reads a step's results: known without running anything, so that nobody holds or moves what no one wants.


Of = TypeVar("Of")

#: so many steps are remembered
_MOST = 10_000
#: a literal index, as paths have it
_INDEX = re.compile(r"-?[0-9]{1,9}", re.ASCII)
#: the literal parts below a root; empty: all of it
Way = tuple[str, ...]


class ResultReads(msgspec.Struct, frozen=True):
    """What templates read of a step's results."""

    #: below `output.data`, by the server: the step's `set`, its arcs, and whoever they lead to
    data: tuple[Way, ...]
    #: below `step`, by the server
    step: tuple[Way, ...]
    #: the tasks whose payload a template of the pipeline reads: `output.data`, `_prev`
    inside: frozenset[str]
    #: whether the step's own `output` reads the payload that its body ends with
    at_end: bool
    #: whether a template of the pipeline reads `output.ref`
    ref_inside: bool
    #: whether the server does
    ref_server: bool


class _IdentityCache(Generic[Of]):
    """Answers about parts of a playbook, by their identity, which is kept alive."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Of]] = {}

    def get(self, part: Any, find: Callable[[], Of]) -> Of:
        known = self._found.get(id(part))
        if known is None or known[0] is not part:
            while len(self._found) >= _MOST:
                del self._found[next(iter(self._found))]
            known = self._found[id(part)] = (part, find())
        return known[1]


_of_steps: _IdentityCache[ResultReads] = _IdentityCache()
_of_admissions: _IdentityCache[list[Way]] = _IdentityCache()
_of_compensations: _IdentityCache[tuple[Way, ...]] = _IdentityCache()
#: of an output: what its event holds in any case
_RECORDED = frozenset({"status", "data", "ref", "error", "external"})


def find_result_reads(step: Step, playbook: Playbook) -> ResultReads:
    """Who reads the results of a step."""
    return _of_steps.get(step, lambda: _find(step, playbook))


def _find(step: Step, playbook: Playbook) -> ResultReads:
    server = list(_reads(_server_values(step)))
    server += _of_admissions.get(playbook, lambda: _event_reads(playbook))
    pipeline = list(_reads(pipeline_values(step)))
    outputs = [rest for path in server if (rest := _below_output(path)) is not None]
    inner = [rest for path in pipeline if (rest := _below_output(path)) is not None]
    undo = [path[1:] for path in find_undo_reads(step) if path[0] == "output"]
    return ResultReads(
        data=_fewest(rest[1:] for rest in outputs if rest[:1] in ((), ("data",))),
        step=_fewest(path[1:] for path in (*server, *find_undo_reads(step)) if path[0] == "step"),
        inside=frozenset(_read_tasks(step)),
        at_end=_reads_data((step.output,)) or any(map(_looks_back, (*step.after, *step.cleanup))),
        ref_inside=any(rest[:1] in ((), ("ref",)) for rest in (*inner, *undo)),
        ref_server=any(rest[:1] in ((), ("ref",)) for rest in (*outputs, *undo)),
    )


def _read_tasks(step: Step) -> Iterator[str]:
    """The tasks whose payload is read: by themselves when they have ended, by one that may come later, or at the end."""
    tasks = step.pipeline
    jumps = any(one.then.do == "jump" for task in tasks for one in _rules(task))
    later = _reads_data(_end_values(step))
    for task in reversed(tasks):
        again = jumps or any(one.then.do == "retry" for one in _rules(task))
        anyone = any(map(_looks_back, tasks)) if jumps else _looks_back(task) and again
        if later or anyone or _reads_data(_values_after(task)):
            yield task.name
        later = later or _looks_back(task)


def _looks_back(task: Task) -> bool:
    """Whether a task reads the payload of one before it."""
    reads = list(_reads(_values_before(task)))
    return (
        any(path[0] == "_prev" for path in (*reads, *_reads(_values_after(task))))
        or any((rest := _below_output(path)) is not None and rest[:1] in ((), ("data",)) for path in reads)
        or _code_may_read(task)
    )


def _reads_data(values: Iterable[Any]) -> bool:
    below = (_below_output(path) for path in _reads(values))
    return any(rest is not None and rest[:1] in ((), ("data",)) for rest in below)


def _code_may_read(task: Task) -> bool:
    """Whether a program can see all scopes: one that mentions `context`, or that lies in a module we do not see."""
    code = task.config.get("code")
    return "module" in task.config or (isinstance(code, str) and ("context" in code or "results" in code))


def _below_output(path: Way) -> Way | None:
    if path[0] == "output":
        return path[1:]
    if path[0] == "event" and path[1:2] in ((), ("output",)):
        return path[2:]
    return None


def _fewest(ways: Iterable[Way]) -> tuple[Way, ...]:
    """The ways without those that lead on from another of them."""
    found = set(ways)
    return tuple(sorted(way for way in found if not any(way[:end] in found for end in range(len(way)))))


#: the scopes of which a compensation sees what they were when the run ended that it undoes
UNDO_SCOPES = ("ctx", "step", "iter", "input", "output")


def find_undo_reads(step: Step) -> tuple[Way, ...]:
    """What the compensation of a step reads of the run that it undoes, each path with its scope."""
    task = step.compensation
    return () if task is None else _of_compensations.get(step, lambda: _find_undo_reads(task))


def _find_undo_reads(task: Task) -> tuple[Way, ...]:
    if _code_may_read(task):
        return tuple((scope,) for scope in UNDO_SCOPES)
    # Its rules see its own output, not the one of the run.
    before = [*_reads(_values_before(task)), *(path for path in _reads(_values_after(task)) if path[0] != "output")]
    return _fewest(path for path in before if path[0] in UNDO_SCOPES)


def keep_undo_scopes(step: Step, scopes: Mapping[str, Any], *, most: int) -> dict[str, Any]:
    """As much of the scopes of a run as its compensation reads; the payload is recorded with the run's end.

    TemplateError: it is more than the log takes.
    """
    reads = [path for path in find_undo_reads(step) if path[:2] not in (("output", "data"), ("output", "ref"))]
    found = select_paths({key: scopes[key] for key in UNDO_SCOPES if key in scopes}, reads) or {}
    if "output" in found:
        found["output"] = {key: value for key, value in found["output"].items() if key not in _RECORDED}
    if is_larger(found, most):
        raise too_large_error("what the step's compensation reads of the run", most)
    kept: dict[str, Any] = found
    return kept


def _server_values(step: Step) -> Iterator[Any]:
    yield from (one.value for one in step.set)
    for arc in step.router.arcs:
        yield arc.when
        yield arc.args
        yield from (one.value for one in arc.set)
    if step.router.synthesize is not None:
        yield step.router.synthesize.plan


def _event_reads(playbook: Playbook) -> list[Way]:
    """What admissions read of the event that brought the token, of whichever step that was."""
    rules = (rule for step in playbook.steps for rule in step.admission.rules or ())
    return [path for path in _reads(rule.when for rule in rules) if path[0] == "event"]


def pipeline_values(step: Step) -> Iterator[Any]:
    """All that the worker may evaluate of a step."""
    yield from _end_values(step)
    for task in step.pipeline:
        yield from task_values(task)


def _end_values(step: Step) -> Iterator[Any]:
    yield step.output
    loop = step.loop
    while loop is not None:
        yield loop.until
        loop = loop.inner


def task_values(task: Task) -> Iterator[Any]:
    """All that a task may evaluate."""
    yield from _values_before(task)
    yield from _values_after(task)


def _values_before(task: Task) -> Iterator[Any]:
    """What a task evaluates before it runs."""
    yield from (task.input, task.auth)
    yield from task.config.values()
    yield from (layered.value for layered in task.spec.values())


def _values_after(task: Task) -> Iterator[Any]:
    """What it evaluates when it has run, over its own output."""
    yield task.output
    yield from (one.value for one in task.set)
    for rule in _rules(task):
        then = rule.then
        yield from (rule.when, then.delay, then.attempts, then.max_delay, then.message)
        yield from (one.value for one in then.set)


def _rules(task: Task) -> tuple[Rule, ...]:
    return tuple(task.policy.rules) if task.policy is not None else ()


def _reads(values: Iterable[Any]) -> Iterator[Way]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _reads(value.values())
            continue
        facts = getattr(value, "facts", None)
        if facts is not None:
            yield from (read.path for read in facts.reads)


def select_paths(value: Any, ways: Iterable[Way]) -> Any:
    """As much of a value as the ways lead to; what is neither map nor list on the way is taken whole."""
    heads: dict[str, list[Way]] = {}
    for way in ways:
        if not way or not isinstance(value, Mapping | list):
            return value
        heads.setdefault(way[0], []).append(way[1:])
    if not heads:
        return None
    if isinstance(value, list):
        return _select_items(value, {int(key): rest for key, rest in heads.items() if _INDEX.fullmatch(key)})
    return {key: select_paths(value[key], rest) for key, rest in heads.items() if key in value}


def _select_items(value: list[Any], heads: Mapping[int, list[Way]]) -> list[Any]:
    """The elements at some indexes, each still at its own from the beginning or the end; null stands for the others."""
    first = max((index + 1 for index in heads if index >= 0), default=0)
    last = max((-index for index in heads if index < 0), default=0)
    places = range(len(value)) if first + last >= len(value) else [*range(first), *range(-last, 0)]
    return [select_paths(value[at], _ways_to(at, len(value), heads)) for at in places]


def _ways_to(at: int, length: int, heads: Mapping[int, list[Way]]) -> list[Way]:
    """The ways on from one element, by its index from either end."""
    other = at - length if at >= 0 else at + length
    return heads.get(at, []) + heads.get(other, [])


def follow_path(value: Any, path: Iterable[str]) -> Any:
    """What a literal path leads to; None: nothing."""
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and _INDEX.fullmatch(part) and -len(value) <= int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
