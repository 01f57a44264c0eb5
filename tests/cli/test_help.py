"""noetl help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from noetl.expr import FILTERS, TESTS

if TYPE_CHECKING:
    from cli.conftest import Noetl


def test_help_about_a_command_is_that_of_the_command(noetl: Noetl) -> None:
    assert noetl("help", "validate").out == noetl("validate", "--help").out


def test_help_about_a_diagnostic_has_both_examples(noetl: Noetl) -> None:
    result = noetl("help", "unknown-key")
    assert result.code == 0
    assert result.out.startswith("unknown-key: This key has no meaning here\n")
    assert "Wrong:\n\n    - step: start\n      tols: {kind: noop}" in result.out
    assert "Right:\n\n    - step: start\n      tool: {kind: noop}" in result.out
    assert json.loads(noetl("help", "unknown-key", "--json").out)["code"] == "unknown-key"


def test_an_older_construct_is_explained_by_its_family(noetl: Noetl) -> None:
    assert "noetl migrate" in noetl("help", "legacy-sink").out


def test_an_unknown_topic_is_answered_with_the_nearest(noetl: Noetl) -> None:
    assert noetl("help", "unknwn-key") == (
        2,
        "",
        "noetl: `unknwn-key` is neither a command nor a code of a message; did you mean `unknown-key`?\n",
    )


def test_kinds_of_errors_are_explained_like_codes(noetl: Noetl) -> None:
    for kind in ("result-expired", "not-resumable", "plan-invalid"):
        said = noetl("help", kind)
        assert said.code == 0
        assert said.out.startswith(f"{kind}: ")
    assert "did you mean `result-expired`?" in noetl("help", "result-expird").err


def test_help_about_an_unknown_filter_lists_all_filters_and_tests(noetl: Noetl) -> None:
    words = noetl("help", "unknown-filter").out.replace("\n", " ").replace(",", "").replace(".", "").split()
    assert {*FILTERS, *TESTS} <= set(words)


def test_a_topic_that_does_not_exist_is_told_with_the_way_to_those_that_do(noetl: Noetl) -> None:
    assert "`nosuch` is neither a command nor a code of a message; `noetl help` lists" in noetl("help", "nosuch").err
