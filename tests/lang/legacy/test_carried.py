"""What tokens carried: written with `set` where that says the same, and left where it does not."""

from migrating import errors, migrated

ONE = """\
workflow:
  - step: a
    tool: {kind: noop}
    next: {arcs: [{step: b, args: {k: 1}}]}
  - step: b
    %s
    tool: {kind: noop, output: "{{ args.k }}"}
"""
TWO = """\
workflow:
  - step: a
    tool: {kind: noop}
    next: {arcs: [%s]}
  - step: c
    tool: {kind: noop}
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: noop, output: "{{ args.k | default(0) }}"}
"""


def test_args_that_not_every_arc_carries_are_left() -> None:
    body = TWO % "{step: b, args: {k: 1}}, {step: c}"
    text, todo = migrated(body)
    assert "args.k | default(0)" in text
    assert len(todo) == 1
    assert "not every token that comes to `b` brings `k`" in todo[0]
    assert errors(text) == []


def test_args_that_come_back_to_the_first_step_are_left() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: start
            tool: {kind: noop, output: "{{ args.page | default(1) }}"}
            next: {arcs: [{step: start, args: {page: 2}}]}
        """
    )
    assert "args: {page: 2}" in text
    assert len(todo) == 1


def test_several_tokens_at_once_keep_their_own_args() -> None:
    text, todo = migrated(
        """\
        workflow:
          - step: a
            tool: {kind: noop}
            next: {spec: {mode: inclusive}, arcs: [{step: b, args: {k: 1}}, {step: b, args: {k: 2}}]}
          - step: b
            tool: {kind: noop, output: "{{ args.k }}"}
        """
    )
    assert "{{ args.k }}" in text
    assert "several tokens go to `b` at once" in todo[0]


def test_an_input_that_works_on_an_argument_still_does() -> None:
    text, todo = migrated(ONE % 'input: {k: "{{ args.k | default(5) }}", j: "{{ args.k + 1 }}"}')
    assert 'k: "{{ ctx.b_k | default(5) }}"' in text
    assert 'j: "{{ ctx.b_k + 1 }}"' in text
    assert 'output: "{{ ctx.b_k }}"' in text
    assert todo == []


def test_an_input_of_the_same_name_is_kept_and_told_apart() -> None:
    text, todo = migrated(ONE % "input: {k: 5}")
    assert "k: 5" in text
    assert 'output: "{{ ctx.b_k }}"' in text
    assert todo == ["arcs bring `k` too, as `ctx.b_k`: decide which of them is meant"]


def test_an_input_that_is_one_template_is_kept() -> None:
    text, todo = migrated(ONE % 'input: "{{ workload.all }}"')
    assert 'input: "{{ workload.all }}"' in text
    assert 'output: "{{ ctx.b_k }}"' in text
    assert len(todo) == 1


def test_args_that_are_read_as_a_whole_are_left() -> None:
    text, todo = migrated(ONE % 'input: {all: "{{ args }}"}')
    assert "args: {k: 1}" in text
    assert todo == ["`b` reads `args` as a whole: write what it needs with `set`, one by one"]


def test_args_that_are_no_map_are_left() -> None:
    text, todo = migrated((ONE % "desc: x").replace("{k: 1}", '"{{ output.data }}"'))
    assert 'args: "{{ output.data }}"' in text
    assert len(todo) == 1


def test_a_list_of_writes_beside_args_is_kept() -> None:
    text, _ = migrated((ONE % "desc: x").replace("args: {k: 1}", "args: {k: 1}, set: [{name: z, value: 3}]"))
    assert "ctx.z: 3" in text
    assert "ctx.b_k: 1" in text


def test_what_a_token_brings_is_not_taken_for_an_input_of_the_same_name() -> None:
    body = TWO % "{step: b, args: {k: 1}}, {step: c}"
    text, _ = migrated(body.replace("- step: b\n", '- step: b\n    input: {k: "{{ args.k }}"}\n'))
    assert 'k: "{{ args.k }}"' in text
