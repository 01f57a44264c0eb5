"""noetl validate."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Noetl, Shell


def codes(text: str) -> list[str]:
    return [one["code"] for one in json.loads(text)["diagnostics"]]


def test_a_good_playbook_is_called_good(noetl: Noetl, files: Path) -> None:
    assert noetl("validate", "good.yaml") == (0, "no problems in good.yaml\n", "")


def test_all_problems_are_shown_with_line_caret_and_fix(noetl: Noetl, files: Path) -> None:
    result = noetl("validate", "bad.yaml")
    assert result.code == 2
    assert "bad.yaml:7:18: error[unknown-kind]: there is no tool kind `nop`\n7 |     tool: {kind: nop," in result.out
    assert "  |                  ^^^\n  help: did you mean `noop`?" in result.out
    assert result.out.endswith("2 errors in bad.yaml\n`noetl validate --fix bad.yaml` mends 2 of them\n")


def test_warnings_are_errors_only_when_strict(noetl: Noetl, files: Path) -> None:
    assert noetl("validate", "odd.yaml").code == 0
    result = noetl("validate", "--strict", "odd.yaml")
    assert (result.code, "error[unreachable-step]" in result.out) == (2, True)


@pytest.mark.parametrize("arguments", [["--format", "json"], ["--json"]])
def test_json_is_one_document_with_the_file_of_each(noetl: Noetl, files: Path, arguments: list[str]) -> None:
    result = noetl("validate", "bad.yaml", "odd.yaml", "good.yaml", *arguments)
    assert result.code == 2
    found = json.loads(result.out)["diagnostics"]
    assert {(one["code"], one["file"], one["line"]) for one in found} == {
        ("unknown-kind", "bad.yaml", 7),
        ("unknown-key", "bad.yaml", 8),
        ("unreachable-step", "odd.yaml", 11),
    }
    assert json.loads(noetl("validate", "good.yaml", "--json").out) == {"diagnostics": []}


def test_sarif_names_the_rules(noetl: Noetl, files: Path) -> None:
    log = json.loads(noetl("validate", "--format", "sarif", "bad.yaml").out)
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["unknown-key", "unknown-kind"]


def test_a_folder_stands_for_the_playbooks_in_it(noetl: Noetl, files: Path, good: str, bad: str) -> None:
    (files / "deep" / "er").mkdir(parents=True)
    (files / "deep" / "er" / "flow.yml").write_text(good)
    (files / "deep" / "values.yaml").write_text("replicas: 3\n")
    (files / ".hidden").mkdir()
    (files / ".hidden" / "flow.yaml").write_text(bad)
    assert noetl("validate", "deep").out == "no problems in deep/er/flow.yml\n"
    result = noetl("validate", ".", "good.yaml")
    assert (result.code, "in 4 files" in result.out) == (2, True)


def test_stdin_is_read_when_asked(shell: Shell, good: str, bad: str) -> None:
    assert shell("validate", "-", given=good.encode()).out == "no problems in <stdin>\n"
    result = shell("validate", "-", "--json", given=bad.encode())
    assert (result.code, codes(result.out)) == (2, ["unknown-kind", "unknown-key"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("goood.yaml", "noetl: goood.yaml: there is no such file; did you mean good.yaml?\n"),
        ("nothing/here.yaml", "noetl: nothing/here.yaml: there is no such file\n"),
        ("empty", "noetl: empty: there is no playbook in this folder\n"),
        ("picture.png", "noetl: picture.png: this is a binary file, not a playbook\n"),
        ("wide.yaml", "noetl: wide.yaml: this is UTF-16 text; save it in the encoding UTF-8\n"),
        ("good.yaml/x", "noetl: good.yaml/x: cannot be read (Not a directory)\n"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(noetl: Noetl, files: Path, name: str, said: str, good: str) -> None:
    (files / "empty").mkdir()
    (files / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\0\xff")
    (files / "wide.yaml").write_bytes(good.encode("utf-16"))
    assert noetl("validate", name) == (2, "", said)


def test_in_json_an_unreadable_file_is_a_diagnostic_beside_the_others(noetl: Noetl, files: Path) -> None:
    result = noetl("validate", "nope.yaml", "odd.yaml", "--json")
    assert (result.code, result.err) == (2, "")
    assert codes(result.out) == ["unreadable-file", "unreachable-step"]
    assert json.loads(result.out)["diagnostics"][0]["line"] is None


def test_text_that_is_not_utf_8_is_told_with_its_line(noetl: Noetl, files: Path) -> None:
    (files / "latin.yaml").write_bytes("# fine\nname: café\n".encode("latin-1"))
    result = noetl("validate", "latin.yaml")
    assert (result.code, "latin.yaml:2:10: error[yaml-syntax]" in result.out) == (2, True)


# --- mending ---------------------------------------------------------------------------------------------------


def test_fix_mends_in_place_and_keeps_mode_comments_and_line_ends(
    noetl: Noetl, files: Path, good: str, bad: str
) -> None:
    file = files / "bad.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + bad.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    result = noetl("validate", "--fix", "bad.yaml")
    assert result == (0, "no problems in bad.yaml\n", "mended 2 problems in bad.yaml\n")
    mended = good.replace("ctx.n > 0", "workload.n > 0").replace("\n", "\r\n")
    assert file.read_bytes() == b"\xef\xbb\xbf" + mended.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in files.iterdir() if path.name.startswith(".")] == []


def test_fix_follows_a_link_and_leaves_it_a_link(noetl: Noetl, files: Path) -> None:
    (files / "link.yaml").symlink_to("bad.yaml")
    assert noetl("validate", "--fix", "link.yaml").code == 0
    assert (files / "link.yaml").is_symlink()
    assert "kind: noop" in (files / "bad.yaml").read_text()


def test_fix_tells_what_is_left(noetl: Noetl, files: Path, bad: str) -> None:
    (files / "bad.yaml").write_text(bad.replace("step: end,", "step: nowhere,"))
    result = noetl("validate", "--fix", "bad.yaml", "--json")
    assert (result.code, result.err) == (2, "mended 2 problems in bad.yaml\n")
    assert "unknown-step" in codes(result.out)


def test_fix_leaves_a_file_alone_that_has_nothing_to_mend(noetl: Noetl, files: Path) -> None:
    before = (files / "odd.yaml").stat().st_mtime_ns
    assert noetl("validate", "--fix", "odd.yaml").err == ""
    assert (files / "odd.yaml").stat().st_mtime_ns == before


def test_fix_never_makes_it_worse(noetl: Noetl, files: Path, bad: str) -> None:
    """`sett` cannot become `set` where `set` stands already; the kind is mended all the same."""
    text = bad.replace("    sett:", "    set: {ctx.m: 1}\n    sett:")
    (files / "bad.yaml").write_text(text)
    result = noetl("validate", "--fix", "bad.yaml", "--json")
    assert codes(result.out) == ["unknown-key"]
    assert (files / "bad.yaml").read_text() == text.replace("kind: nop,", "kind: noop,")


def test_mending_what_hid_the_rest_mends_the_rest_too(noetl: Noetl, files: Path, bad: str) -> None:
    (files / "bad.yaml").write_text(bad.replace('"{{ workload.n }}"}', "1}\n    output: {{ output.data }}"))
    result = noetl("validate", "--fix", "bad.yaml")
    assert (result.code, result.err) == (0, "mended 3 problems in bad.yaml\n")


def test_stdin_cannot_be_mended(shell: Shell, bad: str) -> None:
    result = shell("validate", "--fix", "-", given=bad.encode())
    assert (result.code, "stdin cannot be mended" in result.err) == (2, True)


def test_the_hint_to_migrate_can_be_copied(noetl: Noetl, folder: Path, good: str) -> None:
    old = good.replace("workload:", "vars:")
    (folder / "my flow.yaml").write_text(old)
    assert "; `noetl migrate 'my flow.yaml'` rewrites it\n" in noetl("validate", "my flow.yaml").out
    assert "; `noetl migrate 'my flow.yaml'` rewrites it\n" in noetl("explain", "my flow.yaml").err
    (found,) = (
        one
        for one in json.loads(noetl("validate", "--json", "my flow.yaml").out)["diagnostics"]
        if one["code"] == "legacy-vars"
    )
    assert found["fix"].endswith("; `noetl migrate 'my flow.yaml'` rewrites it")


def test_the_hint_to_migrate_stdin_names_stdin(shell: Shell, good: str) -> None:
    old = good.replace("workload:", "vars:").encode()
    assert "; `noetl migrate -` rewrites it\n" in shell("validate", "-", given=old).out


def test_test_files_of_a_folder_are_looked_at_like_those_that_are_named(noetl: Noetl, folder: Path, good: str) -> None:
    (folder / "good.yaml").write_text(good)
    (folder / "good.test.yaml").write_text("tests:\n  - {nme: x}\n")
    said = noetl("validate", ".")
    assert said.code == 2
    assert "good.test.yaml:2" in said.out
    assert "skipped" not in said.err


TYPO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: typo}
workflow:
  - step: start
    tool: {kind: noop, output: 1}
    next: {arcs: [{step: %s}]}
  - step: load_users
    tool: {kind: noop}
  - step: day
    tool: {kind: noop}
"""


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_a_step_is_renamed_though_warnings_come_to_light_behind_it(
    noetl: Noetl, folder: Path, strict: tuple[str, ...]
) -> None:
    (folder / "typo.yaml").write_text(TYPO % "load_user")
    result = noetl("validate", "--fix", "typo.yaml", *strict)
    assert "mended 1 problem in typo.yaml" in result.err
    assert (folder / "typo.yaml").read_text() == TYPO % "load_users"
    assert "unreachable-step" in result.out


def test_a_suggestion_that_is_a_guess_is_left_and_that_is_said(noetl: Noetl, folder: Path) -> None:
    (folder / "typo.yaml").write_text(TYPO % "dya")
    result = noetl("validate", "--fix", "typo.yaml")
    assert "did you mean `day`?" in result.out
    assert "--fix left a suggestion for you to decide: the name is short" in result.err
    assert (folder / "typo.yaml").read_text() == TYPO % "dya"


def test_all_problems_of_one_template_are_told_at_once(noetl: Noetl, folder: Path) -> None:
    text = TYPO % "load_users"
    (folder / "typo.yaml").write_text(text.replace("output: 1", 'output: "{{ nope }} {{ 1 | foo }} {{ 1 && 2 }}"'))
    told = codes(noetl("validate", "typo.yaml", "--json").out)
    assert told[:3] == ["unknown-scope", "unknown-filter", "template-syntax"]
