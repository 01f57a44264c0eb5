"""Playbooks that need no tool but noop and wait."""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: %s}\nworkflow:\n"

#: chooses, loops, ends
CHOICE = (
    HEAD % "choice"
    + """\
  - step: start
    tool: {kind: noop, output: 3}
    set: {ctx.n: "{{ output.data }}"}
    next:
      arcs:
        - {step: big, when: "{{ ctx.n > 5 }}"}
        - {step: each, when: "{{ ctx.n > 0 }}"}
        - {step: other}
  - {step: big, tool: {kind: noop}}
  - {step: other, tool: {kind: noop}}
  - step: each
    loop: {in: "{{ range(ctx.n) | list }}", iterator: x}
    tool: {kind: noop, output: "{{ iter.x * 2 }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: {n: "{{ ctx.n }}"}}
"""
)
#: waits for a signal, and yields what it carried
APPROVAL = (
    HEAD % "approval"
    + """\
  - step: ask
    tool: {kind: wait, signal: ok}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: "{{ ctx.said | default('nothing') }}"}
"""
)
APPROVAL = APPROVAL.replace(
    "    next: {arcs: [{step: end}]}\n", "    set: {ctx.said: '{{ output.data }}'}\n    next: {arcs: [{step: end}]}\n"
)
#: three steps of half a second
SLOW = (
    HEAD % "slow"
    + """\
  - step: one
    tool: {kind: wait, seconds: 0.5}
    next: {arcs: [{step: two}]}
  - step: two
    tool: {kind: wait, seconds: 0.5}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: over}
"""
)
#: two steps that each wait to be told to go on
GATED = (
    HEAD % "gated"
    + """\
  - step: one
    tool: {kind: wait, signal: one}
    next: {arcs: [{step: two}]}
  - step: two
    tool: {kind: wait, signal: two}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: over}
"""
)
#: fails after a retry
FAILING = (
    HEAD % "failing"
    + """\
  - step: start
    tool:
      - flaky:
          kind: noop
          output: "{{ workload.missing }}"
          spec: {policy: {rules: [{when: "{{ output.error }}", then: {do: retry, attempts: 2, delay: 0.01}}]}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
"""
)
#: both branches meet in a join; a gate behind it never opens
JOIN = (
    HEAD % "join"
    + """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
  - {step: b, tool: {kind: wait, signal: b}, next: {arcs: [{step: meet}]}}
  - step: meet
    spec: {policy: {admit: {join: {from: [a, b], need: all}}}}
    tool: {kind: noop}
    next: {arcs: [{step: gate}]}
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.open == true }}", then: {allow: true}}]}}}
    tool: {kind: noop}
"""
)
#: calls `approval`
PARENT = (
    HEAD % "parent"
    + """\
  - step: call
    tool: {kind: playbook, path: approval}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, output: "{{ workload }}"}
"""
)
ALL = {"choice": CHOICE, "approval": APPROVAL, "slow": SLOW, "failing": FAILING, "join": JOIN, "parent": PARENT}
#: an arc that cannot be judged, behind one that saw a long list
CLUMSY = (
    HEAD % "clumsy"
    + """\
  - step: start
    tool: {kind: noop, output: [1, 2, 3, 4, 5, 6]}
    set: {ctx.totals: "{{ output.data }}", ctx.nothing: null}
    next:
      arcs:
        - {step: few, when: "{{ ctx.totals | length < 5 }}"}
        - {step: nobody, when: "{{ ctx.nothing | length == 0 }}"}
        - {step: rest}
  - {step: few, tool: {kind: noop}}
  - {step: nobody, tool: {kind: noop}}
  - {step: rest, tool: {kind: noop}}
"""
)
#: a loop over text, and arcs of which none can be judged
ASTRAY = (
    (HEAD % "undelivered").replace("workflow", "workload: {n: '5', names: 'a,b'}\nworkflow")
    + """\
  - step: start
    loop:
      in: "{{ workload.names }}"
      iterator: name
    tool: {kind: noop, output: "{{ workload.n > 3 }}"}
    next:
      arcs:
        - step: end
          when: "{{ workload.n > 3 }}"
        - step: rest
          set: {ctx.sum: "{{ workload.sum }}"}
  - {step: end, tool: {kind: noop}}
  - {step: rest, tool: {kind: noop}}
"""
)
#: Python that fails in a function of its own
RAISES = (
    HEAD % "raises"
    + """\
  - step: start
    tool:
      kind: python
      code: |
        def half(n):
            return n / 0

        def main():
            print("begun")
            return half(1)
"""
)
#: a loop that takes three seconds, and as long as it has to where nobody has made the file `go`
LONG = (
    HEAD % "long"
    + """\
  - step: each
    loop: {in: "{{ range(60) | list }}", iterator: n}
    tool: {kind: shell, cmd: "sleep 0.05; test {{ iter.n }} -lt 30 || for i in $(seq 2000); do test -e go && exit 0; sleep 0.05; done"}
"""
)
ALL |= {"clumsy": CLUMSY, "raises": RAISES, "undelivered": ASTRAY, "long": LONG, "gated": GATED}
