"""Names that templates read and nothing gives: told with the one that was meant, and mended where that is certain."""

import pytest

from noetl.lang.loader import load
from noetl.lang.printing.diagnostic_report import apply_edits
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkload: {greeting: Hello, hosts: [1]}\n"
KINDS = ToolKinds()
LOOP = "loop: {in: '{{ workload.hosts }}', iterator: host}"
NEST = "loop: {in: [1], iterator: city, loop: {in: '{{ iter.city }}', iterator: hotel}}"


def found(step: str) -> tuple[str, tuple[Diagnostic, ...]]:
    text = f"{HEAD}workflow:\n  - {{step: a, {step}}}\n"
    return text, load(text, KINDS).diagnostics


def reading(expression: str, loop: str = LOOP, more: str = "") -> str:
    return f"{loop}, tool: {{kind: noop, output: '{{{{ {expression} }}}}'{more}}}"


@pytest.mark.parametrize(
    ("step", "message", "fix"),
    [
        (reading("iter.hst"), "nothing writes `iter.hst`", "did you mean `iter.host`?"),
        (reading("iter.page"), "nothing writes `iter.page`", "write it with `set`"),
        (reading("iter.parent.cty", NEST), "nothing writes `iter.parent.cty`", "did you mean `iter.parent.city`?"),
        (reading("iter.host", "loop: {in: '{{ iter.b }}', iterator: b, loop: {in: [1], iterator: host}}"), "", ""),
        (reading("iter.pag", more=", set: {iter.page: 1}"), "nothing writes `iter.pag`", "did you mean `iter.page`?"),
    ],
)
def test_what_nothing_puts_into_an_iteration_is_told_with_what_was_meant(step: str, message: str, fix: str) -> None:
    _, diagnostics = found(step)
    told = [(one.message, one.fix) for one in diagnostics if one.code == "never-set"]
    assert told == ([(message, fix)] if message else [])


@pytest.mark.parametrize(
    "step",
    [
        reading("iter.host.name ~ iter.index"),
        reading("iter.parent.city ~ iter.parent.index ~ iter.hotel", NEST),
        reading("iter"),
        reading("iter.page | default(1)", more=", set: {iter.page: 1}"),
        reading("iter.page", more=", spec: {policy: {rules: [{when: true, then: {set: {iter.page: 1}}}]}}"),
        reading("iter.deep.er", more=", set: {iter: {deep: {er: 1}}}"),
        reading("iter.anything", "loop: {in: [1]}"),
    ],
)
def test_what_the_loop_or_a_set_puts_into_an_iteration_is_not_told(step: str) -> None:
    assert "never-set" not in [one.code for one in found(step)[1]]


@pytest.mark.parametrize(
    ("step", "mended"),
    [
        (reading("workload.greting"), "{{ workload.greeting }}"),
        (reading("iter.hsot"), "{{ iter.host }}"),
        (reading("output.statsu"), "{{ output.status }}"),
    ],
)
def test_a_name_that_can_only_be_misspelt_is_mended(step: str, mended: str) -> None:
    text, diagnostics = found(step)
    (one,) = (one for one in diagnostics if one.edits)
    after = apply_edits(text, one.edits)
    assert mended in after
    assert load(after, KINDS).diagnostics == ()


@pytest.mark.parametrize(
    ("part", "fix"),
    [
        ("response", "write `output.data`"),
        ("status_code", "write `output.http.status`"),
        ("stdout", "write `output.data.stdout`"),
        ("message", "write `output.error.message`"),
        ("dta", "did you mean `output.data`?"),
        ("zebra", "an output has: data, error, http, loop, meta, pg, py, ref, status"),
    ],
)
def test_a_part_that_no_output_has_is_told_with_what_to_write(part: str, fix: str) -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n"
        f"  - {{step: a, tool: {{kind: noop}}, set: {{ctx.x: '{{{{ output.{part} }}}}'}}}}\n"
    )
    found = [one for one in load(text, ToolKinds()).diagnostics if one.code == "unknown-name"]
    assert [(one.message, one.fix) for one in found] == [(f"`output` has no `{part}`", fix)]
