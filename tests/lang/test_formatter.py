"""The canonical spelling: how it looks, that it means the same, and that it is its own canonical spelling."""

import textwrap
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from suite import PLAYBOOKS

from noetl.lang.printing.formatter import format_text
from noetl.lang.reading.node import plain_value
from noetl.lang.reading.reader import read_yaml
from noetl.model.diagnostics import Diagnostics, Source
from noetl.tools.registry import ToolKinds

WORDS = {"name", "kind", "choose", "while", "until", "input", "auth", "output", "set", "spec"}


def data(text: str) -> Any:
    return plain_value(read_yaml(text, Diagnostics(Source(text))))


def check(before: str, after: str) -> None:
    after = textwrap.dedent(after)
    assert format_text(textwrap.dedent(before)) == after
    assert format_text(after) == after


def flat(holder: Any) -> None:
    """`set: {ctx: {a: 1}}` as `set: {ctx.a: 1}`, in data."""
    target = holder.get("set") if isinstance(holder, dict) else None
    if isinstance(target, dict):
        made: dict[str, Any] = {}
        for name, value in target.items():
            inner = isinstance(value, dict) and value and name in ("ctx", "step", "iter")
            made |= {f"{name}.{key}": item for key, item in value.items()} if inner else {name: value}
        holder["set"] = made


def named(task: Any) -> Any:
    """`{fetch: {kind: http}}` as `{name: fetch, kind: http}`, and all below it, in data."""
    if not isinstance(task, dict):
        return task
    (label, body), *more = [*task.items()] or [("", None)]
    if not more and label not in WORDS and isinstance(body, dict) and "kind" in body and "name" not in body:
        task = {"name": label, **body}
    for branch in task.get("choose") or []:
        for word in ("then", "else"):
            if isinstance(branch.get(word), list):
                branch[word] = [named(item) for item in branch[word]]
    for word in ("while", "until"):
        if word in task:
            task[word]["do"] = [named(item) for item in task[word]["do"]]
    flat(task)
    for rule in ((task.get("spec") or {}).get("policy") or {}).get("rules") or []:
        flat((rule.get("else") or rule).get("then"))
    return task


def canonical(playbook: Any) -> Any:
    """What the formatter is to make of a playbook, in data."""
    for step in playbook.get("workflow") or []:
        tool = step.get("tool")
        if tool is not None:
            step["tool"] = [named(task) for task in tool] if isinstance(tool, list) else named(tool)
        flat(step)
        for arc in (step.get("next") or {}).get("arcs") or []:
            flat(arc)
    return playbook


def test_white_space_becomes_the_usual_one() -> None:
    check(
        """\
        a:    1\t
        b:
            c: [1,2 , 3]   # far
            d: { e:   1,f: {} } # near



            g:
            - 1
            -    h: 2
                 i: 3
        # end


        """,
        """\
        a: 1
        b:
          c: [1, 2, 3]   # far
          d: {e: 1, f: {}}  # near

          g:
            - 1
            - h: 2
              i: 3
        # end
        """,
    )


def test_scalars_stay_as_they_are_written() -> None:
    text = """\
    a: 'x'
    b: "y\\n"
    c: 0x1F
    d: |
        deep

        lines
    e: >-
      folded
      text
    f: &anchor yes
    g: *anchor
    h: ~
    i:
    """
    check(text, text)


def test_flow_collections_of_several_lines_are_filled_or_spread() -> None:
    check(
        """\
        a: [1,
            2]
        b: {
           x: 1, # one
             # two
           y: [ {z: 1},
              2 ]
        }
        """,
        """\
        a: [1, 2]
        b: {
          x: 1,  # one
          # two
          y: [{z: 1}, 2]
        }
        """,
    )


def test_comments_stay_with_what_they_stand_beside() -> None:
    check(
        """\
        # head

        # of a
        a:   # a
           # of b
           b: 1 # b
           # end of a
        c:
        # of the item
        - # item
          d: 1
        -
          # in two
          e: 2
        """,
        """\
        # head

        # of a
        a:   # a
          # of b
          b: 1  # b
          # end of a
        c:
          # of the item
          -  # item
            d: 1
          # in two
          - e: 2
        """,
    )


def test_tasks_under_a_label_are_given_it_as_their_name() -> None:
    check(
        """\
        workflow:
          - step: start
            tool:
              # get it
              - fetch:  # now
                  kind: http
                  url: x
              - {store: {kind: postgres}}
              - "two words": {kind: noop}
              - 7: {kind: noop}
              - fetch: {url: y}
              - choose:
                  - when: "{{ x }}"
                    then: [{a: {kind: noop}}]
                  - else:
                      - b: {kind: noop}
              - while: {when: "{{ y }}", do: [{c: {kind: noop}}]}
        workbook:
          one: [{d: {kind: noop}}]
          two: {kind: noop, input: {e: {kind: noop}}}
        """,
        """\
        workflow:
          - step: start
            tool:
              # get it
              # now
              - name: fetch
                kind: http
                url: x
              - {name: store, kind: postgres}
              - {name: "two words", kind: noop}
              - {name: "7", kind: noop}
              - fetch: {url: y}
              - choose:
                  - when: "{{ x }}"
                    then: [{name: a, kind: noop}]
                  - else:
                      - {name: b, kind: noop}
              - while: {when: "{{ y }}", do: [{name: c, kind: noop}]}
        workbook:
          one: [{name: d, kind: noop}]
          two: {kind: noop, input: {e: {kind: noop}}}
        """,
    )


def test_targets_of_set_are_written_flat() -> None:
    check(
        """\
        workflow:
          - step: start
            tool:
              kind: noop
              input: {set: {ctx: {a: 1}}}
              set:
                # all of ctx
                ctx:
                  # of a
                  a: 1  # one
                  "b": {c: 2}
                step.d: 3
              spec:
                policy:
                  rules:
                    - when: "{{ x }}"
                      then: {do: jump, to: a, set: {iter: {n: 1}}}
                    - else: {then: {set: {step: {n: 1}}}}
            set: {ctx: {}, step: {a.b: 1}, iter: 4}
            next: {arcs: [{step: end, set: {ctx: {a: 1}, ctx.a: 2}}, {step: end, set: {ctx: {a: 1}}}]}
        """,
        """\
        workflow:
          - step: start
            tool:
              kind: noop
              input: {set: {ctx: {a: 1}}}
              set:
                # all of ctx
                # of a
                ctx.a: 1  # one
                "ctx.b": {c: 2}
                step.d: 3
              spec:
                policy:
                  rules:
                    - when: "{{ x }}"
                      then: {do: jump, to: a, set: {iter.n: 1}}
                    - else: {then: {set: {step.n: 1}}}
            set: {ctx: {}, step: {a.b: 1}, iter: 4}
            next: {arcs: [{step: end, set: {ctx: {a: 1}, ctx.a: 2}}, {step: end, set: {ctx.a: 1}}]}
        """,
    )


def test_keys_come_in_their_order_and_bring_their_comments() -> None:
    check(
        """\
        # the kind
        kind: Playbook
        x-first: 1
        workflow:
          # the step
          - desc: d
            # to b
            next: {arcs: [{step: b}]}
            # what it does
            tool: {spec: {}, url: x, kind: http, input: {}, output: 1, name: n}  # tool
            x-note: here
            step: a
        apiVersion: noetl.io/v2  # version
        """,
        """\
        apiVersion: noetl.io/v2  # version
        x-first: 1
        # the kind
        kind: Playbook
        workflow:
          # the step
          - step: a
            desc: d
            # what it does
            tool: {name: n, kind: http, url: x, input: {}, output: 1, spec: {}}  # tool
            x-note: here
            # to b
            next: {arcs: [{step: b}]}
        """,
    )


def test_what_anchors_and_merges_share_keeps_its_shape() -> None:
    text = """\
    x-task: &task {retries: 1, kind: http}
    workflow:
      - step: start
        tool: &tools
          - fetch: {kind: http}
        set: &set {ctx: {a: 1}}
      - tool: *tools
        step: next
        set: *set
      - <<: {desc: x}
        tool:
          - one: {<<: *task}
        step: last
    """
    check(text, text.replace("  - tool: *tools\n        step: next", "  - step: next\n        tool: *tools"))


def test_an_alias_is_never_put_above_its_anchor() -> None:
    text = "kind: &k Playbook\napiVersion: *k\n"
    check(text, text)


def test_windows_line_breaks_and_a_missing_last_one_are_set_right() -> None:
    assert format_text("a: 1\r\nb: |\r\n  x\r\n  y") == "a: 1\nb: |-\n  x\n  y\n"
    assert format_text("\ufeffa: 1") == "\ufeffa: 1\n"


def test_marks_of_the_document_stay() -> None:
    check("%YAML 1.2\n---   # c\n\n\n\na: 1\n\n\n...\n", "%YAML 1.2\n---   # c\n\na: 1\n...\n")
    check("--- [1,2]   \n", "---\n[1, 2]\n")


@pytest.mark.parametrize("text", ["a: [", "", "# only\n", "a: 1\na: 2\n", "a: !!str 1\n", "a: *b\n"])
def test_what_cannot_be_read_without_loss_is_left_alone(text: str) -> None:
    assert format_text(text) is None


@pytest.mark.skipif(not PLAYBOOKS, reason="the conformance cases are not here")
def test_the_playbooks_of_the_conformance_cases_mean_the_same_afterwards() -> None:
    for text in PLAYBOOKS:
        out = format_text(text)
        if out is not None:
            before = data(text)
            sound = isinstance(before, dict) and all(isinstance(s, dict) for s in before.get("workflow") or [])
            assert not sound or _same(before, data(out)), text
            assert format_text(out) == out


def _same(before: Any, after: Any) -> bool:
    try:
        return bool(canonical(before) == after)
    except (AttributeError, TypeError):  # a case about a playbook of the wrong shape
        return True


class Draw:
    """Draws playbooks, written in all the ways that the language allows."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def chance(self, of_ten: float) -> bool:
        return self.random.random() < of_ten / 10

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def targets(self) -> dict[str, Any]:
        inner: dict[str, Any] = {self.name(): self.random.choice([1, "{{ x }}", {"z": 1}])}
        return self.random.choice(
            [{"ctx": inner}, {"step.a": 1, "iter": inner}, {f"ctx.{self.name()}": 1}, {"ctx": {}}]
        )

    def task(self, depth: int = 0) -> dict[str, Any]:
        if depth < 2 and self.chance(2):
            tasks = [self.task(depth + 1) for _ in range(self.random.randint(1, 2))]
            whole: dict[str, Any] = {"choose": [{"when": "{{ x }}", "then": tasks}, {"else": [self.task(2)]}]}
            return self.random.choice([whole, {"while": {"when": "{{ x }}", "do": tasks}}, {"until": {"do": tasks}}])
        parts: dict[str, Any] = {"kind": "http", "url": "x", "input": {"a": {"kind": 1}}}
        if self.chance(3):
            parts["set"] = self.targets()
        if self.chance(3):
            parts["spec"] = {"policy": {"rules": [{"when": True, "then": {"set": self.targets()}}]}}
        shuffled = self.shuffled(parts)
        return (
            {self.name(): shuffled} if self.chance(5) else shuffled | ({"name": self.name()} if self.chance(7) else {})
        )

    def shuffled(self, parts: dict[str, Any]) -> dict[str, Any]:
        return dict(self.random.sample(sorted(parts.items()), len(parts)))

    def step(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"step": self.name(), "next": {"arcs": [{"step": "z", "set": self.targets()}]}}
        parts["tool"] = [self.task() for _ in range(3)] if self.chance(6) else {"kind": "noop", "set": self.targets()}
        return self.shuffled(parts | ({"set": self.targets(), "x-y": 1} if self.chance(5) else {}))

    def text(self) -> str:
        steps = [self.step() for _ in range(self.random.randint(1, 3))]
        whole = self.shuffled(
            {"kind": "Playbook", "apiVersion": "v", "workflow": steps, "x-a": {}, "workload": {"b": 1}}
        )
        style = self.random.choice([None, False, True])
        text = yaml.safe_dump(whole, sort_keys=False, default_flow_style=style, indent=self.random.choice([2, 3, 5]))
        lines = text.splitlines()
        for _ in range(self.random.randrange(4) if not style else 0):
            at = self.random.randrange(len(lines) + 1)
            lines.insert(at, self.random.choice(["", "  # c", "# d", "", "", "        # e"]))
        return "\n".join(lines)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**40))
def test_any_playbook_means_the_same_and_is_settled_at_once(seed: int) -> None:
    text = Draw(Random(seed)).text()
    out = format_text(text)
    assert out is not None
    assert data(out) == canonical(data(text))
    assert format_text(out) == out
    assert out.count("#") == text.count("#")


def test_a_label_that_would_be_taken_for_a_secret_stays_a_label() -> None:
    """In older documents the name of such a task in a list is the secret it asks for."""
    bare = "workflow:\n  - step: a\n    tool:\n      - {t1: {kind: secrets, provider: env}}\n"
    assert format_text(bare, ToolKinds()) == bare
    whole = bare.replace("provider: env", "secret: s")
    assert format_text(whole, ToolKinds()) == whole.replace(
        "{t1: {kind: secrets, secret: s}}", "{name: t1, kind: secrets, secret: s}"
    )


def test_every_way_to_end_a_line_becomes_one_also_inside_of_code() -> None:
    text = "workflow:\r\r\n  - step: a\r\r\n    tool:\r\r\n      kind: python\r\r\n      code: |\r\r\n        x = 1\r\r\n        y = 2\r\r\n"
    once = format_text(text)
    assert once is not None
    assert "\r" not in once
    assert format_text(once) == once
