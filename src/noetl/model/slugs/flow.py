"""Slugs about control: rules, arcs, loops, and what no token can do."""

from noetl.model.slugs.document import make_slug

FLOW = (
    make_slug(
        "loop-over-text",
        title="A loop over text",
        meaning="`loop.in` is a literal text.",
        why="A loop goes over a list: the step would fail.",
        mend='Write a list, or a template that yields one: `"{{ workload.cities }}"`, not `workload.cities`.',
        wrong="""
            - step: start
              loop: {in: "a, b", iterator: x}
              tool: {kind: noop}
        """,
        right="""
            - step: start
              loop: {in: [a, b], iterator: x}
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "endless-jump",
        title="A task that jumps to itself whatever happens",
        meaning="The first rule of a task always holds, and jumps to the task itself.",
        why="Nothing but the limit `max_jumps` ends that.",
        mend="Give the rule a `when`, or put a rule before it that leaves.",
        wrong="""
            - step: start
              tool:
                - name: poll
                  kind: http
                  url: https://api.example.com/job
                  spec: {policy: {rules: [{else: {then: {do: jump, to: poll}}}]}}
        """,
        right="""
            - step: start
              tool:
                - name: poll
                  kind: http
                  url: https://api.example.com/job
                  spec:
                    policy:
                      rules:
                        - {when: "{{ output.data.done }}", then: {do: break}}
                        - else: {then: {do: jump, to: poll}}
        """,
    ),
    make_slug(
        "control-outside-task",
        title="Control words steer tasks only",
        meaning="`do: retry`, `jump` and the others stand in a policy that is not a task's.",
        why="Steps are steered by admission and arcs, loops by their own keys.",
        mend="Move the rule to `spec.policy.rules` of a task.",
        wrong="""
            - step: start
              spec: {policy: {rules: [{when: "{{ true }}", then: {do: retry}}]}}
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool:
                kind: noop
                spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry}}]}}
        """,
    ),
    make_slug(
        "else-not-last",
        title="`else` closes the list",
        meaning="Rules stand below an `else`.",
        why="The first match wins and `else` always matches: what stands below is never read.",
        mend="Move `else` to the end.",
        wrong="""
            - step: start
              tool:
                kind: noop
                spec:
                  policy:
                    rules:
                      - else: {then: {do: continue}}
                      - {when: "{{ output.status == 'error' }}", then: {do: retry}}
        """,
        right="""
            - step: start
              tool:
                kind: noop
                spec:
                  policy:
                    rules:
                      - {when: "{{ output.status == 'error' }}", then: {do: retry}}
                      - else: {then: {do: continue}}
        """,
    ),
    make_slug(
        "arc-payload",
        title="An arc carries no input",
        meaning="`input` stands on an arc.",
        why="A step says itself what it receives; an arc only leads to it.",
        mend="Write the values with the arc's `set` into `ctx.*` and read them in the next step's `input`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: report, input: {total: 1}}]}
            - step: report
              tool: {kind: noop, output: "{{ input.total }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: report, set: {ctx.total: 1}}]}
            - step: report
              input: {total: "{{ ctx.total }}"}
              tool: {kind: noop, output: "{{ input.total }}"}
        """,
    ),
    make_slug(
        "until-in-parallel",
        title="`until` needs one iteration after the other",
        meaning="A parallel loop has `until`.",
        why="Parallel iterations do not end in order, so there is no next one to leave out.",
        mend="Use `complete_when`, or `mode: sequential`.",
        wrong="""
            - step: start
              loop: {in: [1, 2], iterator: n, spec: {mode: parallel, until: "{{ output.data == 1 }}"}}
              tool: {kind: noop, output: "{{ iter.n }}"}
        """,
        right="""
            - step: start
              loop: {in: [1, 2], iterator: n, spec: {mode: sequential, until: "{{ output.data == 1 }}"}}
              tool: {kind: noop, output: "{{ iter.n }}"}
        """,
    ),
    make_slug(
        "unreachable-step",
        title="Nothing leads to this step",
        meaning="No way from the first step gets here.",
        why="It never runs.",
        mend="Add an arc to it, or remove it.",
        wrong="""
            - step: start
              tool: {kind: noop}
            - step: report
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: report}]}
            - step: report
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "unknown-error-kind",
        title="No error has this kind",
        meaning="A condition compares `error.kind` with a word that is none of the kinds of errors.",
        why="`==` would never hold and `!=` always, so the rule or arc does not do what it says.",
        mend="Take the kind or the condition that the message proposes; the reference page on errors lists all kinds. "
        "A plugin declares its own kinds as `error_kinds` of its `KIND`.",
        wrong="""
            - step: start
              tool: {kind: http, url: "https://example.com"}
              next: {arcs: [{step: end, when: "{{ event.error.kind == 'rate_limit' }}"}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: http, url: "https://example.com"}
              next: {arcs: [{step: end, when: "{{ event.error.kind == 'http-status' }}"}]}
            - step: end
        """,
    ),
    make_slug(
        "unhandled-error",
        title="An error may pass unseen",
        meaning="The task has rules, but none that matches every error; what no rule matches goes on as if all were well.",
        why="The tasks behind it would run on data that is not there.",
        mend="Write `on_unmatched: fail` beside `rules`: errors that no rule matches fail the task, and what went well goes on. "
        "Or end the rules with `- {when: \"{{ output.status == 'error' }}\", then: {do: fail}}`. "
        "An `else` that fails is no way out: it matches what went well too.",
        wrong="""
            - step: start
              tool:
                kind: http
                url: "https://example.com/"
                spec: {policy: {rules: [{when: "{{ output.http.status == 503 }}", then: {do: retry}}]}}
        """,
        right="""
            - step: start
              tool:
                kind: http
                url: "https://example.com/"
                spec:
                  policy:
                    on_unmatched: fail
                    rules: [{when: "{{ output.http.status == 503 }}", then: {do: retry}}]
        """,
    ),
    make_slug(
        "arc-shadowed",
        title="An arc above is always taken first",
        meaning="In an exclusive router this arc stands behind one that always applies.",
        why="It is never taken.",
        mend="Give the arc above a `when`, put this one before it, or use `mode: inclusive`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: one}, {step: two}]}
            - step: one
              tool: {kind: noop}
            - step: two
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: two}]}
            - step: one
              tool: {kind: noop}
            - step: two
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "dead-join",
        title="The step waits for ever",
        meaning="Its admission waits for steps that exclude each other, or that run only after it.",
        why="The token stays parked until nothing moves any more, and is then dropped.",
        mend="Wait for one of them (`any_done([…])`, `need: 1`), or take both ways with `mode: inclusive`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: one, when: "{{ workload.n > 1 }}"}, {step: two}]}
            - step: one
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: two
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: both
              spec: {policy: {admit: {rules: [{when: "{{ done('one') and done('two') }}", then: {allow: true}}]}}}
              tool: {kind: noop}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: one, when: "{{ workload.n > 1 }}"}, {step: two}]}
            - step: one
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: two
              tool: {kind: noop}
              next: {arcs: [{step: both}]}
            - step: both
              spec: {policy: {admit: {rules: [{when: "{{ any_done(['one', 'two']) }}", then: {allow: true}}]}}}
              tool: {kind: noop}
        """,
    ),
    make_slug(
        "cycle-without-exit",
        title="A token goes round for ever",
        meaning="The steps lead to each other, and no arc leaves the circle.",
        why="The execution ends only at its limit of step runs.",
        mend="Give one of the arcs a `when`, or add an arc that leaves.",
        wrong="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: again}]}
            - step: again
              tool: {kind: noop}
              next: {arcs: [{step: start}]}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: again}]}
            - step: again
              tool: {kind: noop}
              set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}
              next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}]}
        """,
    ),
)
