"""What holds for every text, whatever it is: it is answered, rewritten without loss, and never costs too much."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from forkserver import ForkServer
from hypothesis import HealthCheck, given, settings, strategies as st
from thorough import up_to

from noetl.lang.legacy import migrate
from noetl.lang.loader import Loaded, load, load_bytes
from noetl.lang.printing.formatter import format_text
from noetl.model.diagnostics import Severity, Span
from noetl.tools.registry import ToolKinds

sys.path.insert(0, str(Path(__file__).parent))
import playbooks

KINDS = ToolKinds()
#: a task under its label gets a `name`, which older dialects took for what is called; it was missing before
FORMATTED = {"legacy-secrets-name": "missing-key", "legacy-workbook-name": "missing-key"}


# -- what is claimed


def answered(loaded: Loaded) -> Loaded:
    """Every problem has a text and a place within the source; there is a net exactly if there is no error."""
    lines = loaded.source.text.split("\n")
    for found in loaded.diagnostics:
        assert found.message.strip(), found
        # The first key of a map that was lowered may come from elsewhere; see `test_the_span_of_a_missing_key`.
        ordered = found.code != "missing-key"
        assert found.span is None or is_within(found.span, lines, ordered=ordered), found
    assert (loaded.net is None) == (not loaded.ok), loaded.diagnostics
    return loaded


def is_within(span: Span, lines: list[str], *, ordered: bool) -> bool:
    def on_line(line: int, column: int) -> bool:
        return 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 2

    ends = (span.line, span.column) <= (span.end_line, span.end_column)
    return (ends or not ordered) and on_line(span.line, span.column) and on_line(span.end_line, span.end_column)


def check_load(text: str) -> Loaded:
    plain = answered(load(text, KINDS))
    strict = load(text, KINDS, strict=True)
    assert [found.code for found in strict.diagnostics] == [found.code for found in plain.diagnostics]
    answered(load(text, KINDS, legacy=True))
    return plain


def check_migrate(text: str) -> None:
    migrated = migrate(text, KINDS)
    if migrated is None:
        return
    assert migrated.changed == (migrated.text != text)
    lost = comments(text) - comments(migrated.text)
    assert not lost, f"lost {lost}:\n{migrated.text}"
    again = migrate(migrated.text, KINDS)
    assert again is not None
    assert again.text == migrated.text, f"first:\n{migrated.text}\nsecond:\n{again.text}"
    if load(text, KINDS, legacy=True).ok:
        errors = [found for found in load(migrated.text, KINDS).diagnostics if found.severity is Severity.ERROR]
        assert not errors, f"{errors}\n{migrated.text}"


def check_format(text: str) -> None:
    formatted = format_text(text)
    if formatted is None:
        return
    assert format_text(formatted) == formatted
    before, after = load(text, KINDS), load(formatted, KINDS)
    codes = [
        Counter(FORMATTED.get(found.code, found.code) for found in loaded.diagnostics) for loaded in (before, after)
    ]
    assert codes[0] == codes[1], f"{codes[0] - codes[1]} {codes[1] - codes[0]}\n{formatted}"
    assert dump(before.net) == dump(after.net), formatted


def dump(node: Any) -> Any:
    """What a net says, without where it says it."""
    if isinstance(node, Span):
        return None
    if isinstance(node, msgspec.Struct):
        return {name: dump(getattr(node, name)) for name in node.__struct_fields__}
    if isinstance(node, dict):
        return [(key, dump(value)) for key, value in sorted(node.items(), key=lambda item: str(item[0]))]
    if isinstance(node, list | tuple):
        return [dump(item) for item in node]
    if hasattr(node, "tree"):
        return dump(node.tree)
    return node.source if hasattr(node, "source") else node


_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")


def comments(text: str) -> Counter[str]:
    """The comments of a text: what begins with # between two tokens, and beside the `|` of a block scalar."""
    found: list[str] = []
    end = 0
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        start, stop = token.start_mark.index, token.end_mark.index
        found += _COMMENT.findall(text, end, start) if start > end else []
        if isinstance(token, yaml.ScalarToken) and text[start : start + 1] in ("|", ">"):
            found += _COMMENT.findall(re.split("[\r\n\x85\u2028\u2029]", text[start:stop])[0])
        end = max(end, stop)
    found += _COMMENT.findall(text, end)
    return Counter(one.rstrip() for one in found)


# -- texts of every sort

Make = Callable[[Random], str]


def holds(check: Callable[[str], object], make: Make, seeds: range) -> None:
    """The check holds for every text that the seeds make; a seed that breaks it is told."""
    for seed in seeds:
        text = make(Random(seed))
        try:
            check(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n--- the text:\n{text}") from error


def wild(rng: Random) -> str:
    return playbooks.written(rng, playbooks.wild(rng))


def nearly(rng: Random) -> str:
    return playbooks.written(rng, playbooks.nearly(rng))


def mutated(rng: Random) -> str:
    return playbooks.mutated(rng, rng.choice(playbooks.corpus()).text)


def test_any_bytes_are_answered() -> None:
    for seed in range(up_to(8000, 2500)):
        data = playbooks.noise(Random(seed))
        try:
            answered(load_bytes(data, KINDS))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {data!r}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count"), [(wild, up_to(2000, 600)), (mutated, up_to(3000, 900)), (nearly, up_to(400, 150))]
)
def test_any_text_is_answered(make: Make, count: int) -> None:
    holds(check_load, make, range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count"),
    [(wild, up_to(1000, 350)), (mutated, up_to(1200, 400)), (nearly, up_to(400, 130)), (playbooks.wide, up_to(70, 30))],
)
def test_any_text_is_migrated_once_and_with_its_comments(make: Make, count: int) -> None:
    holds(check_migrate, make, range(50_000, 50_000 + count))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count"), [(wild, up_to(500, 200)), (mutated, up_to(600, 250)), (nearly, up_to(200, 80))]
)
def test_any_text_is_formatted_without_a_change_of_meaning(make: Make, count: int) -> None:
    holds(check_format, make, range(80_000, 80_000 + count))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.text(max_size=60), st.text(alphabet="ab1 \n:-?,[]{}#&*!|>'\"%\t\r<=~", max_size=60)))
def test_any_characters_are_answered(text: str) -> None:
    for one in (text, f"workflow:\n- step: a\n  {text}\n"):
        check_load(one)
        check_migrate(one)
        check_format(one)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_binary_is_answered(data: bytes) -> None:
    answered(load_bytes(data, KINDS))
    answered(load_bytes(playbooks.HEAD.encode() + data, KINDS))


# -- the corpus


@pytest.mark.parametrize("one", playbooks.corpus(), ids=lambda one: one.name)
def test_the_corpus_has_these_properties_too(one: playbooks.Text) -> None:
    check_load(one.text)
    check_migrate(one.text)
    check_format(one.text)


def canonical() -> Iterator[playbooks.Text]:
    """The playbooks of today that have no errors, and no kinds of errors by their older names."""
    for one in playbooks.corpus():
        expected = one.case.get("expect", {})
        if one.case.get("legacy") or "diagnostics" in expected or "/legacy/" in one.name:
            continue
        loaded = load(one.text, KINDS)
        if loaded.ok and not any(told.code == "unknown-error-kind" for told in loaded.diagnostics):
            yield one


def test_what_is_canonical_is_migrated_byte_for_byte() -> None:
    ones = [*canonical()]
    assert len(ones) > 200
    for one in ones:
        migrated = migrate(one.text, KINDS)
        assert migrated is not None
        asks = "# TODO noetl:" in migrated.text  # of branches that meet, in every file
        assert asks or migrated.text == one.text, one.name
        assert yaml.safe_load(migrated.text) == yaml.safe_load(one.text), one.name


# -- limits

BOMBS = {
    "aliases": "'a0: &a0 [x,x,x,x,x,x,x,x,x]\\n' + ''.join(f'a{n}: &a{n} [' + ','.join([f'*a{n-1}']*9) + ']\\n' for n in range(1, 40))",
    "merges": "'a0: &a0 {x: 1}\\n' + ''.join(f'a{n}: &a{n} {{<<: [' + ','.join([f'*a{n-1}']*9) + f'], k{n}: 1}}\\n' for n in range(1, 2000))",
    "9 MB": "'a: ' + 'x' * 9_000_000",
    "8 MB of blanks": "' ' * 7_999_999",
    "65 deep": "''.join('  ' * n + f'k{n}:\\n' for n in range(65)) + '  ' * 65 + 'x: 1\\n'",
    "flow": "'a: ' + '[' * 100_000",
    "closed flow": "'a: ' + '[' * 5_000 + ']' * 5_000",
    "flow maps": "'{a: ' * 50_000",
    "an integer": "'a: ' + '9' * 1_000_000",
    "a hexadecimal": "'a: 0x' + 'f' * 1_000_000",
    "a float": "'a: 1e' + '9' * 100_000",
    "a line": "'workflow: [' + '{step: a}, ' * 5_000 + ']'",
    "keys": "HEAD + 'workflow: [{step: a}]\\nworkload:\\n' + ''.join(f'  k{n}: 1\\n' for n in range(100_000))",
    "unknown keys": "''.join(f'k{n}: 1\\n' for n in range(20_000))",
    "the same key": "'k: 1\\n' * 100_000",
    "a scalar": "HEAD + 'workflow:\\n  - step: a\\n    tool: {kind: python, code: \"' + 'x' * 1_000_000 + '\"}\\n'",
    "targets": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n' + ''.join(f'      ctx.k{n}: 1\\n' for n in range(50_000))",
    "no targets": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n' + ''.join(f'      x.k{n}: 1\\n' for n in range(50_000))",
    "arcs": "HEAD + 'workflow:\\n  - step: a\\n    next:\\n      arcs:\\n' + ''.join(f'        - step: s{n}\\n' for n in range(50_000))",
    "huge integers": "HEAD + 'workload:\\n  a:\\n' + '    - 99999999999999999999\\n' * 100_000",
    "filters": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n' + ''.join(f'      ctx.k{n}: \"{{{{ 1 | lenght{n} }}}}\"\\n' for n in range(20_000))",
    "bad templates": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n' + ''.join(f'      ctx.k{n}: \"{{{{ {n} + }}}}\"\\n' for n in range(20_000))",
    "an expression": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n      ctx.a: \"{{ ' + ' ~ '.join(['ctx.a'] * 125_000) + ' }}\"\\n'",
    "a long text": "HEAD + 'workflow:\\n  - step: a\\n    set:\\n      ctx.a: \"' + '{{ ctx.a }}' * 90_000 + '\"\\n'",
    "a workbook": "HEAD + 'workbook:\\n' + ''.join(f'  w{n}: {{kind: noop}}\\n' for n in range(2_000)) + 'workflow:\\n' + ''.join(f'  - {{step: s{n}, tool: {{kind: workbook, task: w{n}}}}}\\n' for n in range(2_000))",
    "a template": "HEAD + 'workflow:\\n  - step: a\\n    set: {ctx.a: \"{{ ' + '(' * 50_000 + ' }}\"}\\n'",
    "anchors": "''.join(f'k{n}: &a{n} v\\n' for n in range(5_000)) + ''.join(f'l{n}: *a{n}\\n' for n in range(5_000))",
    "open anchors": "''.join('  ' * n + f'k{n}: &a{n}\\n' for n in range(60)) + '  ' * 60 + 'x: *a1\\n'",
    "documents": "'---\\na: 1\\n' * 100_000",
    "comments": "'# c\\n' * 500_000 + 'a: 1\\n'",
}
#: a program; its arguments are an expression for the text, and the head of a playbook
CHILD = """
import json, sys, time
from noetl.lang.loader import load_bytes
from noetl.tools.registry import ToolKinds
HEAD = sys.argv[2]
load_bytes(b"a: 1", ToolKinds())
data = eval(sys.argv[1]).encode()
start = time.process_time()
loaded = load_bytes(data, ToolKinds(), legacy=True)
took = time.process_time() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"s": took, "mb": peak / 1024, "ok": loaded.ok, "net": loaded.net is not None,
                  "said": [found.message[:200] for found in loaded.diagnostics[:3]]}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_is_answered_in_a_second_and_256_mb(name: str, tmp_path: Path, forkserver: ForkServer) -> None:
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    done = forkserver.run(BOMBS[name], playbooks.HEAD, cwd=tmp_path, env=os.environ, program=program)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["ok"] == told["net"], told
    assert told["ok"] or told["said"], told
    assert told["s"] < 1.0 * PATIENCE, told
    assert told["mb"] < 256, told


#: how much slower than promised a busy machine may be
PATIENCE = 20


# -- what was once wrong


def playbook(steps: str) -> str:
    return playbooks.HEAD + "workflow:\n" + steps


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "keychain:\n  db:\n    x: 1\nworkflow: []\n", id="the span of a keychain map ended before its start"
        ),
        pytest.param("keychain: {db: {}}\n", id="so did that of an empty one"),
    ],
)
def test_spans_are_in_order(text: str) -> None:
    check_load(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            playbook("- name: a\n  sink: {kind: postgres, table: t, auth: db}\n"),
            id="`name` of a step with only a sink",
        ),
        pytest.param(
            playbook("- step: a\n  next: [{step: b, args: {x: 1}, with: {y: 2}}]\n- step: b\n"),
            id="an arc's `with` and `args`",
        ),
        pytest.param(
            playbook("- step: a\n  tool: {kind: secrets}\n  sink: {kind: postgres, table: t}\n"),
            id="the name that a secrets task was given became its secret",
        ),
        pytest.param(
            playbook("- step: a\n  case: [{when: '{{ ctx.x }}', then: {set: {a: 1}}}]\n"), id="bare targets of a `case`"
        ),
        pytest.param(
            playbook("- step: a\n  set: {a: 1, ctx.a: 2}\n"), id="a bare target that would become a key twice"
        ),
        pytest.param(
            playbook("- step: a\n  tool: {kind: http, endpoint: x, spec: {endpoint: y}}\n"),
            id="`endpoint` at both levels",
        ),
        pytest.param(
            playbooks.HEAD + "executor: {spec: {entry_step: a}}\nworkflow:\n- name: a\n  next: []\n",
            id="`entry_step` of steps with a `name`",
        ),
        pytest.param(
            playbook(
                "- step: a\n  loop: {in: [1], element: item}\n  next: [{when: '{{ item }}', then: [{step: a, args: {a: 1}}]}]\n"
            ),
            id="a TODO was asked again from another place",
        ),
    ],
)
def test_a_second_migration_finds_nothing_to_do(text: str) -> None:
    migrated = migrate(text, KINDS)
    assert migrated is not None
    check_migrate(text)
    problems = load(migrated.text, KINDS).diagnostics
    assert not [found for found in problems if found.code in ("yaml-syntax", "duplicate-key")]


def test_the_span_of_a_missing_key() -> None:
    loaded = load("path: p\nkind: Playbook\nmetadata: {}\nworkflow: []\n", KINDS)
    spans = [found.span for found in loaded.diagnostics if found.span]
    assert all((span.line, span.column) <= (span.end_line, span.end_column) for span in spans)


WIDE = """\
- step: a
  next:
  - step: b
    args:
      long: ['{{ ctx.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa }}', '{{ ctx.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb }}']
- step: b
"""


def test_a_flow_list_that_no_longer_fits_is_still_yaml() -> None:
    check_migrate(playbook(WIDE))


def test_a_step_writes_a_name_once_whether_nested_or_flat() -> None:
    """`vars` took the place of a flat target and stood beside a nested one; what it said is left to a person."""
    for writes in ("{ctx: {b: 1}}", "{ctx.b: 1}"):
        migrated = migrate(playbook(f"- step: a\n  tool: {{kind: noop}}\n  set: {writes}\n  vars: {{b: 2}}\n"), KINDS)
        assert migrated is not None
        assert load(migrated.text, KINDS).ok
        assert "b: 1" in migrated.text
        assert "b: 2`: decide which holds" in migrated.text


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2\nvars: {x: 1}\nworkflow: []\n", "a: !!str 1\nvars: {x: 1}\nworkflow: []\n"]
)
def test_a_text_that_is_not_read_in_full_is_not_rewritten(text: str) -> None:
    """One of two equal keys, and a tag, were dropped from the file."""
    migrated = migrate(text, KINDS)
    assert migrated is not None
    assert (migrated.text, migrated.changed) == (text, False)
    assert migrated.diagnostics
