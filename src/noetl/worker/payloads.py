"""Payloads that are too large for the log: written to the result store, and read back only where they are needed.

The pipeline works with real values. What is written down of an output whose data lies elsewhere has `external: true`, the
reference, and as much of the data as the server's templates read.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from noetl.errors import NoetlError, TemplateError
from noetl.expr import (
    ResultRules,
    Way,
    failure_of,
    find_result_reads,
    hash_of,
    is_larger,
    rules_of,
    select_paths,
    selects,
    template,
    too_large_error,
)
from noetl.model.events import Event, Fact
from noetl.model.orders import Gather
from noetl.model.output import Failure, Output, Spilled, failed, failure, ok
from noetl.model.playbook import LayeredValue, Playbook, Step, Task
from noetl.pipeline import Frame
from noetl.ports import Part, ResultDamaged, ResultGone, ResultStore

#: data that nobody reads is left in a file by its tool if it is larger: less is quicker in memory
_SPILL = 1 << 20
#: a JSONPath that can lead to one place only
_ONE_PLACE = re.compile(r"\$(\.[\w-]+|\[-?\d+\]|\['[^']*'\]|\[\"[^\"]*\"\])*")


class ResultKeeper:
    """Keeps the results of one pipeline."""

    def __init__(self, store: ResultStore, playbook: Playbook, step: Step, frame: Frame) -> None:
        self.store = store
        self.frame = frame
        self.step = step
        self.execution_id = str(frame.scopes["execution_id"])
        self.most = playbook.max_payload
        self.always = bool((playbook.policy.get("results") or {}).get("reference_first"))
        self.reads = find_result_reads(step, playbook)
        #: something that was written to `step` lies in the store, less what the server reads of it
        self.has_lifted = False

    def _rules(self, spec: Mapping[str, LayeredValue]) -> ResultRules:
        rules = rules_of(spec, self.frame.scopes)
        kind = str(spec["result.store"].value) if "result.store" in spec else "auto"
        if rules.problem is None and kind not in ("auto", *self.store.kinds):
            return replace(rules, problem=store_unavailable(kind, self.store.kinds))
        return replace(rules, store=kind) if kind != "auto" else rules

    # --- outputs of tasks ---------------------------------------------------------------------------------------------

    def is_light(self, output: Output) -> bool:
        """Whether an output has nothing that must be brought or stored."""
        if output["error"] is not None:
            return True
        rules = self._rules(self.frame.task.spec)
        return rules.problem is None and not is_away(output) and not self._must_store(output, rules)

    def _must_store(self, output: Output, rules: ResultRules) -> bool:
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
        return bool(self.reads.data) or selects(task.spec)

    async def fetch_data(self, output: Output, task: Task) -> Output:
        """The output of a task whose data lies elsewhere, with the data if anybody reads it."""
        data = output["data"]
        if not is_away(output) or not self._is_read(task):
            return output
        try:
            found = await (self.store.load(data) if isinstance(data, Spilled) else self.store.read(output["ref"]))
        except NoetlError as error:
            return failed(unreadable_failure(error))
        return {key: value for key, value in {**output, "data": found}.items() if key != "external"}

    def _is_checked(self) -> bool:
        """Whether a schema is to be held against what the step yields."""
        return "validate.output" in self.step.spec

    async def store_output(self, output: Output) -> tuple[Output, Output | None]:
        """A shaped output with its reference, if it is to have one, and what is written down of it."""
        rules = self._rules(self.frame.task.spec)
        if rules.problem is not None and output["error"] is None:
            discard(output)
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

    async def _store(self, data: Any, rules: ResultRules) -> dict[str, Any]:
        owner, store = self.execution_id, rules.store
        return await self.store.keep(owner, data, ttl=rules.ttl, schema=rules.schema, store=store)

    # --- going on -----------------------------------------------------------------------------------------------------

    async def restore_events(self, events: Sequence[Event]) -> tuple[list[Event], Failure | None]:
        """Recorded events of a pipeline with what they had left in the store, each target as it was written last.

        And why something of it cannot be brought, if so.
        """
        found: list[Event] = []
        seen: set[str] = set()
        problem: Failure | None = None
        for event in reversed(events):
            kept = event.payload.get("kept", {})
            patch = dict(event.payload.get("set", {}))
            for target in set(kept) - seen:
                self.has_lifted = True
                try:
                    patch[target] = await self.store.read(kept[target])
                except NoetlError as error:
                    problem = unreadable_failure(error, f"`{target}`")
            seen.update(patch)
            found.append(replace(event, payload={**event.payload, "set": patch}) if kept else event)
        return found[::-1], problem

    async def restore_outputs(self) -> Failure | None:
        """Bring the data of the outputs that a resumed pipeline still has in sight; or say why one cannot be brought."""
        frame = self.frame
        yielded, seen, body = frame.latest, frame.scopes.get("output"), frame.body
        found: list[Failure | None] = [None, None]
        if body is not None and body is not yielded and frame.yielder is not None:
            frame.replace_output(body, (await self._restore_output(body, frame.yielder))[0])
        if yielded is not None and frame.latest_task is not None:
            frame.latest, found[0] = await self._restore_output(yielded, frame.latest_task)
            frame.scopes["_prev"] = frame.latest["data"]
            frame.replace_output(yielded, frame.latest)
        if seen is yielded:
            frame.scopes["output"] = frame.latest
        elif seen is not None:  # of the attempt before the one to come
            frame.scopes["output"], found[1] = await self._restore_output(seen, frame.task)
        return found[0] or found[1]

    async def _restore_output(self, output: Output, task: Task) -> tuple[Output, Failure | None]:
        brought = await self.fetch_data(output, task)
        if output["error"] is None and brought["error"] is not None:
            error = brought["error"]
            return output, {**error, "message": f"what task `{task.name}` yielded is wanted again: {error['message']}"}
        return brought, None

    # --- facts on their way out ---------------------------------------------------------------------------------------

    def may_go(self, fact: Fact) -> bool:
        """Whether a fact can be reported as it is."""
        payload = fact.payload
        if fact.name == "task.done":
            return not self._heavy_targets(payload.get("set", {}))
        if fact.name == "step.done":
            return self._end_is_light(payload["output"])
        if fact.name == "loop.started":
            return not isinstance(payload["items"], list) or not is_larger(payload["items"], self._inline())
        if fact.name == "loop.iteration.done":
            return not is_larger(payload["data"], self._rules(self._spec()).inline) and not self._is_external()
        return True

    async def prepare_fact(self, fact: Fact) -> Fact:
        """A fact as the log gets it."""
        if self.may_go(fact):
            return fact
        if fact.name == "task.done":
            return replace(fact, payload=await self._lighten(fact.payload))
        if fact.name == "step.done":
            return await self._prepare_end(fact)
        if fact.name == "loop.started":
            items = await self._store(fact.payload["items"], self._rules(self.step.spec))
            return replace(fact, payload={**fact.payload, "items": items})
        payload = {**fact.payload, "data": None, "ref": await self._reference(fact.payload["data"])}
        return replace(fact, payload=payload)

    def _inline(self) -> int:
        """How many bytes the log takes of what a loop goes over."""
        return self._rules(self.step.spec).inline

    def _heavy_targets(self, patch: Mapping[str, Any]) -> list[str]:
        """The targets of a `set` that the log does not get; what other iterations see has to go through the server."""
        private = "iter." if self.step.loop is not None else ("step.", "iter.")
        found = [target for target in patch if target.startswith(private)] if patch else None
        if not found:
            return []
        most = self._rules(self.step.spec).inline
        return [target for target in found if is_larger(patch[target], most)]

    async def _lighten(self, payload: dict[str, Any]) -> dict[str, Any]:
        patch, rules = dict(payload["set"]), self._rules(self._spec())
        kept = {}
        shown: dict[str, Any] = {}
        for target in self._heavy_targets(patch):
            self.has_lifted = True
            value = patch.pop(target)
            kept[target] = await self._store(value, rules)
            shown[target] = select_paths(value, self._ways_below(target))
            if is_larger(shown, self.most):
                del shown[target]  # the step is going to fail for it, unless something else is written there
        return {**payload, "set": patch | shown, "kept": kept}

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

    def _spec(self) -> Mapping[str, LayeredValue]:
        """Whose rules hold for what a pipeline ends with: those of the task it comes from, unless it was reshaped."""
        yielder = self.frame.yielder
        return self.step.spec if yielder is None or self.step.output is not None else yielder.spec

    def _is_external(self) -> bool:
        return bool((self.frame.output or {}).get("external")) and self.step.output is None

    def _end_is_light(self, output: Output) -> bool:
        if self.has_lifted and self.reads.step:
            return False  # what the server reads of it is to be counted
        if output.get("external"):
            return self.step.output is None and not self.reads.data
        rules = self._rules(self._spec())
        if rules.select or rules.problem is not None or is_larger(output["data"], rules.inline):
            return False
        return not self._wants_reference(output)

    def _wants_reference(self, output: Output) -> bool:
        """Whether an output is to have a reference, whatever its size, and has none of its own."""
        return (self.always or self.reads.ref_server) and (output["ref"] is None or self.step.output is not None)

    async def _reference(self, data: Any) -> dict[str, Any]:
        """The reference of what a pipeline ends with."""
        known = (self.frame.output or {}).get("ref") if self.step.output is None else None
        return known if known is not None else await self._store(data, self._rules(self._spec()))

    def _with_schema(self, ref: dict[str, Any]) -> dict[str, Any]:
        """A reference with the hash of the schema that the step's output was checked against."""
        if not self._is_checked():
            return ref
        schema = hash_of(self.step.spec["validate.output"].value)
        return {**ref, "meta": {**ref["meta"], "schema": schema}}

    async def _prepare_end(self, fact: Fact) -> Fact:
        output: Output = {**fact.payload["output"]}
        rules = self._rules(self._spec())
        if self.step.output is not None:
            output.pop("external", None)
        data = output["data"]
        external = output.get("external") or bool(rules.select) or is_larger(data, rules.inline)
        try:
            shown = self._select_shown(data, rules) if external else None
            self._check_lifted(shown)
        except TemplateError as error:
            return self._make_failed_fact(fact, failure_of(error))
        if rules.problem is not None:
            return self._make_failed_fact(fact, rules.problem)
        if external or self._wants_reference(output):
            output["ref"] = self._with_schema(await self._reference(data))
        if external:
            output |= {"data": shown, "external": True}
        return replace(fact, payload={**fact.payload, "output": output})

    def _select_shown(self, data: Any, rules: ResultRules) -> Any:
        return select_fields(data, rules.select) if rules.select else select_paths(data, self.reads.data)

    def _check_lifted(self, shown: Any) -> None:
        """TemplateError: what the server is to be shown of what is stored is too much."""
        lifted_too = select_paths(self.frame.scopes.get("step"), self.reads.step) if self.has_lifted else None
        if not is_larger([shown, lifted_too] if lifted_too else shown, self.most):
            return
        what = "`output.data`" if not lifted_too else "`step`" if shown is None else "`output.data` and `step`"
        raise too_large_error(f"what the step's `set` and arcs read of {what}", self.most)

    def _make_failed_fact(self, fact: Fact, problem: Failure) -> Fact:
        return Fact("step.failed", fact.step_run_id, {"output": failed(problem)}, "error", iteration=fact.iteration)

    async def gather_list(self, gather: Gather) -> Output:
        """The output of a loop whose list is too long for the log."""
        rules = self._rules(self.step.spec)
        if rules.problem is not None:
            return failed(rules.problem, loop=dict(gather.counts))
        output = ok(loop=dict(gather.counts))
        try:
            parts = _parts(await self._fill_inner_lists(gather))
            output["ref"] = await self.store.keep_list(
                self.execution_id, parts, ttl=rules.ttl, schema=rules.schema, store=rules.store
            )
            if rules.select or self.reads.data or self.reads.at_end or self._is_checked():
                return {**output, "data": await self.store.read(output["ref"])}
        except (ResultGone, ResultDamaged) as error:
            return failed(unreadable_failure(error), loop=dict(gather.counts))
        return {**output, "external": True}

    async def _fill_inner_lists(self, gather: Gather) -> Gather:
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


def is_away(output: Output) -> bool:
    """Whether the data of an output is not in hand."""
    return bool(output.get("external")) or isinstance(output["data"], Spilled)


def discard(output: Output) -> None:
    """Remove the file that a tool left its data in, of an output that nobody wants."""
    if isinstance(output["data"], Spilled):
        Path(output["data"].path).unlink(missing_ok=True)


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


def select_fields(data: Any, select: Mapping[str, str]) -> dict[str, Any]:
    """What `spec.result.select` shows of a payload: of a path that leads to one place what is there, else a list."""
    asked = template("{{ data | jsonpath(path) }}")
    found = {name: asked.evaluate({"data": data, "path": path}) for name, path in select.items()}
    return {
        name: next(iter(some), None) if _ONE_PLACE.fullmatch(select[name]) else some for name, some in found.items()
    }


def store_unavailable(kind: str, kinds: Iterable[str]) -> Failure:
    """The error of asking for a store that nobody has set up."""
    here = ", ".join(f"`{one}`" for one in sorted(kinds))
    text = f"`spec.result.store: {kind}` is not there; there is {here}, which `auto` takes as well"
    return failure("result", f"{text}; NOETL_RESULTS names the stores")


def unreadable_failure(error: NoetlError, what: str = "") -> Failure:
    """Why a payload cannot be brought; `what` it is to whoever wrote the playbook."""
    kind = "result-damaged" if isinstance(error, ResultDamaged) else "result"
    text = f"{what} is wanted again: {error}" if what else str(error)
    return failure("result-expired" if isinstance(error, ResultGone) else kind, text)
