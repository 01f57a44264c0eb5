"""Keeper: what is too large for the log goes to the result store, and comes back only where somebody reads it.

The pipeline works with real values. What is written down of an output whose data lies elsewhere has `external: true`, the
reference, and as much of the data as the server's templates read.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.errors import NoetlError, TemplateError
from noetl.expr.assign import failure_of, is_larger, render, too_large
from noetl.expr.readings import Way, lifted, readings
from noetl.expr.template import template
from noetl.model.events import Event, Fact
from noetl.model.orders import Gather
from noetl.model.output import Failure, Output, Spilled, failed, failure, ok
from noetl.model.playbook import Layered, Playbook, Step, Task
from noetl.pipeline.frame import Frame
from noetl.ports import Part, ResultDamaged, ResultGone, ResultStore

_INLINE = 65_536
#: data that nobody reads is left in a file by its tool if it is larger: less is quicker in memory
_SPILL = 1 << 20
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SELECT = "result.select."
#: a JSONPath that can lead to one place only
_ONE_PLACE = re.compile(r"\$(\.[\w-]+|\[-?\d+\]|\['[^']*'\]|\[\"[^\"]*\"\])*")


class Rules(msgspec.Struct, frozen=True):
    """How results are kept, by a task's or a step's spec."""

    #: a payload of more bytes is not written to the log
    inline: int
    ttl: float | None
    #: name → JSONPath of what the server is shown, in place of what its templates read
    select: Mapping[str, str]
    #: hash of the schema that the data was checked against
    schema: str | None
    #: which of the stores that are there
    store: str = "auto"
    #: why nothing can be kept so
    problem: Failure | None = None


_USUAL = Rules(_INLINE, None, {}, None)


class Keeper:
    """Keeps the results of one pipeline."""

    def __init__(self, store: ResultStore, playbook: Playbook, step: Step, frame: Frame) -> None:
        self.store = store
        self.frame = frame
        self.step = step
        self.execution_id = str(frame.scopes["execution_id"])
        self.most = playbook.max_payload
        self.always = bool((playbook.policy.get("results") or {}).get("reference_first"))
        self.reads = readings(step, playbook)

    def _rules(self, spec: Mapping[str, Layered]) -> Rules:
        if not any(key.startswith(("result.", "validate.")) for key in spec):
            return _USUAL
        scopes = self.frame.scopes
        inline = render(spec["result.inline_max_bytes"].value, scopes) if "result.inline_max_bytes" in spec else _INLINE
        ttl = render(spec["result.ttl"].value, scopes) if "result.ttl" in spec else None
        select = {key[len(_SELECT) :]: str(one.value) for key, one in spec.items() if key.startswith(_SELECT)}
        schema = spec.get("validate.output")
        kind = str(spec["result.store"].value) if "result.store" in spec else "auto"
        problem = None if kind in ("auto", *self.store.kinds) else not_here(kind, self.store.kinds)
        try:
            seconds = None if ttl is None else seconds_of(ttl)
        except ValueError:
            seconds, problem = (
                None,
                failure("type", f"`spec.result.ttl` is seconds, or a text such as 24h, not {ttl!r}"),
            )
        checked = None if schema is None else hash_of(schema.value)
        return Rules(int(inline), seconds, select, checked, kind, problem)

    # --- outputs of tasks ---------------------------------------------------------------------------------------------

    def is_light(self, output: Output) -> bool:
        """Whether an output has nothing that must be brought or stored."""
        if output["error"] is not None:
            return True
        rules = self._rules(self.frame.task.spec)
        return rules.problem is None and not is_elsewhere(output) and not self._must_store(output, rules)

    def _must_store(self, output: Output, rules: Rules) -> bool:
        if self.always or self.reads.ref_inside:
            return True
        return bool(rules.select) or is_larger(output["data"], rules.inline)

    def spill(self, task: Task) -> int | None:
        """Data of how many bytes a task's tool should leave in a file; None: somebody is going to read it."""
        if self._is_read(task):
            return None
        return max(_SPILL, self._rules(task.spec).inline)

    def _is_read(self, task: Task) -> bool:
        if task.name in self.reads.inside or "validate.output" in task.spec or self._is_checked():
            return True
        if self.frame.iteration is not None:
            return False  # the server sees the list that a loop makes, and nothing of its parts
        return bool(self.reads.data) or any(key.startswith(_SELECT) for key in task.spec)

    async def brought(self, output: Output, task: Task) -> Output:
        """The output of a task whose data lies elsewhere, with the data if anybody reads it."""
        data = output["data"]
        if not is_elsewhere(output) or not self._is_read(task):
            return output
        try:
            found = await (self.store.load(data) if isinstance(data, Spilled) else self.store.read(output["ref"]))
        except NoetlError as error:
            return failed(unreadable(error))
        return {key: value for key, value in {**output, "data": found}.items() if key != "external"}

    def _is_checked(self) -> bool:
        """Whether a schema is to be held against what the step yields."""
        return "validate.output" in self.step.spec

    async def kept(self, output: Output) -> tuple[Output, Output | None]:
        """A shaped output with its reference, if it is to have one, and what is written down of it."""
        rules = self._rules(self.frame.task.spec)
        if rules.problem is not None and output["error"] is None:
            return failed(rules.problem), None
        if output["error"] is not None or output.get("external"):
            return output, None
        if isinstance(output["data"], Spilled):
            ref = await self._store(output["data"], rules)
            return {**output, "data": None, "ref": ref, "external": True}, None
        if not self._must_store(output, rules):
            return output, None
        output = {**output, "ref": await self._store(output["data"], rules)}
        if rules.select or is_larger(output["data"], rules.inline):
            return output, {**output, "data": None, "external": True}
        return output, None

    async def _store(self, data: Any, rules: Rules) -> dict[str, Any]:
        owner, store = self.execution_id, rules.store
        return await self.store.keep(owner, data, ttl=rules.ttl, schema=rules.schema, store=store)

    # --- going on -----------------------------------------------------------------------------------------------------

    async def refilled(self, events: Sequence[Event]) -> list[Event]:
        """Recorded events of a pipeline with what they had left in the store, each target as it was written last."""
        found: list[Event] = []
        seen: set[str] = set()
        for event in reversed(events):
            kept = event.payload.get("kept", {})
            patch = dict(event.payload.get("set", {}))
            for target in set(kept) - seen:
                patch[target] = await self.store.read(kept[target])
            seen.update(patch)
            found.append(replace(event, payload={**event.payload, "set": patch}) if kept else event)
        return found[::-1]

    async def remembered(self) -> None:
        """Bring the data of the outputs that a resumed pipeline still has in sight."""
        frame = self.frame
        yielded, seen = frame.output, frame.scopes.get("output")
        if yielded is not None and frame.yielder is not None:
            frame.output = await self.brought(yielded, frame.yielder)
            frame.scopes["_prev"] = frame.output["data"]
        if seen is yielded:
            frame.scopes["output"] = frame.output
        elif seen is not None:  # of the attempt before the one to come
            frame.scopes["output"] = await self.brought(seen, frame.task)

    # --- facts on their way out ---------------------------------------------------------------------------------------

    def may_go(self, fact: Fact) -> bool:
        """Whether a fact can be reported as it is."""
        payload = fact.payload
        if fact.name == "task.done":
            return not self._heavy(payload.get("set", {}))
        if fact.name == "step.done":
            return self._end_is_light(payload["output"])
        if fact.name == "loop.iteration.done":
            return not is_larger(payload["data"], self._rules(self._spec()).inline) and not self._is_external()
        return True

    async def written_down(self, fact: Fact) -> Fact:
        """A fact as the log gets it."""
        if self.may_go(fact):
            return fact
        if fact.name == "task.done":
            return replace(fact, payload=await self._lighter(fact.payload))
        if fact.name == "step.done":
            return await self._ended(fact)
        payload = {**fact.payload, "data": None, "ref": await self._reference(fact.payload["data"])}
        return replace(fact, payload=payload)

    def _heavy(self, patch: Mapping[str, Any]) -> list[str]:
        """The targets of a `set` that the log does not get; what other iterations see has to go through the server."""
        private = "iter." if self.step.loop is not None else ("step.", "iter.")
        found = [target for target in patch if target.startswith(private)]
        if not found:
            return []
        most = self._rules(self.step.spec).inline
        return [target for target in found if is_larger(patch[target], most)]

    async def _lighter(self, payload: dict[str, Any]) -> dict[str, Any]:
        patch, rules = dict(payload["set"]), self._rules(self._spec())
        kept = {}
        for target in self._heavy(patch):
            kept[target] = await self._store(patch[target], rules)
            patch[target] = lifted(patch[target], self._ways_below(target))
        return {**payload, "set": patch, "kept": kept}

    def _ways_below(self, target: str) -> list[Way]:
        scope, *path = target.split(".")
        ways = []
        for way in self.reads.step if scope == "step" else ():
            if way[: len(path)] == tuple(path):
                ways.append(way[len(path) :])
            elif tuple(path[: len(way)]) == way:
                ways.append(())
        return ways

    # --- the end of a step --------------------------------------------------------------------------------------------

    def _spec(self) -> Mapping[str, Layered]:
        """Whose rules hold for what a pipeline ends with: those of the task it comes from, unless it was reshaped."""
        yielder = self.frame.yielder
        return self.step.spec if yielder is None or self.step.output is not None else yielder.spec

    def _is_external(self) -> bool:
        return bool((self.frame.output or {}).get("external")) and self.step.output is None

    def _end_is_light(self, output: Output) -> bool:
        if output.get("external"):
            return self.step.output is None and not self.reads.data
        rules = self._rules(self._spec())
        if rules.select or is_larger(output["data"], rules.inline):
            return False
        return not ((self.always or self.reads.ref_server) and (output["ref"] is None or self.step.output is not None))

    async def _reference(self, data: Any) -> dict[str, Any]:
        """The reference of what a pipeline ends with."""
        known = (self.frame.output or {}).get("ref") if self.step.output is None else None
        return known if known is not None else await self._store(data, self._rules(self._spec()))

    async def _ended(self, fact: Fact) -> Fact:
        output: Output = {**fact.payload["output"]}
        rules = self._rules(self._spec())
        if self.step.output is not None:
            output.pop("external", None)
        data = output["data"]
        external = output.get("external") or bool(rules.select) or is_larger(data, rules.inline)
        output["ref"] = await self._reference(data)
        if not external:
            return replace(fact, payload={**fact.payload, "output": output})
        try:
            shown = selected(data, rules.select) if rules.select else lifted(data, self.reads.data)
            if is_larger(shown, self.most):
                raise too_large("what the step's `set` and arcs read of `output.data`", self.most)
        except TemplateError as error:
            output = failed(failure_of(error))
            return Fact("step.failed", fact.step_run_id, {"output": output}, "error", iteration=fact.iteration)
        return replace(fact, payload={**fact.payload, "output": {**output, "data": shown, "external": True}})

    async def gathered(self, gather: Gather) -> Output:
        """The output of a loop whose list is too long for the log."""
        rules = self._rules(self.step.spec)
        parts = _parts(await self._filled(gather))
        output = ok(loop=dict(gather.counts))
        output["ref"] = await self.store.keep_list(self.execution_id, parts, ttl=rules.ttl, store=rules.store)
        if rules.select or self.reads.data or self.reads.at_end or self._is_checked():
            return {**output, "data": await self.store.read(output["ref"])}
        return {**output, "external": True}

    async def _filled(self, gather: Gather) -> Gather:
        """With what inner loops have stored put into their lists."""
        deep = {label: ref for label, ref in gather.refs.items() if "." in label}
        if not deep:
            return gather
        results: Any = copy.deepcopy(gather.results)
        for label, ref in deep.items():
            *way, last = map(int, label.split("."))
            at = results
            for index in way:
                at = at[index]
            at[last] = await self.store.read(ref)
        return replace(gather, results=results)


def is_elsewhere(output: Output) -> bool:
    """Whether the data of an output is not in hand."""
    return bool(output.get("external")) or isinstance(output["data"], Spilled)


def _parts(gather: Gather) -> list[Part]:
    """A loop's list in parts: what lies in the store already, and what stands between."""
    parts: list[Part] = []
    between: list[Any] = []
    for index, one in enumerate(gather.results):
        ref = gather.refs.get(str(index))
        if ref is None:
            between.append(one)
            continue
        if between:
            parts.append(Part(items=between))
        parts.append(Part(ref=ref))
        between = []
    return [*parts, Part(items=between)] if between else parts


def selected(data: Any, select: Mapping[str, str]) -> dict[str, Any]:
    """What `spec.result.select` shows of a payload: of a path that leads to one place what is there, else a list."""
    asked = template("{{ data | jsonpath(path) }}")
    found = {name: asked.evaluate({"data": data, "path": path}) for name, path in select.items()}
    return {
        name: next(iter(some), None) if _ONE_PLACE.fullmatch(select[name]) else some for name, some in found.items()
    }


def not_here(kind: str, kinds: Iterable[str]) -> Failure:
    """The error of asking for a store that nobody has set up."""
    here = ", ".join(f"`{one}`" for one in sorted(kinds))
    said = f"`spec.result.store: {kind}` is not there; there is {here}, which `auto` takes as well"
    return failure("result", f"{said}; NOETL_RESULTS names the stores")


def unreadable(error: NoetlError) -> Failure:
    """Why a payload cannot be brought."""
    kind = "result-damaged" if isinstance(error, ResultDamaged) else "result"
    return failure("result-expired" if isinstance(error, ResultGone) else kind, str(error))


def seconds_of(ttl: Any) -> float:
    """`spec.result.ttl`: seconds, or `24h`."""
    if isinstance(ttl, str) and ttl[-1:] in _UNITS:
        return float(ttl[:-1]) * _UNITS[ttl[-1]]
    return float(ttl)


def hash_of(schema: Any) -> str:
    """The identity of a JSON Schema."""
    return hashlib.sha256(msgspec.json.encode(schema, order="deterministic")).hexdigest()
