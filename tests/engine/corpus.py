"""Playbooks for the simulated house: every construct of the language that the engine decides about."""

from __future__ import annotations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test}\nworkload: {items: [3, 1, 2], api: 'http://x'}\nworkflow:\n"

#: those whose outcome does not depend on the order in which things happen
CONFLUENT = {
    "compensation": """
- step: a
  input: {who: ann}
  spec: {policy: {compensation: {kind: shell, cmd: "undo {{ input.who }} {{ output.http.status }} {{ ctx.x }}"}}}
  tool: {kind: python, code: "def main(): pass"}
  set: {ctx.x: 1}
  next: {arcs: [{step: each}]}
- step: each
  spec:
    policy:
      compensation:
        kind: http
        url: "{{ workload.api }}/{{ iter.n }}/{{ output.data }}/{{ step.note }}"
        spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 5}}]}}
  loop: {in: "{{ workload.items }}", iterator: n}
  tool: {kind: python, code: "def main(): pass", output: "{{ iter.n }}", set: {step.note: "{{ iter.n }}"}}
  next: {arcs: [{step: bad}]}
- {step: bad, tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}}
- {step: last, tool: [{kind: shell, cmd: "{{ event.status }}"}, {kind: noop, set: {ctx.how: "{{ event.status }}"}}]}
executor: {spec: {policy: {finally: {step: last}}}}
""",
    "compensations that wait or fail": """
- {step: a, spec: {policy: {compensation: {kind: wait, seconds: 5}}}, tool: {kind: shell, cmd: x}, next: {arcs: [{step: b}]}}
- {step: b, spec: {policy: {compensation: {kind: playbook, path: other}}}, tool: {kind: shell, cmd: x}, next: {arcs: [{step: c}]}}
- {step: c, spec: {policy: {compensation: {kind: shell, cmd: "{{ output.data.no.such }}"}}}, tool: {kind: shell, cmd: x}, next: {arcs: [{terminate: failed}]}}
""",
    "tasks around a body": """
- step: a
  spec:
    policy:
      before: [{kind: shell, cmd: x, set: {step.early: 1}}, {name: open, kind: wait, seconds: 2}]
      after: [{kind: shell, cmd: "{{ output.data }}", set: {ctx.after: "{{ step.early }}"}}]
      finally: [{kind: shell, cmd: x}, {kind: shell, cmd: "{{ output.data }}", set: {ctx.early: "{{ step.early }}"}}]
  tool: [{kind: shell, cmd: x}, {kind: noop, output: "{{ step.early }}"}]
  output: "{{ output.data + 1 }}"
  set: {ctx.data: "{{ output.data }}"}
""",
    "tasks around a loop": """
- step: a
  spec:
    policy:
      before: [{kind: shell, cmd: x, set: {step.early: 1}}, {kind: shell, cmd: x}]
      after: [{kind: shell, cmd: "{{ output.data }}", set: {ctx.after: 1}}]
      finally: [{kind: shell, cmd: "{{ output.loop.total }}"}, {kind: shell, cmd: x}]
  loop: {in: "{{ workload.items }}", iterator: n}
  tool: {kind: shell, cmd: x, output: "{{ iter.n + step.early }}"}
  set: {ctx.data: "{{ output.data }}"}
""",
    "finally of a failure": """
- step: a
  spec: {policy: {after: [{kind: shell, cmd: never}], finally: [{kind: shell, cmd: "{{ output.error.kind }}"}, {kind: shell, cmd: x}]}}
  tool: [{kind: shell, cmd: x}, {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail, message: no}}}]}}}]
  next: {arcs: [{step: b, when: "{{ event.name == 'step.failed' }}", set: {ctx.why: "{{ event.error.message }}"}}]}
- step: b
  spec: {policy: {finally: [{kind: shell, cmd: "{{ output.error.kind }}"}]}}
  loop: {in: "{{ workload.items }}", iterator: n}
  tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail, message: no}}}]}}}
""",
    "finally of a timeout": """
- step: a
  spec: {policy: {lifecycle: {timeout_s: 5}, finally: [{kind: shell, cmd: "{{ output.error.kind }}"}, {kind: wait, seconds: 100}, {kind: shell, cmd: x}]}}
  tool: [{kind: shell, cmd: x}, {kind: wait, seconds: 50}]
  next: {arcs: [{step: b, when: "{{ event.error.kind == 'timeout' }}"}]}
- step: b
  spec: {policy: {lifecycle: {timeout_s: 5}, finally: [{kind: shell, cmd: x}]}}
  loop: {in: "{{ workload.items }}", iterator: n}
  tool: {kind: wait, seconds: 50}
""",
    "finally of a cancelled step": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: long}, {step: boss}]}}
- step: long
  spec: {policy: {finally: [{kind: shell, cmd: "{{ output.error.kind }}"}, {kind: shell, cmd: x, set: {ctx.cleaned: 1}}]}}
  tool: {kind: wait, signal: never}
- {step: boss, tool: {kind: wait, seconds: 5}, next: {arcs: [{step: end, cancel: [long]}]}}
- {step: end}
""",
    "chain": """
- {step: a, tool: {kind: http, url: "{{ workload.api }}"}, set: {ctx.a: "{{ output.http.status }}"}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: python, code: "def main(): pass"}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, output: "{{ ctx.a }}"}}
""",
    "retry": """
- step: a
  tool:
    kind: http
    url: x
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 5}}]}}
  set: {ctx.n: "{{ output.http.status }}"}
""",
    "pagination": """
- step: pages
  tool:
    - {name: fetch, kind: http, url: "{{ workload.api }}/{{ step.page | default(1) }}", spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0}}]}}}
    - name: more
      kind: noop
      set: {step.page: "{{ step.page | default(1) + 1 }}"}
      spec: {policy: {rules: [{when: "{{ step.page < 6 }}", then: {do: jump, to: fetch}}]}}
  set: {ctx.pages: "{{ step.page }}"}
""",
    "sequential loop": """
- step: each
  loop: {in: "{{ workload.items }}", iterator: n}
  tool: {kind: python, code: "def main(): pass", set: {ctx.seen: "{{ ctx.seen | default([]) + [iter.n] }}"}}
  set: {ctx.all: "{{ output.data | length }}"}
""",
    "parallel loop": """
- step: each
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 2, policy: {reduce: {ctx.sum: sum, ctx.list: append}}}}
  tool: {kind: python, code: "def main(): pass", set: {ctx.sum: "{{ iter.n }}", ctx.list: "{{ iter.n }}"}, output: "{{ iter.n * 10 }}"}
  next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}", set: {ctx.data: "{{ output.data }}"}}]}
- {step: end}
""",
    "nested loops": """
- step: each
  loop: {in: [[1, 2], [], [3]], iterator: g, spec: {mode: parallel, policy: {reduce: {ctx.total: sum}}}, loop: {in: "{{ iter.g }}", iterator: n}}
  tool: {kind: http, url: x, set: {ctx.total: "{{ iter.n }}"}, output: "{{ iter.parent.index }}", spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
  set: {ctx.data: "{{ output.data }}"}
""",
    "join": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- {step: a, tool: {kind: python, code: "def main(): pass"}, next: {arcs: [{step: all}]}}
- {step: b, tool: {kind: wait, seconds: 3}, next: {arcs: [{step: all}]}}
- {step: c, tool: {kind: shell, cmd: x}, next: {arcs: [{step: all}]}}
- {step: all, spec: {policy: {admit: {join: {from: [a, b, c]}}}}, tool: {kind: noop, output: joined}}
""",
    "gate": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: gate}]}}
- {step: a, tool: {kind: python, code: "def main(): pass"}, set: {ctx.a: 1}}
- {step: b, tool: {kind: wait, seconds: 1}, set: {ctx.b: 1}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ done('a') and ok('b') }}", then: {allow: true}}]}}}, tool: {kind: noop, output: "{{ ctx.a + ctx.b }}"}}
""",
    "failure arc": """
- step: a
  tool: {kind: http, url: x, spec: {policy: {rules: [{else: {then: {do: fail, message: no}}}]}}}
  next: {arcs: [{step: cope, when: "{{ event.name == 'step.failed' }}", set: {ctx.kind: "{{ event.error.kind }}"}}, {step: never}]}
- {step: cope, tool: {kind: shell, cmd: x}}
- {step: never, tool: {kind: noop}}
""",
    "unrouted failure": """
- {step: a, tool: {kind: http, url: x, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: noop}}
""",
    "child": """
- {step: a, tool: {kind: playbook, path: other, input: {n: 1}}, set: {ctx.child: "{{ output.data.child }}"}}
""",
    "waits": """
- step: a
  tool: [{name: one, kind: wait, seconds: 10}, {name: two, kind: python, code: "def main(): pass"}, {name: three, kind: wait, seconds: 20}]
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: done}}
""",
    "signal": """
- {step: a, tool: {kind: wait, signal: go, timeout: 1000}, set: {ctx.n: "{{ output.data.n }}"}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: shell, cmd: x}}
""",
    "timeout": """
- step: a
  spec: {policy: {lifecycle: {timeout_s: 5}}}
  tool: {kind: wait, seconds: 100}
  next: {arcs: [{step: late, when: "{{ event.error.kind == 'timeout' }}"}]}
- {step: late, tool: {kind: noop, output: late}}
""",
    "cycle": """
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}, next: {arcs: [{step: a, when: "{{ ctx.n < 4 }}"}, {step: end}]}}
- {step: end}
""",
    "sugar": """
- step: a
  tool:
    - while: {when: "{{ step.n | default(0) < 3 }}", do: [{name: b, kind: shell, cmd: x, set: {step.n: "{{ step.n | default(0) + 1 }}"}}]}
    - choose: [{when: "{{ step.n == 3 }}", then: [{name: c, kind: python, code: "def main(): pass"}]}, {else: [{name: d, kind: noop}]}]
    - {name: report, kind: noop, output: "{{ step.n }}"}
""",
    "once": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: one}]}}
- {step: b, tool: {kind: shell, cmd: x}, next: {arcs: [{step: one}]}}
- {step: one, spec: {policy: {admit: {fire: once}}}, tool: {kind: noop}}
""",
    "quiet": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: merge}]}}
- {step: b, tool: {kind: wait, seconds: 2}, next: {arcs: [{step: merge}]}}
- {step: merge, spec: {policy: {admit: {rules: [{when: "{{ quiet() }}", then: {allow: true}}]}}}, tool: {kind: noop, output: merged}}
""",
    "best effort": """
- step: each
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [1, 2, 3, 4, 5, 6], iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: http, url: x, output: "{{ iter.n }}"}
  set: {ctx.loop: "{{ output.loop }}", ctx.data: "{{ output.data }}"}
""",
    "best effort of nested loops": """
- step: each
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [[1, 2], [3, 0], [5]], iterator: row, spec: {mode: parallel}, loop: {in: "{{ iter.row }}", iterator: n}}
  tool: {kind: noop, output: "{{ 10 // iter.n }}"}
  set: {ctx.loop: "{{ output.loop }}", ctx.data: "{{ output.data }}"}
""",
    "set through no map": """
- step: a
  tool:
    - {name: one, kind: noop, set: {step.rows: [1, 2], ctx.kept: 1}}
    - {name: two, kind: http, url: x, output: 1, set: {ctx.lost: 1, step.rows.total: 2}, spec: {policy: {rules: [{when: "{{ output.error.kind == 'type' }}", then: {do: continue, set: {ctx.kind: "{{ output.error.kind }}"}}}, {when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0}}]}}}
  next: {arcs: [{step: b}]}
- {step: b, tool: {kind: noop}, set: {ctx.kept.deeper: 1, ctx.lost: 2}, next: {arcs: [{step: c, when: "{{ event.name == 'step.failed' }}", set: {ctx.again: "{{ event.error.kind }}"}}]}}
- {step: c, tool: {kind: noop}}
""",
    "reducers over nothing": """
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.sum: 5, ctx.low: 5}, next: {arcs: [{step: each}]}}
- step: each
  loop: {in: [[], []], iterator: row, spec: {mode: parallel, policy: {reduce: {ctx.sum: sum, ctx.low: min}}}, loop: {in: "{{ iter.row }}", iterator: n, spec: {mode: parallel, policy: {reduce: {ctx.sum: sum, ctx.low: min}}}}}
  tool: {kind: noop, set: {ctx.sum: "{{ iter.n }}", ctx.low: "{{ iter.n }}"}}
""",
    "until": """
- step: each
  loop: {in: [1, 2, 3, 4], iterator: n, spec: {until: "{{ iter.n == 3 }}"}}
  tool: {kind: shell, cmd: x, output: "{{ iter.n }}"}
  set: {ctx.data: "{{ output.data }}"}
""",
    "stalled": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: never}]}}
- {step: a, tool: {kind: shell, cmd: x}}
- {step: never, spec: {policy: {admit: {rules: [{when: "{{ ctx.nothing }}", then: {allow: true}}]}}}, tool: {kind: noop}}
""",
    "stall that fails": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: never}]}}
- {step: a, tool: {kind: shell, cmd: x}}
- {step: never, spec: {policy: {admit: {rules: [{when: "{{ ctx.nothing }}", then: {allow: true}}]}}}, tool: {kind: noop}}
executor: {spec: {policy: {stalled: fail}}}
""",
    "no arc matched": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: each}, {step: on_purpose}]}}
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}, next: {arcs: [{step: a, when: "{{ ctx.n < 3 }}"}, {step: never, when: "{{ ctx.n > 3 }}"}]}}
- {step: each, loop: {in: [1, 2], iterator: n}, tool: {kind: shell, cmd: x}, next: {arcs: [{step: never, when: "{{ event.name == 'nothing' }}"}]}}
- {step: on_purpose, tool: {kind: wait, seconds: 1}, next: {spec: {on_no_match: end}, arcs: [{step: never, when: false}]}}
- {step: never, tool: {kind: noop}}
""",
    "no match fails": """
- {step: a, tool: {kind: shell, cmd: x}, next: {spec: {on_no_match: fail}, arcs: [{step: b, when: "{{ event.status == 'error' }}"}]}}
- {step: b, tool: {kind: noop}}
""",
    "gates that wait for each other": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: one}]}}
- {step: b, tool: {kind: wait, seconds: 2}, next: {arcs: [{step: two}]}}
- {step: one, spec: {policy: {admit: {rules: [{when: "{{ quiet() }}", then: {allow: true}}]}}}, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}, next: {arcs: [{step: two, when: "{{ ctx.never }}"}, {step: end}]}}
- {step: two, spec: {policy: {admit: {rules: [{when: "{{ quiet() }}", then: {allow: true}}]}}}, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}, next: {arcs: [{step: one, when: "{{ ctx.never }}"}, {step: end}]}}
- {step: end, tool: {kind: noop, output: "{{ ctx.n }}"}, spec: {policy: {admit: {join: {from: [one, two]}}}}}
""",
    "plan": """
- step: plan
  tool:
    kind: shell
    cmd: x
    output:
      - {step: one, tool: {kind: http, url: x, spec: {policy: {rules: [{when: true, then: {do: continue}}]}}}, set: {ctx.one: 1}, next: {arcs: [{step: two}]}}
      - {step: two, tool: {kind: wait, seconds: 2}, set: {ctx.two: 2}, next: {arcs: [{step: end}]}}
  next: {spec: {synthesize: {from: "{{ output.data }}", allow_kinds: [http, wait]}}, arcs: [{step: lost}]}
- {step: lost, tool: {kind: noop}}
- {step: end, tool: {kind: noop, output: "{{ [ctx.one, ctx.two] }}"}}
""",
    "plan of a loop": """
- step: plan
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: shell, cmd: x, output: {step: "do_{{ iter.n }}", tool: {kind: python, code: "def main(): pass"}, next: {arcs: [{step: all}]}}}
  next:
    spec:
      synthesize:
        from: "{{ [{'step': 'fan', 'next': {'spec': {'mode': 'inclusive'}, 'arcs': [{'step': 'do_1'}, {'step': 'do_2'}, {'step': 'do_3'}]}}] + output.data + [{'step': 'all', 'spec': {'policy': {'admit': {'join': {'from': ['do_1', 'do_2', 'do_3']}}}}, 'tool': {'kind': 'shell', 'cmd': 'x'}, 'next': {'arcs': [{'step': 'end'}]}}] }}"
        allow_kinds: [shell, python]
- {step: end, tool: {kind: noop, output: joined}}
""",
    "plan of a plan": """
- step: plan
  tool: {kind: shell, cmd: x, output: [{step: inner, tool: {kind: shell, cmd: x, output: [{step: innermost, tool: {kind: shell, cmd: x}, next: {arcs: [{step: plan}]}}]}, next: {spec: {synthesize: {from: "{% raw %}{{ output.data }}{% endraw %}"}}, arcs: []}}]}
  set: {ctx.rounds: "{{ ctx.rounds | default(0) + 1 }}"}
  next: {spec: {synthesize: {from: "{{ output.data if ctx.rounds == 1 else [] }}"}}, arcs: [{step: end}]}
- {step: end, tool: {kind: noop, output: "{{ ctx.rounds }}"}}
""",
    "invalid plan": """
- step: plan
  tool: {kind: shell, cmd: x, output: [{step: one, tool: {kind: shell, cmd: x}, next: {arcs: [{step: nowhere}]}}]}
  set: {ctx.planned: "{{ output.data }}"}
  next: {spec: {synthesize: {from: "{{ output.data }}"}}, arcs: [{step: mend, when: "{{ event.error.kind == 'plan-invalid' }}"}]}
- {step: mend, tool: {kind: shell, cmd: x}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop, output: mended}}
""",
    "terminate": """
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{terminate: failed}]}}
""",
    "external output": """
- step: a
  spec: {result: {inline_max_bytes: 4}}
  tool: [{name: one, kind: http, url: x, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0}}]}}}, {name: two, kind: shell, cmd: x, input: {N: "{{ _prev.n }}"}}]
  set: {ctx.n: "{{ output.data.n }}", ctx.all_ref: "{{ output.ref }}"}
  next: {arcs: [{step: end, when: "{{ output.data.n >= 0 }}"}]}
- {step: end, tool: [{name: get, kind: resolve, ref: "{{ ctx.all_ref }}"}, {name: more, kind: shell, cmd: x}, {name: say, kind: noop, output: "{{ _prev.n + ctx.n }}"}]}
""",
    "external writes": """
- step: a
  spec: {result: {inline_max_bytes: 4}}
  tool:
    - {name: one, kind: shell, cmd: x, set: {step.kept: "{{ output.data }}", step.n: 1}}
    - {name: two, kind: http, url: x, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0, set: {step.tries: "{{ ['again', 'and', 'again'] }}"}}}]}}}
    - {name: three, kind: shell, cmd: x, input: {N: "{{ step.kept.n }}"}, set: {step.kept: "{{ step.kept }}", step.other: "{{ [step.kept.key, _prev.n] }}"}, output: "{{ [step.kept.key, step.tries | default([])] }}"}
  set: {ctx.key: "{{ step.kept.key }}", ctx.other: "{{ step.other[0] }}", ctx.data: "{{ output.data }}"}
""",
    "loop over a reference": """
- {step: make, tool: {kind: shell, cmd: x, output: "{{ [{'id': 1, 'to': 'a'}, {'id': 2, 'to': 'b'}, {'id': 3, 'to': 'c'}] }}"}, set: {ctx.rows_ref: "{{ output.ref }}"}, next: {arcs: [{step: each}]}}
- step: each
  input: {id: "{{ iter.row.id }}"}
  loop: {in: "{{ ctx.rows_ref }}", iterator: row, spec: {mode: parallel, max_in_flight: 2, policy: {reduce: {ctx.ids: append}}}}
  tool:
    - {name: one, kind: http, url: "{{ iter.row.to }}", spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0}}]}}}
    - {name: two, kind: shell, cmd: x, output: "{{ iter.row.to ~ input.id }}", set: {ctx.ids: "{{ iter.row.id }}"}}
  set: {ctx.data: "{{ output.data }}"}
""",
    "until over a reference": """
- {step: make, tool: {kind: shell, cmd: x, output: "{{ [{'id': 1}, {'id': 2}, {'id': 3}, {'id': 4}] }}"}, set: {ctx.rows_ref: "{{ output.ref }}"}, next: {arcs: [{step: each}]}}
- step: each
  spec: {result: {inline_max_bytes: 4}}
  loop: {in: "{{ ctx.rows_ref }}", iterator: row, spec: {until: "{{ output.data.id == 3 }}"}}
  tool: {kind: shell, cmd: x, output: {id: "{{ iter.row.id }}"}, set: {ctx.seen: "{{ ctx.seen | default([]) + [iter.row.id] }}", iter.more: "{{ ['long', 'enough'] }}"}}
  set: {ctx.data: "{{ output.data }}", ctx.all_ref: "{{ output.ref }}"}
""",
    "gathered list": """
- step: each
  spec: {result: {inline_max_bytes: 8}}
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel}}
  tool: {kind: shell, cmd: x, output: {n: "{{ iter.n }}", long: "{{ 'x' * (iter.n * 3) }}"}}
  set: {ctx.list_ref: "{{ output.ref }}", ctx.loop: "{{ output.loop }}"}
  next: {arcs: [{step: again}]}
- step: again
  loop: {in: "{{ ctx.list_ref }}", iterator: one}
  tool: {kind: shell, cmd: x, output: "{{ iter.one.n }}"}
  set: {ctx.back: "{{ output.data }}"}
""",
    "gathered nested lists": """
- step: each
  spec: {result: {inline_max_bytes: 8}}
  loop: {in: [[1, 2], [], [3]], iterator: g, spec: {mode: parallel}, loop: {in: "{{ iter.g }}", iterator: n}}
  tool: {kind: shell, cmd: x, output: "{{ 'x' * iter.n * 4 }}"}
  output: "{{ output.data | map('join') | list }}"
  set: {ctx.data: "{{ output.data }}"}
""",
    "rows in rows": """
- {step: make, tool: {kind: shell, cmd: x, output: "{{ [{'id': 1}, {'id': 2}] }}"}, set: {ctx.rows_ref: "{{ output.ref }}"}, next: {arcs: [{step: each}]}}
- step: each
  loop: {in: "{{ ctx.rows_ref }}", iterator: a, spec: {mode: parallel}, loop: {in: "{{ ctx.rows_ref }}", iterator: b}}
  tool: {kind: shell, cmd: x, output: "{{ iter.parent.a.id * 10 + iter.b.id }}"}
  set: {ctx.data: "{{ output.data }}"}
""",
    "items out of rows": """
- {step: make, tool: {kind: shell, cmd: x, output: "{{ [{'c': 'A', 'h': [{'id': 1}, {'id': 2}]}, {'c': 'B', 'h': []}, {'c': 'C', 'h': [{'id': 3}]}] }}"}, set: {ctx.rows_ref: "{{ output.ref }}"}, next: {arcs: [{step: each}]}}
- step: each
  input: {id: "{{ iter.hotel.id }}"}
  loop: {in: "{{ ctx.rows_ref }}", iterator: city, spec: {mode: parallel, max_in_flight: 2, policy: {reduce: {ctx.ids: append}}}, loop: {in: "{{ iter.city.h }}", iterator: hotel, spec: {mode: parallel, policy: {reduce: {ctx.ids: append}}}}}
  tool: {kind: http, url: x, output: "{{ iter.parent.city.c ~ input.id }}", set: {ctx.ids: "{{ iter.hotel.id }}"}, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, delay: 0}}]}}}
  set: {ctx.data: "{{ output.data }}"}
""",
    "long items out of rows": """
- {step: make, tool: {kind: shell, cmd: x, output: "{{ [{'h': [[{'id': 1}, {'id': 2}], [{'id': 3}]]}, {'h': 7}] }}"}, set: {ctx.rows_ref: "{{ output.ref }}"}, next: {arcs: [{step: each}]}}
- step: each
  spec: {result: {inline_max_bytes: 8}, policy: {failure: {mode: best_effort}}}
  loop: {in: "{{ ctx.rows_ref }}", iterator: a, loop: {in: "{{ iter.a.h }}", iterator: b, loop: {in: "{{ iter.b }}", iterator: c}}}
  tool: {kind: shell, cmd: x, output: "{{ iter.c.id }}"}
  set: {ctx.loop: "{{ output.loop }}"}
""",
    "everything by reference": """
- {step: a, tool: [{name: one, kind: shell, cmd: x}, {name: two, kind: python, code: "def main(): pass", input: {n: "{{ _prev.n }}"}}], set: {ctx.n: "{{ output.data.n }}"}, next: {arcs: [{step: b}]}}
- {step: b, loop: {in: [1, 2], iterator: n}, tool: {kind: shell, cmd: x, output: "{{ iter.n }}"}, set: {ctx.data: "{{ output.data }}"}}
executor: {spec: {policy: {results: {reference_first: true}}}}
""",
    "selected": """
- {step: a, spec: {result: {select: {n: "$.n"}}}, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ output.data.n }}", ctx.all: "{{ output.data }}"}, next: {arcs: [{step: end, when: "{{ output.data.key is not defined }}"}]}}
- {step: end, tool: {kind: noop, output: "{{ ctx.n }}"}}
""",
}

#: those whose outcome may differ, and must be sound in any case
RACES = {
    "two plans": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: last}]}}
- {step: a, tool: {kind: shell, cmd: x, output: [{step: made, tool: {kind: shell, cmd: x}}]}, next: {spec: {synthesize: {from: "{{ output.data }}"}}, arcs: [{step: taken, when: "{{ event.error }}"}]}}
- {step: b, tool: {kind: wait, seconds: 1, output: [{step: made, tool: {kind: shell, cmd: x}}]}, next: {spec: {synthesize: {from: "{{ output.data }}"}}, arcs: [{step: taken, when: "{{ event.error }}"}]}}
- {step: taken, tool: {kind: noop}}
- {step: last, spec: {policy: {admit: {rules: [{when: "{{ quiet() }}", then: {allow: true}}]}}}, tool: {kind: shell, cmd: x}}
""",
    "cancelling race": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- {step: a, tool: {kind: shell, cmd: x}, next: {arcs: [{step: won}]}}
- {step: b, tool: {kind: python, code: "def main(): pass"}, next: {arcs: [{step: won}]}}
- {step: c, tool: {kind: wait, seconds: 1}, next: {arcs: [{step: won}]}}
- {step: won, spec: {policy: {admit: {join: {from: [a, b, c], need: 1, rest: cancel}}}}, tool: {kind: noop}}
""",
    "blocking rounds": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: shell, cmd: x}, set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}, next: {spec: {mode: inclusive}, arcs: [{step: j}, {step: a, when: "{{ ctx.n < 3 }}"}]}}
- {step: b, tool: {kind: wait, seconds: 1}, next: {arcs: [{step: j}]}}
- {step: j, spec: {policy: {admit: {join: {from: [a, b], need: 1, rest: block}}}}, tool: {kind: shell, cmd: x}}
""",
    "complete when": """
- step: race
  loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: 4, complete_when: "{{ loop.completed >= 2 }}"}}
  tool: {kind: shell, cmd: x, output: "{{ iter.n }}"}
  set: {ctx.n: "{{ output.loop.completed }}"}
""",
    "arc cancels": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: boss}, {step: gate}]}}
- {step: slow, loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}, tool: {kind: shell, cmd: x}}
- {step: gate, spec: {policy: {admit: {rules: [{when: "{{ ctx.never }}", then: {allow: true}}]}}}, tool: {kind: noop}}
- {step: boss, tool: {kind: python, code: "def main(): pass"}, next: {arcs: [{step: end, cancel: [slow, gate]}]}}
- {step: end}
""",
    "signals": """
- {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
- {step: a, tool: {kind: wait, signal: go, timeout: 50}, next: {arcs: [{step: c, when: true}]}}
- {step: b, tool: {kind: wait, signal: go, transient: true, timeout: 50}, next: {arcs: [{step: c, when: true}]}}
- {step: c, tool: {kind: shell, cmd: x}}
""",
    "failing fast": """
- step: each
  loop: {in: [1, 2, 3, 4, 5, 6, 7], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, url: x}
  next: {arcs: [{step: end, when: true}]}
- {step: end}
""",
}
