"""Slugs about names and templates: names that must be unique or must exist, templates that must parse."""

from noetl.model.slugs.document import make_slug

NAMES = (
    make_slug(
        "steps-status-only",
        title="Only the status of a step is in sight",
        meaning="A template reads something else than `steps.<name>.status` of another step.",
        why="What a step yields travels only as far as somebody carries it: a log that kept all outputs in sight would "
        "grow with every run.",
        mend="Keep what you need with `set` on that step, and read it from `ctx`.",
        wrong="""
            - step: start
              tool: {kind: noop, output: 1}
              next: {arcs: [{step: end}]}
            - step: end
              tool: {kind: noop, output: "{{ steps.start.output.data }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: 1}
              set: {ctx.start: "{{ output.data }}"}
              next: {arcs: [{step: end}]}
            - step: end
              tool: {kind: noop, output: "{{ ctx.start }}"}
        """,
    ),
    make_slug(
        "status-error-text",
        title="The error of a step's status is text",
        meaning="A template reads a key of `steps.<name>.status.error`, which is the message or null.",
        why="Text has no keys: the value would be undefined, and a `when` that compares it would never hold.",
        mend="Read the error as a map from `steps.<name>.status.failure`: `kind`, `message`, `retryable` and more.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "{{ steps.start.status.error.kind == 'http-status' }}"}]}
            - step: end
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "{{ steps.start.status.failure.kind == 'http-status' }}"}]}
            - step: end
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "duplicate-step",
        title="Two steps have the same name",
        meaning="A step of this name stands further up.",
        why="Arcs lead to steps by name; the second one could never be meant.",
        mend="Rename one of the two, and the arcs that lead to it.",
        wrong="""
            - step: start
              tool: {kind: noop}
            - step: start
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: finish}]}
            - step: finish
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "duplicate-task",
        title="Two tasks of a step have the same name",
        meaning="A task of this name stands further up in the same list.",
        why="Jumps and events name tasks; the second one could never be meant.",
        mend="Rename one of the two.",
        wrong="""
            - step: start
              tool: [{name: one, kind: noop}, {name: one, kind: noop}]
        """,
        right="""
            - step: start
              tool: [{name: one, kind: noop}, {name: two, kind: noop}]
        """,
    ),
    make_slug(
        "unknown-step",
        title="There is no such step",
        meaning="An arc, a `cancel`, a helper such as `done('x')`, or `steps.x` names a step that does not exist.",
        why="The arc could never be taken, the condition never hold.",
        mend="Use the name the message proposes, or add the step.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: finsih}]}
            - step: finish
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: finish}]}
            - step: finish
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "unknown-task",
        title="There is no such task",
        meaning="A jump names a task that the step does not have, or a call one that the workbook does not have.",
        why="Control would have nowhere to go.",
        mend="Use the name the message proposes. A jump stays within its step; use an arc to leave it.",
        wrong="""
            - step: start
              tool:
                - {name: fetch, kind: noop}
                - name: check
                  kind: noop
                  spec: {policy: {rules: [{when: "{{ ctx.more }}", then: {do: jump, to: fetsh}}]}}
              set: {ctx.more: false}
        """,
        right="""
            - step: start
              tool:
                - {name: fetch, kind: noop}
                - name: check
                  kind: noop
                  spec: {policy: {rules: [{when: "{{ ctx.more }}", then: {do: jump, to: fetch}}]}}
              set: {ctx.more: false}
        """,
    ),
    make_slug(
        "unknown-credential",
        title="The keychain does not declare this credential",
        meaning="A task's `auth`, or a template, names a credential that `keychain` does not list, or a part that "
        "its kind does not have; or an entry names a provider that is nearly a known one.",
        why="Credentials are resolved before the first step; one that is not declared is not there.",
        mend="Add it to `keychain`.",
        wrong="""
            workflow:
              - step: start
                tool: {kind: postgres, auth: pg_main, query: SELECT 1}
        """,
        right="""
            keychain: [{name: pg_main, kind: postgres_credential}]
            workflow:
              - step: start
                tool: {kind: postgres, auth: pg_main, query: SELECT 1}
        """,
    ),
    make_slug(
        "join-unknown",
        title="A join and its arcs do not agree",
        meaning="`join.from` names a step that has no arc here, or leaves one out that has.",
        why="The join would wait for a token that never comes, or have no place for one that does.",
        mend="List exactly the steps whose arcs lead here.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: both
              spec: {policy: {admit: {join: {from: [start, other]}}}}
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: both
              spec: {policy: {admit: {join: {from: [start]}}}}
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "empty-step",
        title="The step does nothing and leads nowhere",
        meaning="A step has `tool`, `next`, or both; only one named `end` needs neither.",
        why="It is most likely not finished.",
        mend="Add `tool` or `next`, or remove the step.",
        wrong="""
            - step: start
        """,
        right="""
            - step: start
              tool: {kind: noop}
        """,
    ),
)


# Slugs about templates: that they parse, and use names and filters that exist.


TEMPLATES = (
    make_slug(
        "template-syntax",
        title="The template cannot be parsed",
        meaning="What stands between `{{` and `}}` is not a Jinja2 expression, or it has more than 100,000 characters.",
        why="It could not be evaluated.",
        mend="Close brackets and quotes, and check the operators.",
        wrong="""
            - step: start
              tool: {kind: noop, output: "{{ 1 + }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: "{{ 1 + 1 }}"}
        """,
    ),
    make_slug(
        "template-in-when",
        title="A `when` is one expression",
        meaning="A condition is exactly one `{{ … }}`, or a literal true or false.",
        why="Any other text is never empty, so it would always hold.",
        mend="Put the whole condition into one `{{ … }}`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "workload.n > 1"}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "{{ workload.n > 1 }}"}]}
            - step: end
        """,
    ),
    make_slug(
        "unknown-scope",
        title="This name is not known here",
        meaning="The template reads a name or calls a function that does not exist at this place.",
        why="It would be undefined whenever it is evaluated.",
        mend="Say which scope is meant: `workload.x`, `ctx.x`, `input.x` … Data of another step must be published with `set`.",
        wrong="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ city }}"}
        """,
        right="""
            workload: {city: Ulm}
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ workload.city }}"}
        """,
    ),
    make_slug(
        "uncalled-function",
        title="A function is named, not called",
        meaning="The template reads `now`, `uuid`, `range`, `done` … as if it were a value.",
        why="A function is no data. It cannot be passed on or stored, and as a condition it would always hold, or never.",
        mend="Call it: `now()`, `uuid()`, `range(3)`, `done('a_step')`.",
        wrong="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ now }}"}
        """,
        right="""
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ now() }}"}
        """,
    ),
    make_slug(
        "unknown-filter",
        title="There is no such filter",
        meaning="The template uses a filter or test that does not exist.",
        why="It could not be evaluated.",
        mend="Use one of Jinja2's own, or `to_json`, `from_json`, `sha256`, `b64encode`, `b64decode`, `jsonpath`.",
        wrong="""
            - step: start
              tool: {kind: noop, output: "{{ 'a' | uper }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: "{{ 'a' | upper }}"}
        """,
    ),
)
