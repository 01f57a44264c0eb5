"""What holds at the boundaries of tasks, steps and playbooks, in a whole house: schemas, restrictions, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_local_node import HEAD, Site, run

from noetl.model.state import Execution


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def ended(site: Site, steps: str, **payload: Any) -> Execution:
    state: Execution = run(site.run(steps, **payload))
    return state


# --- schemas ---------------------------------------------------------------------------------------------------------

NUMBER = "{type: object, required: [n], properties: {n: {type: integer}}}"


def test_a_task_whose_input_does_not_fit_is_not_run(site: Site) -> None:
    state = ended(
        site,
        f"- {{step: a, tool: {{kind: shell, cmd: touch ran, input: {{n: x}}, spec: {{validate: {{input: {NUMBER}}}}}}}}}\n",
    )
    assert state.error is not None
    assert (state.error["kind"], state.error["step"], state.error["task"]) == ("schema", "a", "a")
    assert (
        state.error["message"]
        == "the input of task `a` does not fit its schema: `input.n`: 'x' is not of type 'integer'"
    )
    assert not (site.folder / "ran").exists()


def test_a_task_whose_output_does_not_fit_fails_and_its_rules_see_it(site: Site) -> None:
    state = ended(
        site,
        f"""
- step: a
  tool:
    kind: noop
    output: {{n: 1.5}}
    set: {{ctx.never: 1}}
    spec:
      validate: {{output: {NUMBER}}}
      policy: {{rules: [{{when: "{{{{ output.error.kind == 'schema' }}}}", then: {{do: continue, set: {{ctx.said: "{{{{ output.error.problems[0].path }}}}"}}}}}}]}}
""",
    )
    assert state.status == "completed"
    assert state.ctx == {"said": "output.data.n"}


def test_what_fits_passes(site: Site) -> None:
    state = ended(
        site, f"- {{step: a, tool: {{kind: noop, output: {{n: 1}}, spec: {{validate: {{output: {NUMBER}}}}}}}}}\n"
    )
    assert state.output == {"n": 1}


def test_a_result_that_is_stored_is_checked_first(site: Site) -> None:
    rows = "def main():\\n    return [{'n': i} for i in range(20000)]\\n"
    for most, expected in ((20000, "completed"), (19999, "failed")):
        schema = f"{{type: array, maxItems: {most}, items: {NUMBER}}}"
        for where in ("task", "step"):
            spec = f"spec: {{validate: {{output: {schema}}}}}"
            own = f", {spec}" if where == "task" else ""
            outer = f", {spec}" if where == "step" else ""
            state = ended(site, f'- {{step: a, tool: {{kind: python, code: "{rows}"{own}}}{outer}}}\n')
            assert state.status == expected, (where, state.error)
            assert expected == "completed" or (state.error or {})["kind"] == "schema"


def test_a_steps_schemas_hold_for_the_step_and_not_for_each_task(site: Site) -> None:
    steps = f"""
- step: a
  input: {{n: "{{{{ workload.n }}}}"}}
  spec: {{validate: {{input: {NUMBER}, output: {{type: string}}}}}}
  tool: [{{name: one, kind: noop, output: 1}}, {{name: two, kind: noop, output: [2]}}]
  output: "{{{{ workload.out }}}}"
  next: {{arcs: [{{step: end, when: "{{{{ event.error.kind == 'schema' }}}}", set: {{ctx.why: "{{{{ event.error.message }}}}"}}}}]}}
- {{step: end}}
"""
    assert ended(site, steps, n=1, out="yes").output == "yes"
    assert ended(site, steps, n="x", out="yes").ctx["why"].startswith("the input of step `a` does not fit")
    assert ended(site, steps, n=1, out=3).ctx["why"].startswith("the output of step `a` does not fit")


def test_a_loops_iterations_have_their_input_checked_and_the_list_its_output(site: Site) -> None:
    steps = f"""
- step: a
  loop: {{in: "{{{{ workload.items }}}}", iterator: x}}
  input: {{n: "{{{{ iter.x }}}}"}}
  spec: {{validate: {{input: {NUMBER}, output: {{type: array, maxItems: 2}}}}}}
  tool: {{kind: noop, output: "{{{{ input.n }}}}"}}
"""
    assert ended(site, steps, items=[1, 2]).output == [1, 2]
    assert (ended(site, steps, items=[1, "x"]).error or {})["kind"] == "schema"
    assert "output.data" in (ended(site, steps, items=[1, 2, 3]).error or {})["message"]


def test_a_router_has_its_output_checked(site: Site) -> None:
    state = ended(site, "- {step: a, spec: {validate: {output: {type: string}}}, output: 1, next: {arcs: []}}\n")
    assert (state.error or {})["kind"] == "schema"


def test_a_child_is_not_started_with_a_payload_that_its_schema_forbids(site: Site) -> None:
    (site.folder / "child.yaml").write_text(
        (HEAD % "child").replace("{name: child}", f"{{name: child, schema: {NUMBER}}}")
        + "- {step: a, tool: {kind: shell, cmd: touch ran}}\n"
    )
    call = '- {step: a, tool: {kind: playbook, path: child, input: {n: "{{ workload.n }}"}}}\n'
    state = ended(site, call, n="x")
    assert state.error is not None
    assert state.error["kind"] == "playbook"
    assert state.error["cause"]["kind"] == "schema"
    assert "workload.n: 'x' is not of type 'integer'" in state.error["message"]
    assert not (site.folder / "ran").exists()
    assert ended(site, call, n=1).status == "completed"


# --- restrictions ----------------------------------------------------------------------------------------------------

CALLS = "{kind: http, url: 'http://127.0.0.1:9/', spec: {network: 'on', timeout: 5}}"


def test_what_a_step_may_not_do_its_workbook_may_not_do_either(site: Site) -> None:
    (site.folder / "main.yaml").write_text("")
    steps = (
        f"- {{step: a, spec: {{network: 'off'}}, tool: {{kind: workbook, task: ask}}}}\nworkbook: {{ask: {CALLS}}}\n"
    )
    assert "`network: off`" in (ended(site, steps).error or {})["message"]


def test_what_a_caller_may_not_do_its_child_may_not_do_either_nor_may_the_childs_child(site: Site) -> None:
    site.write("grandchild", f"- {{step: a, tool: {CALLS}}}\n")
    site.write("child", "- {step: a, tool: {kind: playbook, path: grandchild}}\n")
    state = ended(site, "- {step: a, tool: {kind: playbook, path: child, spec: {network: 'off'}}}\n")
    assert "`network: off`" in (state.error or {})["message"]
    state = ended(site, "- {step: a, tool: {kind: playbook, path: child, spec: {allow_hosts: [example.com]}}}\n")
    assert "`allow_hosts` does not let this task call 127.0.0.1" in (state.error or {})["message"]
    state = ended(site, "- {step: a, tool: {kind: playbook, path: child}}\n")
    assert "refused" in (state.error or {})["message"]


def test_a_database_is_not_connected_to_without_a_network(site: Site) -> None:
    (site.folder / "address").write_text("postgresql://127.0.0.1:1/x")
    keychain = f"keychain: [{{name: db, kind: postgres_credential, from: {{file: {site.folder}/address}}}}]\n"
    tool = "{kind: postgres, auth: db, query: SELECT 1}"
    state = ended(site, f"- {{step: a, spec: {{network: 'off'}}, tool: {tool}}}\n{keychain}")
    assert state.error is not None
    assert state.error["kind"] == "isolation"
    assert "`network: off`" in state.error["message"]


def test_what_a_workbook_yields_is_within_the_limit_of_its_caller(site: Site) -> None:
    text = f"{{kind: noop, output: {'x' * 200}}}"
    steps = f"- {{step: a, tool: {{kind: workbook, task: say, spec: {{limits: {{output_bytes: 100}}}}}}}}\nworkbook: {{say: {text}}}\n"
    assert (ended(site, steps).error or {})["kind"] == "limit"


# --- paths -----------------------------------------------------------------------------------------------------------

OUTSIDE = ("../outside", "/etc/passwd", "sub/../../outside", "./../outside", "~/outside", "..", "sub/../..",
           "..\\outside", "a/b/../../../outside", "/proc/self/environ", "//etc/passwd", "sub\x00/../../outside")  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("task", ["{kind: shell, file: '%s'}", "{kind: playbook, path: '%s'}"])
def test_a_path_made_by_a_template_does_not_lead_out_of_the_folder(tmp_path: Path, task: str, path: str) -> None:
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "outside").write_text("touch ../ran ran")
    (tmp_path / "outside.yaml").write_text(HEAD % "outside" + "- {step: a, tool: {kind: shell, cmd: touch ran}}\n")
    for text in (
        "{{ workload.path }}",
        "sub/{{ workload.path }}" if not path.startswith("sub") else "./{{ workload.path }}",
    ):
        if text.startswith("sub/") and path.startswith(("~", "/")):
            continue  # beneath a folder it is a name like any other
        wanted = f"../{path}" if text.startswith("sub/") else path
        state = ended(Site(inner), f"- {{step: a, tool: {task % text}}}\n", path=wanted)
        assert state.error is not None
        assert state.error["kind"] in ("template", "shell", "playbook")
    assert not list(tmp_path.rglob("ran"))


def test_a_path_that_the_author_wrote_leads_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "outside.sh").write_text("echo yes")
    site = Site(tmp_path / "inner")
    state = ended(site, "- {step: a, tool: {kind: shell, file: ../outside.sh, output: '{{ output.data.stdout }}'}}\n")
    assert state.output == "yes\n"
    (site.folder / "x.sh").write_text("echo in")
    state = ended(site, "- {step: a, tool: {kind: shell, file: '{{ workload.f }}.sh'}}\n", f="sub/../x")
    assert state.output is None or state.error is None


@pytest.mark.parametrize("url", ["file:///etc/passwd", "FILE:///etc/passwd", "ftp://127.0.0.1/x", "/etc/passwd", "//x"])
def test_an_address_is_of_the_web_or_none(site: Site, url: str) -> None:
    state = ended(site, '- {step: a, tool: {kind: http, url: "{{ workload.url }}"}}\n', url=url)
    assert (state.error or {})["kind"] == "http-transport"


# --- templates -------------------------------------------------------------------------------------------------------

ESCAPES = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ [].__class__.__base__ }}", "{{ ctx.__class__ }}",
    "{{ (1).__class__ }}", "{{ ''|attr('__class__') }}", "{{ ''['__class__'] }}", "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ workload.__init__.__globals__ }}", "{{ now.__globals__ }}", "{{ uuid.__self__ }}", "{{ range.__class__ }}",
    "{{ cycler.__init__.__globals__.os.popen('touch ran').read() }}", "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}", "{{ lipsum.__globals__['os'].system('touch ran') }}",
    "{{ dict.__mro__ }}", "{{ self.__init__ }}", "{{ self._TemplateReference__context }}", "{{ config }}",
    "{{ '%s'.format.__self__ }}", "{{ '{0.__class__}'.format(1) }}", "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ ('{0.__class__.__init__.__globals__}')|format(1) }}", "{{ [1]|map(attribute='__class__')|list }}",
    "{{ [{}]|groupby('__class__')|list }}", "{{ [1]|sort(attribute='__class__') }}", "{{ [1]|sum(attribute='real.__class__') }}",
    "{{ [1]|selectattr('__class__')|list }}", "{{ [1]|map('attr', '__class__')|list }}", "{{ {}|attr('items') }}",
    "{{ ctx.items.__func__ }}", "{{ ''.join.__self__.__class__ }}", "{{ (x for x in ()).gi_frame }}",
    "{{ namespace(a=1).__dict__ }}", "{{ now.__call__.__self__ }}", "{{ uuid.__code__ }}", "{{ steps.__class__ }}",
    "{{ 'x'.encode.__class__ }}", "{{ ''.__doc__ }}", "{{ [].append.__self__ }}", "{{ ctx.update({'a': 1}) }}",
    "{{ workload.clear() }}", "{{ workload.pop('n') }}", "{{ ctx.setdefault('a', 1) }}", "{{ [1].append(2) }}",
    "{% import 'os' as os %}{{ os }}", "{% include '/etc/passwd' %}", "{% extends 'x' %}", "{{ open('/etc/passwd') }}",
    "{{ eval('1') }}", "{{ __import__('os') }}", "{{ getattr('', '__class__') }}", "{{ globals() }}", "{{ exec('1') }}",
    "{{ 'a' * 10**10 }}", "{{ range(10**12)|list }}", "{{ 9**9**9 }}", "{{ ('a' * 10000000)|center(10**10) }}",
)  # fmt: skip


@pytest.mark.parametrize("text", ESCAPES)
def test_no_template_reaches_out_of_its_scopes(site: Site, text: str) -> None:
    (site.folder / "main.yaml").write_text("")
    quoted = text.replace("'", "''")
    file = site.write("main", f"- {{step: a, tool: {{kind: noop, output: '{quoted}'}}}}\n")

    async def attempt() -> Execution | None:
        async with site.node() as node:
            source, loaded = node.catalog.read(file)
            if loaded.net is None:
                return None  # refused before it ran
            live = await node.start(source, loaded.net, {"n": 1})
            await live.finished
            return live.state

    state = run(attempt())
    refused = state is None or state.status == "failed"
    assert refused or not any(sign in str(state.output) for sign in ("class", "<", "function", "module", "object at"))
    assert state is None or state.workload == {"n": 1}
    assert not (site.folder / "ran").exists()
