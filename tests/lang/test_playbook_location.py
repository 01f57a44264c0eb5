"""Where something that failed stands in the text of its playbook."""

from __future__ import annotations

import pytest

from noetl.lang.reading.playbook_location import PlaybookLocation, find_code_line, find_location, find_workbook_location

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
        ("fetch", "{{ ctx.url }}", PlaybookLocation(11, "input.url")),
        ("fetch", "{{ output.data.total }}", PlaybookLocation(13, "set: ctx.total")),
        ("store", "echo {{ ctx.url }}\ntrue\n", PlaybookLocation(16, "cmd")),
        (None, "{{ ctx.day }}", PlaybookLocation(6, "input.day")),
        (None, "{{ ctx.n > 1 }}", PlaybookLocation(22, "next.arcs.when")),
        ("fetch", "{{ nowhere }}", PlaybookLocation(8)),
        ("store", None, PlaybookLocation(15)),
        ("nobody", None, PlaybookLocation(5)),
    ],
)
def test_a_template_is_found_in_its_task_or_else_its_step(
    task: str | None, expression: str | None, place: PlaybookLocation
) -> None:
    assert find_location(TEXT, "start", task, expression) == place


def test_what_is_not_in_the_text_has_no_place() -> None:
    assert find_location(TEXT, "other") is None
    assert find_location("- a list", "start") is None
    assert find_location("a: [", "start") is None


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
    assert find_workbook_location(WORKBOOK, "clean.parse") == PlaybookLocation(5)
    assert find_workbook_location(WORKBOOK, "clean.parse", "{{ input.nothing }}") == PlaybookLocation(7, "output")
    assert find_workbook_location(WORKBOOK, "one") == PlaybookLocation(8)
    assert find_workbook_location(WORKBOOK, "none") is None


CODE = """\
workbook:
  clean: {kind: python, code: "result = 1 / 0"}
workflow:
  - step: start
    tool:
      - name: block
        kind: python
        code: | # a comment

          def main():
              return 1 / 0
      - quoted: {kind: python, code: "a = 1\\nresult = a / 0"}
      - kind: python
        code: >-
          a = 1


          def main():
              return a / 0
      - name: joined
        kind: python
        code: >
          result = (1 /
          0)

          x = 1
      - while:
          when: "{{ true }}"
          do:
            - {kind: noop}
            - {kind: python, code: "result = 1 / 0"}
"""


@pytest.mark.parametrize(
    ("task", "workbook", "line", "found"),
    [
        ("block", None, 2, 10),
        ("block", None, 3, 11),
        ("block", None, 30, None),
        ("quoted", None, 2, 12),
        ("task_3", None, 1, 15),
        ("task_3", None, 4, 19),
        ("joined", None, 1, 23),
        ("joined", None, 2, 26),
        ("joined", None, 9, None),
        ("while_5_task_2", None, 1, 31),
        ("nobody", None, 1, None),
        ("call", "clean", 1, 2),
        ("call", "nobody", 1, None),
    ],
)
def test_a_line_of_code_is_found_where_the_playbook_shows_it(
    task: str, workbook: str | None, line: int, found: int | None
) -> None:
    assert find_code_line(CODE, line, "start", task, workbook) == found
