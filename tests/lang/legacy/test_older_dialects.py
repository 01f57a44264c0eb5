"""Older dialects, row by row: what a playbook becomes, what is said about it, and that the result is clean."""

import textwrap
from typing import NamedTuple

import pytest

from noetl.lang.legacy import migrate
from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()
#: of grade v10: they still run
V10 = frozenset({"legacy-args", "legacy-arc-args", "legacy-outcome", "legacy-set-ctx", "legacy-set-iter"})
PG = "keychain: [{name: pg, kind: postgres_credential}]\n"


class Row(NamedTuple):
    """One row of the tables: before, after, and the slugs (without `legacy-`)."""

    name: str
    before: str
    after: str
    slugs: str


def document(text: str) -> str:
    text = textwrap.dedent(text).lstrip("\n").replace("]\n\nworkflow", "]\nworkflow")
    if text.startswith("apiVersion"):
        return text
    return HEAD + (text if "workflow:" in text else "workflow:\n" + textwrap.indent(text, "  "))


OLDER = [
    Row("args", """
        - step: a
          args: {x: 1}
          tool: {kind: shell, args: {y: "{{ input.x }}"}, cmd: echo}
        """, """
        - step: a
          input: {x: 1}
          tool: {kind: shell, input: {y: "{{ input.x }}"}, cmd: echo}
        """, "args"),
    Row("args of arcs, with several predecessors", """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: b, args: {k: "{{ output.data }}"}}, {step: c, when: "{{ event.error }}"}]}
        - step: c
          tool: {kind: noop}
          next: {arcs: [{step: b, args: {k: 2}, set: {ctx.z: 1}}]}
        - step: b
          tool: {kind: shell, input: {k: "{{ args.k }}"}, cmd: echo}
          next: {arcs: [{step: end, when: "{{ args.k > 1 }}"}]}
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: b, set: {ctx.b_k: "{{ output.data }}"}}, {step: c, when: "{{ event.error }}"}]}
        - step: c
          tool: {kind: noop}
          next: {arcs: [{step: b, set: {ctx.z: 1, ctx.b_k: 2}}]}
        - step: b
          input: {k: "{{ ctx.b_k }}"}
          tool: {kind: shell, input: {k: "{{ input.k }}"}, cmd: echo}
          next: {arcs: [{step: end, when: "{{ input.k > 1 }}"}]}
        - step: end
        """, "arc-args"),
    Row("args of arcs, read in the loop and in admission", """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: c-d, args: {k: [1]}}]}
        - step: c-d
          loop: {in: "{{ args.k }}", iterator: i}
          spec: {policy: {admit: {rules: [{when: "{{ args.k }}", then: {allow: true}}]}}}
          tool: {kind: noop, output: "{{ args.k }}"}
        """, """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: c-d, set: {ctx.c_d_k: [1]}}]}
        - step: c-d
          input: {k: "{{ ctx.c_d_k }}"}
          loop: {in: "{{ ctx.c_d_k }}", iterator: i}
          spec: {policy: {admit: {rules: [{when: "{{ ctx.c_d_k }}", then: {allow: true}}]}}}
          tool: {kind: noop, output: "{{ input.k }}"}
        """, "arc-args"),
    Row("outcome", """
        - step: a
          tool: {kind: python, code: "result = 1"}
          set: {ctx.r: "{{ outcome.result.x }}", ctx.s: "{{ outcome.status }}", ctx.e: "{{ outcome.error.kind }}"}
        """, """
        - step: a
          tool: {kind: python, code: "result = 1"}
          set: {ctx.r: "{{ output.data.x }}", ctx.s: "{{ output.status }}", ctx.e: "{{ output.error.kind }}"}
        """, "outcome"),
    Row("outcome of http", """
        - step: a
          tool: {kind: http, url: x}
          set: {ctx.r: "{{ outcome.result.data.k }}", ctx.s: "{{ outcome.result.status }}"}
        """, """
        - step: a
          tool: {kind: http, url: x}
          set: {ctx.r: "{{ output.data.k }}", ctx.s: "{{ output.http.status }}"}
        """, "outcome"),
    Row("set_ctx and set_iter", """
        - step: a
          loop: {in: [1], iterator: x}
          tool: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: continue, set_iter: {n: 1}}}]}}}
          set_ctx: {z: 1, ctx.y: 2}
        """, """
        - step: a
          loop: {in: [1], iterator: x}
          tool: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: continue, set: {iter.n: 1}}}]}}}
          set: {ctx.z: 1, ctx.y: 2}
        """, "set-ctx set-iter"),
    Row("set_ctx beside set", """
        - step: a
          tool: {kind: noop}
          set: {ctx.a: 1}
          set_ctx: {b: 2}
        """, """
        - step: a
          tool: {kind: noop}
          set: {ctx.a: 1, ctx.b: 2}
        """, "set-ctx"),
    Row("success and result_ref", """
        - step: a
          tool: {kind: noop}
          set: {ctx.a_ref: "{{ outcome.result_ref }}"}
          next: {arcs: [{step: end, when: "{{ outcome.status == 'success' }}"}]}
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          set: {ctx.a_ref: "{{ output.ref }}"}
          next: {arcs: [{step: end, when: "{{ output.status == 'ok' }}"}]}
        - step: end
        """, "outcome outcome-success result-ref"),
    Row("set_vars, set_shared and set_prev", """
        - step: a
          tool:
            - name: x
              kind: noop
              spec: {policy: {rules: [{else: {then: {set_vars: {p: 1}, set_shared: {q: 2}, set_prev: 3}}}]}}
            - {name: y, kind: noop, output: "{{ vars.p }} {{ _prev }} {{ ctx.q }}"}
        """, """
        - step: a
          tool:
            - name: x
              kind: noop
              spec: {policy: {rules: [{else: {then: {set: {step.p: 1, ctx.q: 2}}}}]}}
              output: 3
            - {name: y, kind: noop, output: "{{ step.p }} {{ _prev }} {{ ctx.q }}"}
        """, "set-vars set-shared set-prev vars"),
    Row("vars of the root", """
        vars: {k: 1}
        workflow:
          - {step: a, tool: {kind: noop, output: "{{ vars.k }}"}}
        """, """
        workload: {k: 1}
        workflow:
          - {step: a, tool: {kind: noop, output: "{{ workload.k }}"}}
        """, "vars"),
    Row("vars of the root, beside a workload", """
        workload: {n: 1}
        vars: {k: 1}
        workflow:
          - {step: a, tool: {kind: noop, output: "{{ vars.k }} {{ workload.n }}"}}
        """, """
        workload: {n: 1, k: 1}
        workflow:
          - {step: a, tool: {kind: noop, output: "{{ workload.k }} {{ workload.n }}"}}
        """, "vars"),
    Row("eval with else", """
        - step: a
          tool:
            kind: http
            url: x
            eval:
              # again
              - expr: "{{ output.error.retryable }}"
                do: retry
                attempts: 5
              - else: {do: continue}
        """, """
        - step: a
          tool:
            kind: http
            url: x
            spec:
              policy:
                rules:
                  # again
                  - when: "{{ output.error.retryable }}"
                    then: {do: retry, attempts: 5}
                  - else: {then: {do: continue}}
        """, "eval"),
    Row("eval without else: an error that nothing matches fails", """
        - step: a
          tool:
            kind: http
            url: x
            eval: [{expr: "{{ output.http.status == 404 }}", do: break}]
        """, """
        - step: a
          tool:
            kind: http
            url: x
            spec:
              policy:
                on_unmatched: fail
                rules: [{when: "{{ output.http.status == 404 }}", then: {do: break}}]
        """, "eval"),
    Row("when of a step", """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: b}]}
        - step: b
          when: "{{ done('a') }}"
          tool: {kind: noop}
        """, """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: b}]}
        - step: b
          tool: {kind: noop}
          spec:
            policy:
              admit:
                rules:
                  - when: "{{ done('a') }}"
                    then: {allow: true}
        """, "step-when"),
    Row("when of a step in the oldest dialect: once", """
        - step: a
          when: "{{ context.workload.k }}"
          tool: {kind: noop}
        """, """
        - step: a
          tool: {kind: noop}
          spec:
            policy:
              admit:
                rules:
                  - when: "{{ workload.k }}"
                    then: {allow: true}
                fire: once
        """, "step-when context"),
    Row("next as a list fans out", """
        - step: a
          tool: {kind: noop}
          next: [b, {step: end}]
        - step: b
          tool: {kind: noop}
          next: end
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          next:
            spec: {mode: inclusive}
            arcs:
              - {step: b}
              - {step: end}
        - step: b
          tool: {kind: noop}
          next:
            arcs:
              - {step: end}
        - step: end
        """, "next-list"),
    Row("next as a list with conditions, and next_mode", """
        - step: a
          tool: {kind: noop}
          next: [{step: b, when: "{{ output.data }}"}, {step: end}]
        - step: b
          spec: {next_mode: inclusive}
          tool: {kind: noop}
          next: {arcs: [{step: end}]}
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          next:
            arcs: [{step: b, when: "{{ output.data }}"}, {step: end}]
        - step: b
          tool: {kind: noop}
          next: {spec: {mode: inclusive}, arcs: [{step: end}]}
        - step: end
        """, "next-list next-mode"),
    Row("loops", """
        - step: a
          loop:
            # over all
            collection: "{{ workload.cs }}"
            element: c
            mode: parallel
          tool: {kind: shell, input: {c: "{{ c }}", i: "{{ c.name }}"}, cmd: echo}
          next: {arcs: [{step: b}]}
        - step: b
          loop: {collection: "{{ workload.cs }}", element: c, until: "{{ c > 2 }}"}
          tool: {kind: noop}
        """, """
        - step: a
          loop:
            # over all
            in: "{{ workload.cs }}"
            iterator: c
            spec: {mode: parallel}
          tool: {kind: shell, input: {c: "{{ iter.c }}", i: "{{ iter.c.name }}"}, cmd: echo}
          next: {arcs: [{step: b}]}
        - step: b
          loop: {in: "{{ workload.cs }}", iterator: c, spec: {until: "{{ iter.c > 2 }}"}}
          tool: {kind: noop}
        """, "loop-collection loop-element loop-mode loop-until bare-name"),
    Row("the iterator type", """
        workload: {xs: []}
        workflow:
          - step: a
            tool: {kind: iterator, collection: "{{ workload.xs }}", element: x, task: {kind: http, url: "{{ x }}"}}
        """, """
        workload: {xs: []}
        workflow:
          - step: a
            loop: {in: "{{ workload.xs }}", iterator: x}
            tool: {kind: http, url: "{{ iter.x }}"}
        """, "iterator loop-collection loop-element bare-name"),
    Row("elements of nested loops, in SQL with white space control", """
        keychain: [{name: pg, kind: postgres_credential}]
        workload: {a: [], tbl: t}
        workflow:
          - step: a
            loop: {in: "{{ workload.a }}", iterator: x, loop: {in: "{{ x.ys }}", iterator: y}}
            tool:
              kind: postgres
              auth: pg
              query: |
                SELECT {{ y.id }} FROM {{ tbl }}
                WHERE x = '{{ x.id }}' {%- if y.ok -%} AND a {%- endif %}
        """, """
        keychain: [{name: pg, kind: postgres_credential}]
        workload: {a: [], tbl: t}
        workflow:
          - step: a
            loop: {in: "{{ workload.a }}", iterator: x, loop: {in: "{{ iter.x.ys }}", iterator: y}}
            tool:
              kind: postgres
              auth: pg
              query: |
                SELECT {{ iter.y.id }} FROM {{ workload.tbl }}
                WHERE x = '{{ iter.parent.x.id }}' {%- if iter.y.ok -%} AND a {%- endif %}
        """, "bare-name"),
    Row("context", """
        workload: {k: 1}
        workflow:
          - {step: a, tool: {kind: noop}, set: {ctx.n: 1}, next: {arcs: [{step: b}]}}
          - step: b
            tool: {kind: noop, output: "{{ context.n }} {{ context['n'] }} {{ context.workload.k }}"}
        """, """
        workload: {k: 1}
        workflow:
          - {step: a, tool: {kind: noop}, set: {ctx.n: 1}, next: {arcs: [{step: b}]}}
          - step: b
            tool: {kind: noop, output: "{{ ctx.n }} {{ ctx['n'] }} {{ workload.k }}"}
        """, "context"),
    Row("result of a step", """
        - step: a
          tool: {kind: noop}
          result: r
          next: {arcs: [{step: b}]}
        - {step: b, tool: {kind: noop, output: "{{ r.x }}"}}
        """, """
        - step: a
          tool: {kind: noop}
          set: {ctx.r: "{{ output.data }}"}
          next: {arcs: [{step: b}]}
        - {step: b, tool: {kind: noop, output: "{{ ctx.r.x }}"}}
        """, "result bare-name"),
    Row("result.as and bind", """
        - step: a
          tool: {kind: noop}
          result: {as: r}
          bind: {q: {path: result.data.k}, w: {}}
        """, """
        - step: a
          tool: {kind: noop}
          set:
            ctx.r: "{{ output.data }}"
            ctx.q: "{{ output.data.k }}"
            ctx.w: "{{ output.data }}"
        """, "result bind"),
    Row("result.pick and collect of a tool", """
        - step: a
          loop: {in: [1], iterator: x}
          tool: {kind: noop, result: {pick: "{{ output.data.x }}", collect: {into: all}}}
          next: {arcs: [{step: b}]}
        - step: b
          loop: {in: [1], iterator: x, spec: {mode: parallel}}
          tool: {kind: noop, result: {collect: {into: both, mode: merge}}}
        """, """
        - step: a
          loop: {in: [1], iterator: x}
          tool: {kind: noop, output: "{{ output.data.x }}"}
          set: {ctx.all: "{{ output.data }}"}
          next: {arcs: [{step: b}]}
        - step: b
          loop: {in: [1], iterator: x, spec: {mode: parallel, policy: {reduce: {ctx.both: merge}}}}
          tool: {kind: noop, set: {ctx.both: "{{ output.data }}"}}
        """, "result collect"),
    Row("sinks: rows, one row, map form, storage, status", PG + """
workflow:
  - step: a
    tool:
      kind: http
      url: x
      result: resp
      # where it goes
      sink:
        - {storage: file, path: "x/{{ this.status }}.json", on_error: warn}
        - {postgres: {auth: pg, table: t, args: {id: "{{ resp.data.id }}", raw: "{{ resp.data }}"}}}
""", PG + """
workflow:
  - step: a
    tool:
      - name: a
        kind: http
        url: x
      # where it goes
      - name: a_sink
        kind: transfer
        source: {kind: data, data: "{{ output.data }}"}
        targets:
          - {kind: file, path: "x/{{ output.http.status }}.json", on_error: warn}
        output: "{{ _prev }}"
      - name: a_sink_2
        kind: transfer
        source:
          kind: data
          data:
            - {id: "{{ output.data.id }}", raw: "{{ output.data }}"}
        targets:
          - {kind: postgres, auth: pg, table: t}
        output: "{{ _prev }}"
""", "sink result"),
    Row("save with a mapping of rows", PG + """
workflow:
  - step: a
    tool: {kind: http, url: x, save: {kind: postgres, auth: pg, table: t, mapping: {id: "{{ this.id }}"}}}
""", PG + """
workflow:
  - step: a
    tool:
      - {name: a, kind: http, url: x}
      - name: a_sink
        kind: transfer
        source: {kind: data, data: "{{ output.data }}"}
        targets:
          - kind: postgres
            auth: pg
            table: t
            mapping: {id: "{{ row.id }}"}
        output: "{{ _prev }}"
""", "save"),
    Row("chunks of a database tool", PG + """
workflow:
  - step: a
    tool:
      kind: postgres
      auth: pg
      query: SELECT 1
      chunk: {size: 10}
      result: rows
      sink: [{kind: postgres, auth: pg, table: t, mapping: {id: "{{ rows.id }}"}}]
""", PG + """
workflow:
  - step: a
    tool:
      kind: transfer
      source: {kind: postgres, auth: pg, query: SELECT 1}
      chunk: {size: 10}
      targets:
        - kind: postgres
          auth: pg
          table: t
          mapping: {id: "{{ row.id }}"}
""", "chunk result"),
    Row("chunks of a value in hand", """
        - step: a
          tool: {kind: http, url: x, chunk: {size: 5, path: items}, sink: {kind: file, path: out.json}}
        """, """
        - step: a
          tool:
            - {name: a, kind: http, url: x}
            - name: a_sink
              kind: transfer
              source: {kind: data, data: "{{ output.data }}", path: $.items}
              chunk: {size: 5}
              targets:
                - {kind: file, path: out.json}
              output: "{{ _prev }}"
        """, "sink"),
    Row("retry of a step", """
        - step: a
          retry: {max_attempts: 4, initial_delay: 2, backoff: exponential}
          tool: {kind: http, url: u}
        """, """
        - step: a
          tool:
            kind: http
            url: u
            spec:
              policy:
                on_unmatched: fail
                rules:
                  - when: "{{ output.status == 'error' }}"
                    then: {do: retry, attempts: 4, backoff: exponential, delay: 2}
        """, "retry"),
    Row("the configuration of a v1 tool", """
        - step: a
          tool: {type: http, spec: {endpoint: u, payload: {a: 1}, timeout: 5}, method: POST}
        """, """
        - step: a
          tool: {kind: http, url: u, json: {a: 1}, spec: {timeout: 5}, method: POST}
        """, "type tool-spec endpoint payload"),
    Row("a v1 document", """\
        apiVersion: noetl.io/v1
        kind: Playbook
        metadata: {name: t}
        workflow:
          - step: a
            type: http
            url: u
            data: {q: 1}
          - {step: end}
        """, """\
        apiVersion: noetl.io/v2
        kind: Playbook
        metadata: {name: t}
        workflow:
          - step: a
            tool:
              kind: http
              url: u
              params: {q: 1}
          - {step: end}
        """, "v1 type data"),
    Row("the status of a step", """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: end, when: "{{ step.a.status.done }}"}]}
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: end, when: "{{ steps.a.status.done }}"}]}
        - step: end
        """, "step-status"),
    Row("the name of a task in a list", """
        workbook: {w: {kind: noop}}
        workflow:
          - step: a
            tool: [{name: w, kind: workbook}, {name: s, kind: secrets, provider: env}]
        """, """
        workbook: {w: {kind: noop}}
        workflow:
          - step: a
            tool: [{name: w, kind: workbook, task: w}, {name: s, kind: secrets, secret: s, provider: env}]
        """, "workbook-name secrets-name"),
    Row("pipe and case", """
        - step: a
          pipe:
            - {x: {kind: noop}}
            - {y: {kind: noop}}
          case:
            - when: "{{ output.status == 'ok' }}"
              then: {next: [{step: b}], set: {ctx.k: 1}}
            - else: {next: [{step: end}]}
        - {step: b, tool: {kind: noop}}
        - step: end
        """, """
        - step: a
          tool:
            - {x: {kind: noop}}
            - {y: {kind: noop}}
          next:
            arcs:
              - {step: b, when: "{{ output.status == 'ok' }}", set: {ctx.k: 1}}
              - {step: end}
        - {step: b, tool: {kind: noop}}
        - step: end
        """, "pipe case"),
]  # fmt: skip

HABITS = [
    Row("the name of a step", """
        - step: a
          tool: {kind: noop}
          next: {arcs: [{step: b, when: "{{ a.data.more }}"}]}
        - {step: b, tool: {kind: noop, output: "{{ a.f }} {{ a.data.g }} {{ a.result.h }} {{ a }}"}}
        """, """
        - step: a
          tool: {kind: noop}
          set: {ctx.a: "{{ output.data }}"}
          next: {arcs: [{step: b, when: "{{ output.data.more }}"}]}
        - {step: b, tool: {kind: noop, output: "{{ ctx.a.f }} {{ ctx.a.g }} {{ ctx.a.h }} {{ ctx.a }}"}}
        """, "habit"),
    Row("a step's own name in its arcs alone publishes nothing", """
        - step: a
          tool: {kind: noop}
          set: {ctx.k: "{{ a.data.field }}"}
          next: {arcs: [{step: end, when: "{{ a.data.more }}"}]}
        - step: end
        """, """
        - step: a
          tool: {kind: noop}
          set: {ctx.k: "{{ output.data.field }}"}
          next: {arcs: [{step: end, when: "{{ output.data.more }}"}]}
        - step: end
        """, "habit"),
    Row("keys of tools", """
        - step: a
          tool:
            - {kind: shell, cmds: [ls, pwd]}
            - {kind: duckdb, commands: "SELECT 1", database: x.db}
            - {kind: playbook, path: p, payload: {a: 1}}
        """, """
        - step: a
          tool:
            - {kind: shell, cmd: [ls, pwd]}
            - {kind: duckdb, command: "SELECT 1", file: x.db}
            - {kind: playbook, path: p, input: {a: 1}}
        """, "habit payload"),
    Row("keys of http", """
        - step: a
          tool: {kind: http, endpoint: u, payload: {a: 1}, method: POST, verify_ssl: false, timeout_seconds: 3}
        """, """
        - step: a
          tool: {kind: http, url: u, json: {a: 1}, method: POST, spec: {timeout: 3, verify: false}}
        """, "habit endpoint payload"),
    Row("data of a request that has a body", """
        - step: a
          tool: {kind: http, url: u, method: POST, data: {a: 1}}
        """, """
        - step: a
          tool: {kind: http, url: u, method: POST, json: {a: 1}}
        """, "data"),
    Row("several statements", """
        - step: a
          tool:
            kind: duckdb
            commands: ["A;", "B"]
        """, """
        - step: a
          tool:
            kind: duckdb
            command: |
              A;
              B;
        """, "habit"),
    Row("timeout and retry of a tool", """
        - step: a
          tool: {kind: shell, cmd: ls, timeout: 5, retry: {max_attempts: 2, initial_delay: 1}}
        """, """
        - step: a
          tool:
            kind: shell
            cmd: ls
            spec:
              timeout: 5
              policy:
                on_unmatched: fail
                rules:
                  - when: "{{ output.status == 'error' }}"
                    then: {do: retry, attempts: 2, delay: 1}
        """, "habit"),
    Row("events, and cond of an arc", """
        - step: a
          tool: {kind: noop}
          next:
            arcs:
              - {step: b, when: "{{ event.name == 'call.done' }}"}
              - {step: b, when: "{{ event.name == 'call.error' }}"}
              - {step: b, when: "{{ event.name == 'step.exit' and event.error }}"}
              - {step: b, cond: "{{ event.name == 'step.exit' and response is defined }}"}
        - {step: b, tool: {kind: noop}}
        """, """
        - step: a
          tool: {kind: noop}
          next:
            arcs:
              - {step: b, when: "{{ event.name == 'step.done' }}"}
              - {step: b, when: "{{ event.name == 'step.failed' }}"}
              - {step: b, when: "{{ event.name == 'step.failed' and event.error }}"}
              - {step: b, when: "{{ event.name == 'step.done' and output.data is defined }}"}
        - {step: b, tool: {kind: noop}}
        """, "habit"),
    Row("the job", """
        - {step: a, tool: {kind: noop, output: "{{ job.uuid }} {{ job.execution_id }} {{ execution_id }}"}}
        """, """
        - {step: a, tool: {kind: noop, output: "{{ execution_id }} {{ execution_id }} {{ execution_id }}"}}
        """, "habit"),
    Row("this, result and response in rules", """
        - step: a
          tool:
            kind: http
            url: u
            spec:
              policy:
                on_unmatched: fail
                rules:
                  - when: "{{ this.status_code == 429 or response.body.x or result.y }}"
                    then: {do: retry}
        """, """
        - step: a
          tool:
            kind: http
            url: u
            spec:
              policy:
                on_unmatched: fail
                rules:
                  - when: "{{ output.http.status == 429 or output.data.x or output.data.y }}"
                    then: {do: retry}
        """, "habit"),
    Row("credentials in the task", """
        workload: {t: x}
        workflow:
          - step: a
            tool: {kind: http, url: u, auth: {type: bearer, token: "{{ workload.t }}"}}
        """, """
        keychain:
          - {name: a_auth, kind: bearer, token: "{{ workload.t }}"}
        workload: {t: x}
        workflow:
          - step: a
            tool: {kind: http, url: u, auth: a_auth}
        """, "habit"),
    Row("keychain entries", """
        keychain: [{name: g, type: secret_manager, provider: vault, scope: global, map: {k: a/b}, auto_renew: true}]
        workflow:
          - {step: a, tool: {kind: noop}}
        """, """
        keychain: [{name: g, kind: secret_manager, provider: vault, secret: a/b}]
        workflow:
          - {step: a, tool: {kind: noop}}
        """, "habit"),
    Row("when with else in one rule, policy beside kind, code under spec", """
        - step: a
          tool:
            kind: python
            spec: {code: "result = 1"}
            policy:
              rules:
                - when: "{{ output.status == 'error' }}"
                  then: {do: fail}
                  else: {then: {do: continue}}
        """, """
        - step: a
          tool:
            kind: python
            code: "result = 1"
            spec:
              policy:
                rules:
                  - when: "{{ output.status == 'error' }}"
                    then: {do: fail}
                  - else: {then: {do: continue}}
        """, "habit tool-spec"),
    Row("a workbook as a list", """
        workbook: [{name: w, tool: {kind: noop}}]
        workflow:
          - {step: a, tool: {kind: workbook, task: w}}
        """, """
        workbook:
          w: {kind: noop}
        workflow:
          - {step: a, tool: {kind: workbook, task: w}}
        """, "habit"),
    Row("what a caller gives a workbook task", """
        workload: {k: 1}
        workbook: {w: {kind: shell, cmd: "echo {{ n }}"}}
        workflow:
          - {step: a, tool: {kind: workbook, task: w, input: {n: "{{ k }}"}}}
        """, """
        workload: {k: 1}
        workbook: {w: {kind: shell, cmd: "echo {{ input.n }}"}}
        workflow:
          - {step: a, tool: {kind: workbook, task: w, input: {n: "{{ workload.k }}"}}}
        """, "bare-name"),
    Row("the name of an earlier task", """
        - step: a
          tool:
            - {name: x, kind: noop}
            - {name: y, kind: noop, output: "{{ x.data.k }}"}
        """, """
        - step: a
          tool:
            - {name: x, kind: noop, set: {step.x: "{{ output.data }}"}}
            - {name: y, kind: noop, output: "{{ step.x.k }}"}
        """, "habit"),
]  # fmt: skip
ROWS = pytest.mark.parametrize("row", [*OLDER, *HABITS], ids=lambda row: row.name)


@ROWS
def test_a_row_is_migrated_to_its_canonical_spelling(row: Row) -> None:
    migrated = migrate(document(row.before), KINDS)
    assert migrated is not None
    assert migrated.changed
    assert migrated.text == document(row.after)
    assert {one.code for one in migrated.diagnostics} == {f"legacy-{slug}" for slug in row.slugs.split()}


@ROWS
def test_the_result_is_clean_and_stays_as_it_is(row: Row) -> None:
    text = document(row.after)
    assert [(one.code, one.message) for one in load(text, KINDS).diagnostics if one.severity == "error"] == []
    again = migrate(text, KINDS)
    assert again is not None
    assert not again.changed


@ROWS
def test_an_older_construct_is_told_by_its_grade(row: Row) -> None:
    loaded = load(document(row.before), KINDS)
    told = {one.code: str(one.severity) for one in loaded.diagnostics if one.code.startswith("legacy-")}
    assert told == {f"legacy-{slug}": "warning" if f"legacy-{slug}" in V10 else "error" for slug in row.slugs.split()}
    assert all("noetl migrate FILE" in (one.fix or "") for one in loaded.diagnostics if one.code in told)


@ROWS
def test_with_legacy_nothing_is_said_and_it_runs(row: Row) -> None:
    loaded = load(document(row.before), KINDS, legacy=True)
    assert [one.code for one in loaded.diagnostics if one.code.startswith("legacy-")] == []
    assert loaded.ok
    assert loaded.net is not None


def test_under_strict_even_v10_is_an_error() -> None:
    assert not load(document("- {step: a, args: {x: 1}, tool: {kind: shell, cmd: ls}}\n"), KINDS, strict=True).ok


def test_input_data_and_result_and_return_are_kept() -> None:
    text = document("- {step: a, tool: {kind: python, code: \"return input_data['x']\", input: {x: 1}}}\n")
    migrated = migrate(text, KINDS)
    assert migrated is not None
    assert (migrated.text, load(text, KINDS).diagnostics) == (text, ())


def test_a_text_that_is_no_map_cannot_be_migrated() -> None:
    assert migrate("- a\n", KINDS) is None
    assert migrate("a: [", KINDS) is None
