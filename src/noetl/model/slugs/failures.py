"""The kinds of errors that a run may end with, each explained. Plugins add their own."""

from collections.abc import Mapping
from typing import Final

from noetl.model.slugs.document import Slug, make_slug

_TASK = "Rules and arcs can act on it, by `error.kind`."

_ALL: Final = (
    ("http-status", "An answer of 400 or above", "The service answered, and refused or failed.",
     "Look at `output.http.status` and the body in the error; retry what is `retryable` (408, 425, 429, 5xx)."),
    ("http-transport", "No answer", "There was no connection, it broke off, or the task may not call that host.",
     "Check the address and the network; retry what is `retryable`; `allow_hosts` and `network` say what is allowed."),
    ("sql", "The database refused", "A statement failed, or a value stands where only a plain name can.",
     "Read what the database says; values belong into templates or `params`, never into the text."),
    ("python", "The code raised", "The code of a python task raised an exception, or `main` lacks an argument.",
     "The traceback names the lines of the code in the playbook; `input` fills the parameters of `main`."),
    ("shell", "A command failed", "A command ended with another code than 0, or could not be started.",
     "`exit_code`, `stdout` and `stderr` of the error say more."),
    ("playbook", "A child failed", "A playbook that was called failed, is not there, or has errors.",
     "`noetl show` of the child, whose id is in the error, says why."),
    ("tool-crashed", "The tool broke", "The process of a task ended without a result, or a tool broke.",
     "If it was killed, memory may have run out: see `spec.limits`. What a tool of NoETL does so is worth a report."),
    ("timeout", "Out of time", "A task, a step, a wait or a request took longer than it may.",
     "Raise the key that the message names, or retry."),
    ("cancelled", "It was cancelled", "Somebody, an arc or the end of the caller ended it.",
     "`noetl why` says who."),
    ("template", "A template failed", "A value was missing, or an expression failed while it was evaluated.",
     "The message quotes the expression and the first missing part; `| default(…)` forgives what may be missing."),
    ("type", "A value of the wrong type", "A value came up at run time that is not what its place takes.",
     "The message names the key and what it takes."),
    ("result-not-json", "The result is not JSON", "A result holds something that JSON has no word for.",
     "The message has the path to it; convert it before you return it."),
    ("result", "The result cannot be kept so", "`spec.result` asks for a store or a time that is not there, or the step that `return_step` names did not run.",
     "`store: auto` takes what is there; `ttl` is seconds, or a text such as 24h. `noetl why` of the called playbook says why a step did not run."),
    ("result-expired", "The payload is gone", "A reference leads to a payload whose time has run out, or that was removed.",
     "Raise `spec.result.ttl`, resolve it earlier, or run the step again with `noetl rerun`."),
    ("result-damaged", "The payload was changed", "A stored payload, or a file that a transfer wrote, is not what was written.",
     "`noetl fsck` finds all of them; restore the file, or run the step again with `noetl rerun`."),
    ("payload-too-large", "More than the server may be shown", "What `set` and arcs read of a large output is too large.",
     "Hand on `output.ref` and bring it back with `kind: resolve`, or lift less with `spec.result.select`."),
    ("jump-limit", "Too many jumps", "A pipeline jumped more often than `spec.policy.max_jumps` allows.",
     "Give the jump a condition that ends, or raise the limit."),
    ("retry-exhausted", "Retried until the end", "The attempts of a retry rule were used up, and the last output was ok.",
     "Raise `attempts`, or wait longer between them."),
    ("limit", "A limit was reached", "Memory, processor time, output, processes, step runs, or the depth of calls.",
     "The message names the key that says how much there may be."),
    ("concurrency", "Too many at a time", "`spec.concurrency` let a run of the step not start, or had it make room for another.",
     "`on_limit: queue` has runs wait instead; the error says which `limit` it was, and under which `key`."),
    ("dead-letter", "No worker brings it to an end", "A pipeline was given to several workers in turn, and each died with it or broke.",
     "The message says what became of it the last time; `noetl worker dead` lists all of them."),
    ("credential", "A credential cannot be used", "A credential is missing, incomplete, of another kind, or cannot be read.",
     "The message says which and where it was looked for; `noetl credential add` puts it into the store."),
    ("isolation", "A restriction cannot be kept", "The task may not do something that its kind, or this machine, cannot keep it from.",
     "It was not run. Leave the restriction out, or run it where it can be kept."),
    ("schema", "The schema does not fit", "A value does not fit `spec.validate`, or a child's payload its schema.",
     "The message names the places that do not fit."),
    ("plan-invalid", "The plan has errors", "What `synthesize` was given is no list of valid steps, or has too many, or kinds that are not allowed.",
     "The error holds the diagnostics; `max_steps` and `allow_kinds` say what a plan may have. Nothing of it was run."),
    ("not-resumable", "A transfer cannot go on", "After a crash its source may bring other rows, and a target cannot take back what it has.",
     "Name unique columns in `source.order_by`, or use the mode upsert or replace; then start it again."),
    ("conflict", "Somebody else was first", "What a task wanted to change had changed in the meantime.",
     "Read it again and retry."),
    ("stalled", "Tokens were left", "Nothing could move any more, and a step had not let its tokens in: in a playbook that was called, or under `policy.stalled: fail`.",
     "`noetl why` of the execution that stalled shows the rules with the values they saw, and what a join waited for."),
    ("fail", "A rule or an arc said so", "`do: fail`, `terminate: failed` or `on_no_match: fail`, or a kind that this version cannot run.",
     "`noetl why` shows the rule, or the arcs, with the values that they saw."),
)  # fmt: skip

#: kind of an error → what there is to say about it
FAILURES: Mapping[str, Slug] = {
    kind: make_slug(kind, title=title, meaning=meaning, why=_TASK, mend=mend) for kind, title, meaning, mend in _ALL
}

#: what `error.kind` may be, plugins aside; two kinds are found at load too, and explained there
ERROR_KINDS = frozenset({*FAILURES, "ref-suffix", "ref-deref"})
