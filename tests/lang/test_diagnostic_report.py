"""Diagnostics as text, JSON and SARIF, and the edits they bring."""

import re
import unicodedata

import pytest

from noetl.lang.printing.diagnostic_report import (
    FileReport,
    apply_edits,
    as_json,
    as_sarif,
    escape_controls,
    render_text,
    summarize_problems,
)
from noetl.model.diagnostics import Diagnostic, Edit, Severity, Source


def at(source: Source, word: str, **more: object) -> Diagnostic:
    start = source.text.index(word)
    fields = {"code": "unknown-key", "severity": Severity.ERROR, "message": "wrong", **more}
    return Diagnostic(span=source.span(start, start + len(word)), **fields)  # type: ignore[arg-type]


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def pointed_at(text: str) -> str:
    """The part of the shown line that stands above the carets."""
    line, caret = text.splitlines()[1:3]
    first, length = caret.index("^"), caret.count("^")
    return "".join(char for index, char in enumerate(line) if first <= columns(line[:index]) < first + length)


# --- text ------------------------------------------------------------------------------------------------------


def test_a_diagnostic_is_a_place_a_message_a_line_a_caret_and_the_way_out() -> None:
    source = Source("a: 1\n  tols: 2\n", "flow.yaml")
    found = at(source, "tols", message="a step has no key `tols`", fix="did you mean `tool`?")
    assert render_text(source, [found]) == (
        "flow.yaml:2:3: error[unknown-key]: a step has no key `tols`\n"
        "2 |   tols: 2\n"
        "  |   ^^^^\n"
        "  help: did you mean `tool`?\n"
    )


def test_the_gutter_is_as_wide_as_the_line_number() -> None:
    source = Source("\n" * 1233 + "tols: 2\n", "flow.yaml")
    assert render_text(source, [at(source, "tols")]).splitlines()[1:] == ["1234 | tols: 2", "     | ^^^^"]


def test_without_a_place_there_is_no_line() -> None:
    found = Diagnostic("payload-schema", Severity.ERROR, "names: missing", fix="pass it")
    assert render_text(Source("a: 1", "flow.yaml"), [found]) == (
        "flow.yaml: error[payload-schema]: names: missing\n  help: pass it\n"
    )


def test_an_empty_line_is_not_shown() -> None:
    source = Source("", "flow.yaml")
    found = Diagnostic("yaml-syntax", Severity.ERROR, "nothing here", span=source.span(0, 0))
    assert render_text(source, [found]) == "flow.yaml:1:1: error[yaml-syntax]: nothing here\n"


def test_a_place_without_length_has_one_caret() -> None:
    source = Source("key: value", "f")
    found = Diagnostic("yaml-syntax", Severity.ERROR, "wrong", span=source.span(5, 5))
    assert render_text(source, [found]).splitlines()[2] == "  |      ^"


def test_what_goes_over_several_lines_is_underlined_to_the_end_of_the_first() -> None:
    source = Source("key: one  \n  two\n", "f")
    found = Diagnostic("yaml-syntax", Severity.ERROR, "wrong", span=source.span(5, 15))
    assert render_text(source, [found]).splitlines()[2] == "  |      ^^^"


@pytest.mark.parametrize(
    "line",
    [
        "\tkey: \tbad",
        "名前: 'bad'",
        "ключ: bad",
        "e\u0301te\u0301: bad",
        "😀: bad",
        "ﾊﾝｶｸ: bad",
        "\x1b[31m: bad",
        "a\u202eb: bad",
    ],
)
def test_tabs_wide_and_strange_characters_do_not_shift_the_caret(line: str) -> None:
    source = Source(f"{line} # after\n", "f")
    assert pointed_at(render_text(source, [at(source, "bad")])) == "bad"


def test_wide_characters_are_underlined_in_full() -> None:
    source = Source("key: 名前\n", "f")
    assert render_text(source, [at(source, "名前")]).splitlines()[2].count("^") == 4


@pytest.mark.parametrize("before", [0, 40, 500, 100_000])
@pytest.mark.parametrize("after", [0, 50, 100_000])
@pytest.mark.parametrize("filler", ["x", "名", "\t"])
def test_a_long_line_is_cut_around_the_caret(before: int, after: int, filler: str) -> None:
    source = Source(f"k{filler * before} bad {filler * after}e\n", "f")
    text = render_text(source, [at(source, "bad")], width=80)
    line = text.splitlines()[1]
    assert pointed_at(text) == "bad"
    assert columns(line) <= 4 + 80 + 2
    if before in (0, 500, 100_000):
        assert (line[4] == "…") is bool(before)


def test_a_long_place_is_underlined_as_far_as_it_is_shown() -> None:
    source = Source("key: " + "x" * 1000, "f")
    line, caret = render_text(source, [at(source, "x" * 1000)], width=80).splitlines()[1:3]
    assert len(caret) <= len(line) <= 86


def test_control_characters_are_written_out_wherever_they_come_from() -> None:
    source = Source("a\x1b]0;x\x07: 1\n", "f\x1b[2J.yaml")
    text = render_text(source, [at(source, "1", message="`\x1b[31m`\nis wrong", fix="\r")])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert text.count("\n") == 4
    assert escape_controls("a\x9bb") == "a\\u009bb"


def test_colour_is_off_unless_asked_for() -> None:
    source = Source("tols: 2\n", "f")
    found = at(source, "tols", fix="mend it")
    assert "\x1b" not in render_text(source, [found])
    painted = render_text(source, [found], colour=True)
    assert "\x1b[1;31merror[unknown-key]\x1b[0m" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == render_text(source, [found])


# --- the summary -----------------------------------------------------------------------------------------------


def test_the_summary_counts_and_names_the_commands_that_help() -> None:
    source = Source("abc", "flow.yaml")
    found = [
        at(source, "a", edits=(Edit(0, 1, "x"),)),
        at(source, "b"),
        at(source, "c", code="legacy-args", severity=Severity.WARNING),
    ]
    assert summarize_problems([FileReport(source, found)]) == (
        "2 errors, 1 warning in flow.yaml\n"
        "`noetl validate --fix flow.yaml` mends 1 of them\n"
        "`noetl migrate flow.yaml` rewrites the older constructs\n"
    )


def test_the_summary_of_several_files_counts_them() -> None:
    source = Source("abc", "flow.yaml")
    assert summarize_problems([FileReport(source, []), FileReport(source, [])]) == "no problems in 2 files\n"
    assert summarize_problems([FileReport(source, [at(source, "a")]), FileReport(source, [])]) == "1 error in 2 files\n"


def test_the_commands_of_a_summary_name_the_files_they_are_for() -> None:
    sources = [Source("abc", name) for name in ("my flow.yaml", "b.yaml", "<stdin>")]
    legacy = [at(one, "a", code="legacy-args") for one in sources]
    one, other, stdin = (FileReport(source, [found]) for source, found in zip(sources, legacy, strict=True))
    assert "`noetl migrate 'my flow.yaml' b.yaml` rewrites" in summarize_problems(
        [one, other, FileReport(sources[0], [])]
    )
    assert "`noetl migrate -` rewrites" in summarize_problems([stdin])
    assert "`noetl migrate FILE…` rewrites" in summarize_problems([one] * 6)
    mendable = FileReport(sources[2], [at(sources[2], "a", edits=(Edit(0, 1, "x"),))])
    assert "`noetl validate --fix FILE` mends it" in summarize_problems([mendable])


# --- JSON and SARIF --------------------------------------------------------------------------------------------


def test_json_has_the_promised_keys_and_null_where_there_is_no_line() -> None:
    source = Source("a: 1\ntols: 2\n", "flow.yaml")
    found = [
        at(source, "tols", fix="write `tool`", edits=(Edit(5, 9, "tool"),)),
        Diagnostic("x", Severity.WARNING, "m"),
    ]
    one, other = as_json([FileReport(source, found)])["diagnostics"]
    assert one == {
        "code": "unknown-key",
        "severity": "error",
        "line": 2,
        "column": 1,
        "message": "wrong",
        "fix": "write `tool`",
        "file": "flow.yaml",
        "end_line": 2,
        "end_column": 5,
        "edits": [{"line": 2, "column": 1, "end_line": 2, "end_column": 5, "text": "tool"}],
    }
    assert (other["line"], other["column"], other["fix"]) == (None, None, None)


def test_sarif_has_rules_places_and_fixes() -> None:
    source = Source("a: 1\ntols: 2\n", "my flow.yaml")
    found = [
        at(source, "tols", fix="write `tool`", edits=(Edit(5, 9, "tool"),)),
        at(source, "a", code="legacy-args", severity=Severity.WARNING),
        Diagnostic("a-plugin-says", Severity.ERROR, "m"),
    ]
    log = as_sarif([FileReport(source, found)], "1.2.3")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["tool"]["driver"]["version"] == "1.2.3"
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [one.code for one in found]
    assert rules[-1]["shortDescription"]["text"] == "This key has no meaning here"
    first, second, third = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20flow.yaml"}
    assert place["region"] == {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 5}
    (change,) = first["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "tool"}
    assert second["level"] == "warning"
    assert "region" not in third["locations"][0]["physicalLocation"]


# --- edits -----------------------------------------------------------------------------------------------------


def test_edits_are_made_in_order_and_an_overlapping_one_is_left_out() -> None:
    edits = [Edit(4, 7, "C"), Edit(0, 2, "A"), Edit(1, 5, "B"), Edit(7, 7, "!")]
    assert apply_edits("0123456789", edits) == "A23C!789"


def test_an_edit_that_comes_twice_is_made_once_and_one_beyond_the_end_never() -> None:
    assert apply_edits("ab", [Edit(1, 1, "x"), Edit(1, 1, "x"), Edit(1, 9, "y")]) == "axb"
    assert apply_edits("ab", []) == "ab"
