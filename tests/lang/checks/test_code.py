"""Python code in a playbook: told by the line and column of the playbook, before anything runs."""

import pytest

from noetl.lang.loader import load
from noetl.model.diagnostics import Severity
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


def marked(tool: str, step: str = "") -> list[tuple[str, int, str]]:
    """Each problem's code, line below the head, and the text it points at."""
    text = f"{HEAD}workflow:\n- step: a\n{step}  tool:\n{tool}"
    lines = text.splitlines()
    return [
        (one.code, one.span.line - 5, lines[one.span.line - 1][one.span.column - 1 : one.span.end_column - 1])
        for one in load(text, KINDS).diagnostics
        if one.span is not None
    ]


def block(code: str) -> str:
    return "    kind: python\n    code: |\n" + "".join(f"      {line}\n" for line in code.split("\n"))


def test_a_syntax_error_is_told_where_it_stands_in_the_playbook() -> None:
    assert marked(block("def main():\n    x = 1\n    return x +* 2\n")) == [("python-syntax", 6, "*")]
    assert marked(block("\ndef main(:\n    pass")) == [("python-syntax", 5, ":")]


@pytest.mark.parametrize("code", ["'x = (1 +* 2)'", '"x = (1 +* 2)"', "x = (1 +* 2)"])
def test_a_syntax_error_in_code_on_one_line_is_told_there(code: str) -> None:
    assert marked(f"    kind: python\n    code: {code}\n") == [("python-syntax", 3, "*")]


def test_code_that_is_folded_is_marked_as_a_whole() -> None:
    assert marked("    kind: python\n    code: >\n      x = (1 +* 2)\n")[0][:2] == ("python-syntax", 3)


def test_a_template_in_code_is_called_by_its_name() -> None:
    text = f"{HEAD}workflow:\n- step: a\n  tool:\n{block('x = {% if a %}')}"
    assert "never a template" in (load(text, KINDS).diagnostics[0].fix or "")


@pytest.mark.parametrize("code", ["return 1", "await x", "result = '\\d'", "result = {{1}}", "def main(): return 1"])
def test_what_the_language_allows_at_top_level_is_no_mistake(code: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert marked(block(code)) == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("code", ["(" * 50_000, "-" * 50_000 + "1"])
def test_code_that_no_parser_takes_is_told_and_not_raised(code: str) -> None:
    assert [code for code, _, _ in marked(block(code))] == ["python-syntax"]


@pytest.mark.parametrize(
    ("signature", "missing"),
    [
        ("a, b", ["b"]), ("a, b=1", []), ("a, *, c", ["c"]), ("a, *, c=1", []), ("*args, **kwargs", []), ("context, results", []),
        ("input_data", []), ("s, a", []), ("", []), ("ä, b", ["ä", "b"]),
    ],
)  # fmt: skip
def test_an_argument_that_no_input_gives_is_missed(signature: str, missing: list[str]) -> None:
    code = block(f"def main({signature}):\n    return locals()")
    found = marked(f"    input: {{a: 1}}\n{code}", step="  input: {s: 1}\n")
    assert [(code, text) for code, _, text in found] == [("missing-argument", name) for name in missing]


def test_a_task_with_a_credential_hands_it_to_main_as_auth() -> None:
    code = block("def main(auth, b):\n    return auth")
    asked = [
        [text for slug, _, text in marked(task) if slug == "missing-argument"]
        for task in (f"    auth: crm\n{code}", code)
    ]
    assert asked == [["b"], ["auth", "b"]]


def test_an_input_that_is_a_template_may_give_anything() -> None:
    assert marked("    input: '{{ workload.all }}'\n" + block("def main(b):\n    return b")) == []


def test_a_missing_argument_is_a_warning() -> None:
    (found,) = load(f"{HEAD}workflow:\n- step: a\n  tool:\n{block('def main(b): pass')}", KINDS).diagnostics
    assert found.severity is Severity.WARNING


def test_the_workbook_gets_its_arguments_from_its_callers() -> None:
    text = f"{HEAD}workbook: {{w: {{kind: python, code: 'def main(b): return b'}}}}\nworkflow:\n- {{step: a, tool: {{kind: workbook, task: w, input: {{b: 1}}}}}}\n"
    assert load(text, KINDS).diagnostics == ()


@pytest.mark.parametrize(
    ("code", "mark"),
    [
        ("total = 1 + 1", "total = 1 + 1"),
        ("def run(a):\n    result = a\n    return result", "run"),
        ("async def go():\n    return 1", "go"),
        ("x = 1\ndef one(): pass\ndef two(): pass\nx + 1", "x + 1"),
        ("for n in range(3):\n    n += 1", "for n in range(3):"),
        ("x = " + "1 + " * 1000 + "1", "x = " + "1 + " * 1000 + "1"),
    ],
)
def test_code_that_computes_and_hands_back_nothing_is_told(code: str, mark: str) -> None:
    assert [(code, mark) for code, _, mark in marked(block(code))] == [("returns-nothing", mark)]


def test_the_only_function_is_taken_for_a_misnamed_main() -> None:
    (found,) = load(f"{HEAD}workflow:\n- step: a\n  tool:\n{block('def run(): return 1')}", KINDS).diagnostics
    assert found.severity is Severity.WARNING
    assert found.fix == "nothing calls `run`; did you mean `main`?"


@pytest.mark.parametrize(
    "code",
    [
        "def main():\n    print(1)",
        "if True:\n    result = 1",
        "for result in [1]: pass",
        "(result := 1)",
        "result: int = 1",
        "with open('x') as result: pass",
        "from json import loads as result",
        "def f():\n    global result\n    result = 1\nf()",
        "if True:\n    return 1",
        "print('done')",
        "import os\nos.environ['A'] = '1'",
        "pass",
        "'''Nothing yet.'''",
        "raise ValueError('no')",
        "globals()['result'] = 1",
    ],
)
def test_code_that_hands_back_something_or_only_acts_is_not_told(code: str) -> None:
    assert marked(block(code)) == []


def test_code_that_only_acts_is_told_where_a_template_reads_what_it_returned() -> None:
    reads = "  set: {ctx.x: '{{ output.data.x }}'}\n"
    assert [one[0] for one in marked(block("print(1)"), reads)] == ["returns-nothing"]


def test_a_script_may_hand_back_its_input_as_it_is() -> None:
    found = marked(block("print(1)") + "    input: {result: 1}\n    output: '{{ output.data }}'\n")
    assert "returns-nothing" not in [one[0] for one in found]


def test_what_a_finally_task_returns_is_not_what_the_step_exposes() -> None:
    hook = "finally: [{kind: python, code: \"print('bye')\"}]"
    step = f'- step: start\n  tool: {{kind: noop}}\n  spec: {{policy: {{{hook}}}}}\n  set: {{ctx.n: "{{{{ output.data }}}}"}}\n'
    loaded = load(HEAD + step, ToolKinds())
    assert [one.code for one in loaded.diagnostics if one.code == "returns-nothing"] == []


@pytest.mark.parametrize(
    ("code", "line", "mark"),
    [
        ('def main():\n    return "{{ iter.x }}"', 5, "{{ iter.x }}"),
        ("result = int('{{workload.n}}') + 1", 4, "{{workload.n}}"),
        ('x = """\nä {{ ctx.a | default(1) }}\n"""\nresult = x', 5, "{{ ctx.a | default(1) }}"),
        ("result = ('ä', {{ workload.n }})", 4, "{{ workload.n }}"),
        ("result = '{{ keychain.crm.token }}'", 4, "{{ keychain.crm.token }}"),
        ("result = 1 if 'a' == '{{ iter.kind }}' else 2", 4, "{{ iter.kind }}"),
        ("result = '{{ execution_id }}'", 4, "{{ execution_id }}"),
    ],
)
def test_a_template_that_code_holds_as_text_is_told(code: str, line: int, mark: str) -> None:
    assert marked(block(code)) == [("template-in-code", line, mark)]


@pytest.mark.parametrize(
    ("template", "fix"),
    [
        (
            "{{ workload.city }}",
            'write `city: "{{ workload.city }}"` under the task\'s `input`, and `city` in the code',
        ),
        ('{{ ctx["a"] }}', "write `ctx: '{{ ctx[\"a\"] }}'` under the task's `input`, and `ctx` in the code"),
        ("{{ ctx.class }}", 'write `value: "{{ ctx.class }}"` under the task\'s `input`, and `value` in the code'),
        ("{{ input.city }}", "write `city`: the keys of `input` are names in the code"),
        ("{{ ctx.a ~ " + "1" * 60 + " }}", "write `a: …` under the task's `input`, and `a` in the code"),
    ],
)
def test_the_way_out_of_a_template_in_code_is_a_key_of_input(template: str, fix: str) -> None:
    code = block(f"result = '''{template}'''")
    (found,) = load(f"{HEAD}workflow:\n- step: a\n  tool:\n{code}", KINDS).diagnostics
    assert (found.code, found.severity) == ("template-in-code", Severity.WARNING)
    assert found.fix == fix


def test_a_thousand_templates_in_code_are_not_all_told() -> None:
    assert len(marked(block("result = '" + "{{ ctx.a }}" * 1000 + "'"))) == 100


@pytest.mark.parametrize(
    "code",
    [
        "workload = 1\nresult = f'{{ workload.n }}'",
        "result = f'''\n{{ workload.n }} {1}\n'''",
        "result = '{{ workload.n }} {}'.format(1)",
        "text = input()\nresult = text.replace('{{ workload.n }}', '1')",
        "text = input()\nresult = '{{ workload.n }}' in text",
        "result = '{{ name }} {{workloads.n}} {{1}} {{}}'",
        "input = 1\nresult = {frozenset({input})}",
        "def main():\n    '''Puts {{ workload.n }} in.'''\n    return 1",
        "result = 1  # {{ workload.n }}",
        "import jinja2\nresult = jinja2.Template('{{ workload.n }}').render(workload={'n': 1})",
        "result = '${{ secrets.TOKEN }}'",
    ],
)
def test_braces_in_code_that_are_no_template_of_the_playbook_are_not_told(code: str) -> None:
    assert marked(block(code)) == []


def test_code_that_makes_a_plan_may_hold_the_templates_of_its_steps() -> None:
    code = block("result = [{'step': 'b', 'tool': {'kind': 'noop', 'output': '{{ workload.n }}'}}]")
    plan = "  next: {spec: {synthesize: {from: '{{ output.data }}'}}}\n"
    assert [one[0] for one in marked(code)] == ["template-in-code"]
    assert marked(code, plan) == []
