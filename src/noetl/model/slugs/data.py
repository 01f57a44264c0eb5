"""Slugs about data: what may be read and written where, references, secrets, text spliced in raw."""

from noetl.model.slugs.document import make_slug

DATA = (
    make_slug(
        "undeclared-input",
        title="An input that the playbook does not declare",
        meaning="A template reads a key of `workload` that the playbook's own `workload` does not have.",
        why="It may be misspelt. If only the payload brings it, a run without that payload fails.",
        mend="Correct the name, or declare the input with its default. One that may be left out can have `| default(…)`.",
        wrong="""
            workload: {city: Oslo}
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ workload.country }}"}
        """,
        right="""
            workload: {city: Oslo}
            workflow:
              - step: start
                tool: {kind: noop, output: "{{ workload.city }}"}
        """,
    ),
    make_slug(
        "template-in-workload",
        title="A template among the inputs is data",
        meaning="A default of `workload` has `{{ … }}` in it.",
        why="Inputs are data and are never rendered: whoever reads this one gets the braces.",
        mend="Write the template where the value is used, or `set` a key of `ctx` in the first step.",
        wrong="""
            workload: {host: localhost, url: "http://{{ workload.host }}/"}
            workflow:
              - step: start
                tool: {kind: http, url: "{{ workload.url }}"}
        """,
        right="""
            workload: {host: localhost}
            workflow:
              - step: start
                tool: {kind: http, url: "http://{{ workload.host }}/"}
        """,
    ),
    make_slug(
        "url-without-scheme",
        title="An address without `http://` or `https://`",
        meaning="The `url` of an `http` task is a literal that begins with neither.",
        why="Nobody can tell how to get there: the task would fail.",
        mend="Write the scheme in front.",
        wrong="""
            - step: start
              tool: {kind: http, url: api.example.com/orders}
        """,
        right="""
            - step: start
              tool: {kind: http, url: "https://api.example.com/orders"}
        """,
    ),
    make_slug(
        "python-syntax",
        title="The code is not Python",
        meaning="Python cannot parse the `code` of a task.",
        why="The task would fail whenever it runs.",
        mend="Correct the line. Code is never a template: pass values through `input`.",
        wrong="""
            - step: start
              tool: {kind: python, code: "result = (1 +"}
        """,
        right="""
            - step: start
              tool: {kind: python, code: "result = (1 + 1)"}
        """,
    ),
    make_slug(
        "template-in-code",
        title="A template in code",
        meaning="The `code` of a task holds what looks like a template of the playbook.",
        why="Code is never a template: nothing is put in its place, and the task goes on with the braces as its data.",
        mend="Give the value by `input`, and use its name in the code: a parameter of `main`, or a variable.",
        wrong="""
            workload: {city: Ulm}
            workflow:
              - step: start
                tool: {kind: python, code: "result = '{{ workload.city }}'.upper()"}
        """,
        right="""
            workload: {city: Ulm}
            workflow:
              - step: start
                tool: {kind: python, input: {city: "{{ workload.city }}"}, code: "result = city.upper()"}
        """,
    ),
    make_slug(
        "missing-argument",
        title="`main` asks for something `input` does not give",
        meaning="A parameter of `main` has no default, and no key of the step's or the task's `input` has its name.",
        why="The call would fail for want of an argument.",
        mend="Add the key to `input`, or give the parameter a default.",
        wrong="""
            - step: start
              tool: {kind: python, code: "def main(n): return n"}
        """,
        right="""
            - step: start
              tool: {kind: python, input: {n: 1}, code: "def main(n): return n"}
        """,
    ),
    make_slug(
        "returns-nothing",
        title="The code returns nothing",
        meaning="The code has no `def main`, no `return` at its top level, and never assigns `result`.",
        why="What it computes is lost: `output.data` is null.",
        mend="Write a `def main(…)` that returns the value, or assign it to `result`.",
        wrong="""
            - step: start
              tool: {kind: python, code: "total = 1 + 1"}
        """,
        right="""
            - step: start
              tool: {kind: python, code: "result = 1 + 1"}
        """,
    ),
    make_slug(
        "set-target",
        title="This cannot be written",
        meaning="`set` writes `ctx.*`, `step.*` and, in a loop, `iter.*`; nothing else. The engine writes `iter.index`, "
        "`iter.parent` and the item. Two targets of one `set` may not lie within each other.",
        why="`workload` never changes, and `output` belongs to the tool. All values of one `set` are written at once.",
        mend="Write to `ctx.<name>`; reshape an output with `output:`; write nested targets as one map.",
        wrong="""
            - step: start
              tool: {kind: noop}
              set: {workload.done: true}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              set: {ctx.done: true}
        """,
    ),
    make_slug(
        "set-under-spec",
        title="`set` cannot stand under `spec`",
        meaning="`spec` says how something runs; `set` writes data.",
        why="It would not be read there.",
        mend="Move it beside `tool`, onto a task, into a rule's `then`, or onto an arc.",
        wrong="""
            - step: start
              tool: {kind: noop}
              spec: {set: {ctx.done: true}}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              set: {ctx.done: true}
        """,
    ),
    make_slug(
        "iter-outside-loop",
        title="`iter` exists only inside of a loop",
        meaning="The step has no loop, or this is evaluated once for the whole loop.",
        why="There is no iteration whose value could be meant.",
        mend="Write `ctx.*` or `step.*`; in a loop, move it to a task.",
        wrong="""
            - step: start
              tool: {kind: noop, set: {iter.page: 1}}
        """,
        right="""
            - step: start
              tool: {kind: noop, set: {step.page: 1}}
        """,
    ),
    make_slug(
        "parallel-ctx-write",
        title="Parallel iterations would overwrite each other",
        meaning="A task in a parallel loop writes `ctx` without a reducer.",
        why="Which iteration wins would depend on timing.",
        mend="Name a reducer under `loop.spec.policy.reduce`, or write `iter.*`.",
        wrong="""
            - step: start
              loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
              tool: {kind: noop, set: {ctx.total: "{{ iter.n }}"}}
        """,
        right="""
            - step: start
              loop: {in: [1, 2], iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.total: sum}}}}
              tool: {kind: noop, set: {ctx.total: "{{ iter.n }}"}}
        """,
    ),
    make_slug(
        "ref-suffix",
        title="Names of references end in `_ref`",
        meaning="A name that ends in `_ref` holds a reference to a stored payload, and no other name does.",
        why="A reader must see whether a name is the data or the way to it.",
        mend="Add or remove the ending, or assign `output.data`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              set: {ctx.rows: "{{ output.ref }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop}
              set: {ctx.rows_ref: "{{ output.ref }}"}
        """,
    ),
    make_slug(
        "ref-deref",
        title="A reference is not its payload",
        meaning="A template reaches through a reference for data that is stored elsewhere.",
        why="A reference shows only `type`, `locator`, `auth_reference` and `meta`.",
        mend="Bring the payload back with a `kind: resolve` task, or publish the value itself with `set`.",
        wrong="""
            - step: start
              tool: {kind: noop}
              set: {ctx.total: "{{ output.ref.total }}"}
        """,
        right="""
            - step: start
              tool: {kind: noop, output: {total: 1}}
              set: {ctx.total: "{{ output.data.total }}"}
        """,
    ),
    make_slug(
        "secret-escape",
        title="A secret may not leave the task that uses it",
        meaning="`keychain` is read where its value would be stored, routed on, or shown.",
        why="What `set`, `output` and conditions see goes into the event log.",
        mend="Read it in a task's `auth`, `input` or own keys.",
        wrong="""
            keychain: [{name: api, kind: bearer}]
            workflow:
              - step: start
                tool: {kind: noop}
                set: {ctx.token: "{{ keychain.api.token }}"}
        """,
        right="""
            keychain: [{name: api, kind: bearer}]
            workflow:
              - step: start
                tool: {kind: http, url: "https://example.com/", auth: api}
        """,
    ),
    make_slug(
        "secret-in-plain",
        title="This looks like a credential in plain text",
        meaning="The name or the form of the value is that of a password, a token or a key.",
        why="Playbooks are shared, versioned and shown.",
        mend="Declare it under `keychain` and read it from there.",
        wrong="""
            workload: {api_key: 8f14e45fceea167a}
            workflow:
              - step: start
                tool: {kind: http, url: "https://example.com/", params: {key: "{{ workload.api_key }}"}}
        """,
        right="""
            keychain: [{name: api, kind: bearer}]
            workflow:
              - step: start
                tool: {kind: http, url: "https://example.com/", auth: api}
        """,
    ),
    make_slug(
        "never-set",
        title="Nothing writes this",
        meaning="A template reads a key of `ctx` that no `set` of the playbook writes, or one of `iter` that is neither the "
        "loop's own nor written by a `set` of the step.",
        why="It is undefined unless something outside writes it; most often the name is misspelt.",
        mend="Write it with `set`, or use the name the message proposes.",
        wrong="""
            - step: start
              tool: {kind: noop}
              set: {ctx.total: 1}
              next: {arcs: [{step: end, when: "{{ ctx.totl > 0 }}"}]}
            - step: end
        """,
        right="""
            - step: start
              tool: {kind: noop}
              set: {ctx.total: 1}
              next: {arcs: [{step: end, when: "{{ ctx.total > 0 }}"}]}
            - step: end
        """,
    ),
    make_slug(
        "unknown-name",
        title="There is no such name",
        meaning="A template reads `workload.x`, and only a name very like it is known; or a part that no `output` has.",
        why="It would be undefined, and in a `when` that means: never.",
        mend="Use the name the message proposes, or declare the one you mean.",
        wrong="""
            workload: {greeting: Hello}
            workflow:
              - {step: start, tool: {kind: noop, output: "{{ workload.greting }}"}}
        """,
        right="""
            workload: {greeting: Hello}
            workflow:
              - {step: start, tool: {kind: noop, output: "{{ workload.greeting }}"}}
        """,
    ),
    make_slug(
        "unused-input",
        title="Nothing reads this input",
        meaning="A key of `input` that no template and no tool uses.",
        why="Most often it is misspelt on one of the two sides.",
        mend="Remove it, or read it as `input.<name>`.",
        wrong="""
            - step: start
              input: {city: Ulm}
              tool: {kind: noop}
        """,
        right="""
            - step: start
              input: {city: Ulm}
              tool: {kind: noop, output: "{{ input.city }}"}
        """,
    ),
    make_slug(
        "sql-statement",
        title="A statement that is only a template",
        meaning="Templates in SQL are bound as values, and a value alone is no statement.",
        why="The database would refuse it, whatever the value is.",
        mend="Write the statement in the playbook and bind its values. If the value is meant to be the statement, write "
        "`{{ … | sql }}`, and make sure that nobody else can set it.",
        wrong="""
            - step: start
              tool: {kind: duckdb, query: "{{ workload.statement }}"}
        """,
        right="""
            - step: start
              tool: {kind: duckdb, query: "SELECT * FROM t WHERE id = {{ workload.id }}"}
        """,
    ),
    make_slug(
        "sql-unbound",
        title="Text is spliced into SQL",
        meaning="`| sql` puts the value into the statement as it is; without it, values are bound.",
        why="Whoever controls the value controls the database.",
        mend="Leave the filter out, or make sure that nobody else can set the value.",
        wrong="""
            - step: start
              tool: {kind: duckdb, query: "SELECT {{ workload.columns | sql }} FROM t"}
        """,
        right="""
            - step: start
              tool: {kind: duckdb, query: "SELECT * FROM t WHERE id = {{ workload.id }}"}
        """,
    ),
    make_slug(
        "shell-unquoted",
        title="Text is spliced into a command",
        meaning="`| raw` puts the value into the command as it is; without it, it stands for one word.",
        why="Whoever controls the value controls the shell.",
        mend="Leave the filter out, or make sure that nobody else can set the value.",
        wrong="""
            - step: start
              tool: {kind: shell, cmd: "ls {{ workload.options | raw }}"}
        """,
        right="""
            - step: start
              tool: {kind: shell, cmd: "ls {{ workload.folder }}"}
        """,
    ),
    make_slug(
        "no-effect",
        title="The key has no effect here",
        meaning="The key is known and says nothing where it stands: it belongs to another word (`attempts` to `do: retry`), "
        "to a loop, or to another kind of task (`limits` to one with a process of its own).",
        why="A key that is accepted has an effect. Otherwise you would count on a retry or a limit that is not there.",
        mend="Write what the message says beside it, or remove it. What is meant for other tasks belongs into `executor.spec`.",
        wrong="""
            - step: start
              tool: {kind: noop, spec: {limits: {memory_mb: 100}}}
        """,
        right="""
            - step: start
              tool: {kind: shell, cmd: "true", spec: {limits: {memory_mb: 100}}}
        """,
    ),
    make_slug(
        "not-kept",
        title="A restriction that cannot be kept",
        meaning="A task may not use the network (`network: off`, `allow_hosts`, `isolation: strict`), and its kind, or "
        "an end of its transfer, cannot do without.",
        why="A task never runs with less restriction than it was meant to have, so it would fail with `isolation`.",
        mend="Say `network: on` beside `isolation: strict`, or give the restriction to the steps that it is meant for.",
        wrong="""
            - step: start
              spec: {network: "off"}
              tool:
                kind: transfer
                source: {kind: http, url: "https://api.example.com/rows"}
                targets: [{kind: file, path: rows.json}]
        """,
        right="""
            - step: start
              spec: {allow_hosts: [api.example.com]}
              tool:
                kind: transfer
                source: {kind: http, url: "https://api.example.com/rows"}
                targets: [{kind: file, path: rows.json}]
        """,
    ),
)
