"""Ways out: what a diagnostic marks, what it proposes, and the edit it brings where there is no doubt."""

import pytest

from noetl.lang.loader import load
from noetl.lang.printing.diagnostic_report import apply_edits
from noetl.model.diagnostics import Diagnostic
from noetl.tools.registry import ToolKinds

KINDS = ToolKinds()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkload: {n: 1}\nworkflow:\n"


def only(code: str, *steps: str) -> tuple[str, Diagnostic, str]:
    """The text, the one diagnostic of a code, and what it marks."""
    text = HEAD + "".join(f"  - {step}\n" for step in steps)
    (found,) = (one for one in load(text, KINDS).diagnostics if one.code == code)
    assert found.span is not None
    marked = text.splitlines()[found.span.line - 1][found.span.column - 1 : found.span.end_column - 1]
    return text, found, marked


def output(template: str) -> str:
    return f"{{step: a, tool: {{kind: noop, output: '{template}'}}}}"


@pytest.mark.parametrize(
    ("template", "marked", "fix", "mended"),
    [
        ("{{ workload.n == 1 && true }}", "&&", "write `and`", "{{ workload.n == 1 and true }}"),
        ("{{ workload.n || true }}", "||", "write `or`", "{{ workload.n or true }}"),
        ("x {{ !workload.n }}", "!", "write `not`", "x {{ not workload.n }}"),
        ("{{ workload.n = 1 }}", "=", "write `==` to compare", "{{ workload.n == 1 }}"),
        ("{{ workload.n === 1 }}", "===", "write `==`", "{{ workload.n == 1 }}"),
        ("{{ workload.n <> 1 }}", "<>", "write `!=`", "{{ workload.n != 1 }}"),
        ("{{ $workload.n }}", "$", "write the name without `$`", "{{ workload.n }}"),
        ("{{ workload.n ? 1 : 2 }}", "?", "write `this if condition else that`", None),
        ("{{ workload.n ?? 2 }}", "??", "write `| default(…)`", None),
        ("{{ workload.n == “x” }}", "“", "use straight quotes: ' or \"", None),
        ("{{ (workload.n }}", "}", "close the bracket with `)`", None),
        ("{{ 1 + }}", "}", "write what is missing before `}}`", None),
        ("{{ workload.n workload.n }}", "w", "put an operator between the two, such as `and`, `==` or `~`", None),
        ("{% if workload.n %}x", "x", "add `{% endif %}`", None),
    ],
)
def test_a_template_that_does_not_parse_is_told_with_the_way_out(
    template: str, marked: str, fix: str, mended: str | None
) -> None:
    text, found, mark = only("template-syntax", output(template))
    assert (mark, found.fix) == (marked, fix)
    assert " at " not in found.message
    if mended is None:
        assert found.edits == ()
    else:
        after = apply_edits(text, found.edits)
        assert mended in after
        assert load(after, KINDS).diagnostics == ()


@pytest.mark.parametrize(
    ("template", "marked", "fix", "mended"),
    [
        ("{{ workload.n | size }}", "size", "write `length`", "| length"),
        ("{{ workload.n | uper }}", "uper", "did you mean `upper`?", "| upper"),
        ("{{ workload.n | fromjson }}", "fromjson", "write `from_json`", "| from_json"),
        ("{{ workload.n is null }}", "null", "write `none`", "is none"),
        ("{{ workload.n | zzzzzz }}", "zzzzzz", "`noetl help unknown-filter` says which there are", None),
    ],
)
def test_an_unknown_filter_is_marked_whole_and_told_with_the_one_that_was_meant(
    template: str, marked: str, fix: str, mended: str | None
) -> None:
    text, found, mark = only("unknown-filter", output(template))
    assert (mark, found.fix) == (marked, fix)
    assert (mended or "") in apply_edits(text, found.edits)
    assert bool(found.edits) == (mended is not None)


def test_nil_is_called_none() -> None:
    text, found, mark = only("unknown-scope", output("{{ workload.n == nil }}"))
    assert (mark, found.fix) == ("nil", "write `none`")
    assert "== none" in apply_edits(text, found.edits)


NOOP = "tool: {kind: noop}"


@pytest.mark.parametrize(
    ("code", "steps", "marked", "mended"),
    [
        ("unknown-step", ("{step: start, next: {arcs: [{step: finsih}]}}", f"{{step: finish, {NOOP}}}"), "finsih", "step: finish}"),
        ("unknown-step", ("{step: start, next: {arcs: [{step: finish, cancel: [start, finsih]}]}}", f"{{step: finish, {NOOP}}}"),
         "finsih", "[start, finish]"),
        ("unknown-step", ("{step: start, next: {arcs: [{step: start, when: '{{ done(\"strat\") }}'}]}}",), "strat", 'done("start")'),
        ("unknown-step", ("{step: start, next: {arcs: [{step: start, when: '{{ steps.strat.status.ok }}'}]}}",), "steps.strat", "steps.start."),
        ("unknown-task", ("{step: a, tool: [{name: fetch, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: fetsh}}}]}}}]}",),
         "fetsh", "to: fetch}"),
        ("never-set", (f"{{step: a, set: {{ctx.total: 1}}, next: {{arcs: [{{step: a, when: '{{{{ ctx.totl > 1 }}}}'}}]}}, {NOOP}}}",),
         "ctx.totl", "ctx.total >"),
        ("never-set", (f"{{step: a, set: {{ctx.total: 1}}, next: {{arcs: [{{step: a, when: '{{{{ ctx[\"totl\"] > 1 }}}}'}}]}}, {NOOP}}}",),
         'ctx["totl"]', 'ctx["total"]'),
    ],
)  # fmt: skip
def test_a_name_with_one_near_neighbour_is_mended(code: str, steps: tuple[str, ...], marked: str, mended: str) -> None:
    text, found, mark = only(code, *steps)
    assert mark == marked
    after = apply_edits(text, found.edits)
    assert mended in after
    assert code not in [one.code for one in load(after, KINDS).diagnostics]


@pytest.mark.parametrize(
    ("wrong", "names"),
    [("fetch", ("fetcha", "fetchb")), ("page_3", ("page_1",)), ("abc", ("abd",))],
    ids=["two are near", "only the number differs", "too short to tell"],
)
def test_a_name_that_may_be_meant_otherwise_is_left_to_its_author(wrong: str, names: tuple[str, ...]) -> None:
    steps = [f"{{step: {name}, {NOOP}}}" for name in names]
    _, found, _ = only("unknown-step", f"{{step: start, next: {{arcs: [{{step: {wrong}}}]}}}}", *steps)
    assert "did you mean" in (found.fix or "")
    assert found.edits == ()


def test_thousands_of_unknown_names_are_told_without_comparing_each_with_each() -> None:
    steps = [f"{{step: s{n}, next: {{arcs: [{{step: t{n}}}]}}}}" for n in range(2_000)]
    text = HEAD + "".join(f"  - {step}\n" for step in steps)
    found = load(text, KINDS).diagnostics
    assert sum(one.code == "unknown-step" for one in found) == 2_000


@pytest.mark.parametrize(
    ("under", "fix"),
    [
        ("next: {arcs: []}", "`next` stands beside `set`, not under it: indent it less"),
        ("nxt: {arcs: []}", "did you mean `next`? `next` stands beside `set`, not under it: indent it less"),
        ("workload.a: 1", "write `ctx.a`; targets are `ctx.*`, `step.*` and, in a loop, `iter.*`"),
        ("output.a: 1", "write `ctx.a`; targets are `ctx.*`, `step.*` and, in a loop, `iter.*`"),
        ("total: 1", "write `ctx.total`; targets are `ctx.*`, `step.*` and, in a loop, `iter.*`"),
    ],
)
def test_a_line_indented_too_far_is_not_made_a_value(under: str, fix: str) -> None:
    _, found, _ = only("set-target", f"{{step: a, {NOOP}, set: {{ctx.b: 1, {under}}}}}")
    assert found.fix == fix
