"""Keys that people bring along from other tools, and what to write for them here."""

from collections.abc import Mapping

_AFTER = (
    "arcs say what comes next: write `next: {arcs: [{step: THIS_STEP}]}` on the step before; "
    "a step that waits for several has `spec.policy.admit.join`"
)
_CONDITION = (
    "write `when` on the arc that leads here, or `spec: {policy: {admit: {rules: [{when: …, then: {allow: true}}]}}}`"
)
_ERRORS = (
    "write an arc for it: `next: {arcs: [{step: …, when: \"{{ event.status == 'error' }}\"}]}`; "
    "or rules on the task, `spec.policy.rules`"
)
_EACH = "write `loop: {in: …, iterator: item}`"
_RETRY = "write a rule on the task: `spec: {policy: {rules: [{when: …, then: {do: retry, attempts: 3}}]}}`"
_SHELL = "write `tool: {kind: shell, cmd: …}`"
_TASK = "put it on the task, under `tool`"
_CALLS = "write `tool: {kind: playbook, path: …}`, or `tool: {kind: workbook, task: …}`"
_INPUTS = "inputs and their defaults stand under the root key `workload`; their types under `metadata.schema`"
_SCHEDULER = "start the playbook with your scheduler (cron, systemd): `noetl run FILE`; there are no schedules yet"
_WAIT = "write a task `{kind: wait, seconds: …}`"
_SECRETS = "declare credentials under `keychain`"
_CONTINUE = (
    "write a rule: `spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: continue}}]}}`"
)

#: title of a map of the grammar → word → what to write instead
FOREIGN_KEYS: Mapping[str, Mapping[str, str]] = {
    "a step": {
        "timeout": "write `spec: {policy: {lifecycle: {timeout_s: …}}}`; `spec.timeout` bounds a task",
        "timeout_seconds": "write `spec: {policy: {lifecycle: {timeout_s: …}}}`; `spec.timeout` bounds a task",
        **dict.fromkeys(
            ("depends_on", "needs", "after", "upstream", "requires", "dependencies", "trigger_rule"), _AFTER
        ),
        **dict.fromkeys(
            ("downstream", "goto", "next_step", "then", "else"), "write `next: {arcs: [{step: …, when: …}]}`"
        ),
        **dict.fromkeys(
            ("switch", "branches", "branch"), "write one arc for each case: `next: {arcs: [{step: …, when: …}]}`"
        ),
        **dict.fromkeys(("if", "condition", "unless", "cond"), _CONDITION),
        "retries": _RETRY,
        **dict.fromkeys(("on_error", "on_failure", "catch", "except", "continue_on_error", "ignore_errors"), _ERRORS),
        "on_success": "write `next: {arcs: [{step: …}]}`: an arc without `when` is taken on success",
        **dict.fromkeys(("foreach", "for_each", "with_items", "matrix", "map", "iterate"), _EACH),
        "parallel": "write `loop: {…, spec: {mode: parallel}}`, or several arcs with `next: {spec: {mode: inclusive}}`",
        **dict.fromkeys(("run", "script", "command", "cmd", "bash"), _SHELL),
        **dict.fromkeys(("url", "query", "code", "kind", "type", "env", "method"), _TASK),
        **dict.fromkeys(("uses", "use", "call"), _CALLS),
        **dict.fromkeys(("name", "id"), "a step's name is the value of `step`"),
        "with": "write `input`",
        "register": 'write `set: {ctx.NAME: "{{ output.data }}"}`',
        **dict.fromkeys(("wait", "sleep", "delay"), _WAIT),
        **dict.fromkeys(("schedule", "cron"), _SCHEDULER),
        **dict.fromkeys(("concurrency", "priority", "pool", "rate"), "put it under the step's `spec`"),
        "queue": "write `spec: {pool: …}`",
        "finally": "write `spec: {policy: {finally: [tasks]}}`",
        "tags": "labels and tags are of the whole playbook: `metadata.tags`",
    },
    "a task": {
        "retries": "write a rule: `spec: {policy: {rules: [{when: …, then: {do: retry, attempts: 3}}]}}`",
        **dict.fromkeys(("if", "when", "condition"), "write `- choose: [{when: …, then: [tasks]}]` around the task"),
        "register": 'write `set: {ctx.NAME: "{{ output.data }}"}`',
        **dict.fromkeys(("continue_on_error", "ignore_errors", "on_error"), _CONTINUE),
        **dict.fromkeys(("depends_on", "needs"), "tasks run in the order of the list"),
        **dict.fromkeys(("delay", "sleep"), _WAIT),
        "next": "`next` stands on the step, beside `tool`",
    },
    "`metadata`": {
        **dict.fromkeys(("schedule", "cron", "interval", "trigger", "triggers", "start_date", "catchup"), _SCHEDULER),
        **dict.fromkeys(("params", "parameters", "inputs", "env", "variables"), _INPUTS),
        "retries": _RETRY,
        **dict.fromkeys(("email", "slack", "alerts"), "write `on_failure: {webhook: …}`"),
        "on_success": "let the last step report it: a task `{kind: http, …}`",
        "max_active_runs": "limit the steps that must not overlap: `spec.concurrency` of each",
    },
    "a playbook": {
        **dict.fromkeys(("inputs", "params", "parameters", "variables", "env", "config", "settings"), _INPUTS),
        **dict.fromkeys(("steps", "tasks", "jobs", "nodes", "stages"), "write the steps under `workflow`, as a list"),
        **dict.fromkeys(("schedule", "schedules", "cron", "on", "trigger", "triggers"), _SCHEDULER),
        **dict.fromkeys(("secrets", "credentials", "connections"), _SECRETS),
        "defaults": "defaults of steps stand under `executor.spec`, defaults of inputs under `workload`",
        "outputs": "the output of a playbook is that of the step `end`, or of the last step",
        "timeout": "write `lifecycle: {deadline_s: …}` under `spec.policy` of the steps",
        "concurrency": "limit the steps that must not overlap: `spec.concurrency` of each",
        "finally": "write `executor: {spec: {policy: {finally: {step: …}}}}`",
    },
}


def find_foreign(title: str, key: str) -> str | None:
    """What to write for a key of another tool in a map of the grammar; None: it is not known from anywhere."""
    return FOREIGN_KEYS.get("a task" if title.startswith("`kind: ") else title, {}).get(key)
