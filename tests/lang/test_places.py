"""Where something that failed stands in the text of its playbook."""

from __future__ import annotations

import pytest

from noetl.lang.places import Place, place_of, workbook_place

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: p}
workflow:
  - step: start
    input: {day: "{{ ctx.day }}"}
    tool:
      - name: fetch
        kind: http
        input:
          url: "{{ ctx.url }}"
        set:
          ctx.total: "{{ output.data.total }}"
      - store:
          kind: shell
          cmd: |
            echo {{ ctx.url }}
            true
    next:
      arcs:
        - step: end
          when: "{{ ctx.n > 1 }}"
  - step: end
"""


@pytest.mark.parametrize(
    ("task", "expression", "place"),
    [
        ("fetch", "{{ ctx.url }}", Place(11, "input.url")),
        ("fetch", "{{ output.data.total }}", Place(13, "set: ctx.total")),
        ("store", "echo {{ ctx.url }}\ntrue\n", Place(16, "cmd")),
        (None, "{{ ctx.day }}", Place(6, "input.day")),
        (None, "{{ ctx.n > 1 }}", Place(22, "next.arcs.when")),
        ("fetch", "{{ nowhere }}", Place(8)),
        ("store", None, Place(15)),
        ("nobody", None, Place(5)),
    ],
)
def test_a_template_is_found_in_its_task_or_else_its_step(
    task: str | None, expression: str | None, place: Place
) -> None:
    assert place_of(TEXT, "start", task, expression) == place


def test_what_is_not_in_the_text_has_no_place() -> None:
    assert place_of(TEXT, "other") is None
    assert place_of("- a list", "start") is None
    assert place_of("a: [", "start") is None


WORKBOOK = """\
apiVersion: noetl.io/v2
workbook:
  clean:
    - {name: first, kind: noop}
    - name: parse
      kind: noop
      output: "{{ input.nothing }}"
  one: {kind: noop}
"""


def test_a_task_of_the_workbook_is_found_where_it_is_written() -> None:
    assert workbook_place(WORKBOOK, "clean.parse") == Place(5)
    assert workbook_place(WORKBOOK, "clean.parse", "{{ input.nothing }}") == Place(7, "output")
    assert workbook_place(WORKBOOK, "one") == Place(8)
    assert workbook_place(WORKBOOK, "none") is None
