"""What a compensation sees: the run that it undoes, as the log recorded its end."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.expr import find_undo_reads, select_paths
from noetl.model.events import Event
from noetl.model.output import Failure, Output, failure, ok
from noetl.model.playbook import Step
from noetl.ports import ResultStore
from noetl.redaction import MASK
from noetl.worker.payloads import unreadable_failure


class UndoneRun(msgspec.Struct, frozen=True):
    """A run that is undone, as far as its compensation reads it."""

    output: Output
    #: `ctx`, `step`, `iter` and `input` as they were when it ended
    scopes: dict[str, Any]


async def recall_run(record: Event, step: Step, store: ResultStore) -> UndoneRun | Failure:
    """The run that an event recorded; or why it cannot be undone."""
    scopes = {"ctx": {}, "step": {}, "input": {}, **record.payload.get("compensation", {})}
    output = {**_output_of(record), **scopes.pop("output", {})}
    reads = find_undo_reads(step)
    wanted = any(path[0] == "output" and path[1:2] in ((), ("data",)) for path in reads)
    if wanted and output.get("external"):
        try:
            # A payload that a compensation may read does not expire before the execution is over.
            output["data"] = await store.read_expired(output["ref"])
        except NoetlError as error:
            return unreadable_failure(error, "what the run yielded")
    for path in reads:
        # Sent as it is recorded, the mark would be taken for the value.
        seen = msgspec.json.encode(select_paths({**scopes, "output": output}, [path]))
        if MASK.encode() in seen:
            return failure("credential", _REDACTED.format(".".join(path)))
    return UndoneRun({key: value for key, value in output.items() if key != "external"}, scopes)


_REDACTED = (
    "`{}` held a secret when the run ended, and secrets are not recorded: "
    "read it from `keychain` in the compensation instead"
)


def _output_of(record: Event) -> Output:
    """The output of a step run, or of an iteration."""
    if record.name == "step.done":
        found: Output = dict(record.payload["output"])
        return found
    ref = record.payload.get("ref")
    output = {**ok(record.payload.get("data")), "ref": ref}
    return {**output, "external": True} if ref is not None else output
