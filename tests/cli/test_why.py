"""noetl why."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Noetl, Running

pytestmark = pytest.mark.usefixtures("playbooks")


def why(noetl: Noetl, *arguments: str) -> list[str]:
    return [line.strip() for line in noetl("why", "last", *arguments).out.splitlines()]


def without_numbers(lines: list[str]) -> list[str]:
    return [line.split("  ", 1)[1] if line[:1].isdigit() else line for line in lines]


def test_a_refused_arc_is_told_with_its_guard_and_the_values_it_saw(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    assert without_numbers(why(noetl, "big")) == [
        "big did not run",
        "start ended (step.done): its arc to big was refused: {{ ctx.n > 5 }} did not hold",
        "ctx.n = 3",
    ]


def test_an_arc_that_was_not_asked_is_told_with_the_one_that_was_taken(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    assert without_numbers(why(noetl, "other"))[1] == (
        "start ended (step.done): its arc to other was not asked, the one to each was taken"
    )


def test_a_step_that_ran_is_told_from_its_arc_to_its_end(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    assert without_numbers(why(noetl, "each")) == [
        "each ran once; it is done",
        "start ended (step.done): its arc to each was taken: {{ ctx.n > 0 }} held",
        "ctx.n = 3",
        "it was admitted and ran, with the token from start",
        "it ended well",
    ]


def test_behind_a_failure_an_arc_without_a_guard_is_refused_and_that_is_said(noetl: Noetl) -> None:
    noetl("run", "failing.yaml", "--json")
    assert "its arc to end was refused: without a `when` it is taken on success only" in why(noetl, "end")[1]
    assert why(noetl)[0].endswith("`missing` is missing in `workload` (after 2 attempts)")


def test_a_join_tells_what_it_holds_and_what_it_waits_for(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "join.yaml")
    running.wait_for("meet has a token from a", "b waits for the signal")
    told = without_numbers(why(noetl, "meet"))
    assert told[1:] == [
        "a ended (step.done): its arc to meet was taken",
        "the token from a waits here for the others of the join",
        "now  the join holds 1 token from a",
        "now  nothing has come yet from b (running)",
    ]
    assert why(noetl, "gate")[1] == "no token came; it could come from meet (never ran)"
    noetl("signal", "last", "b")
    assert running.end().code == 0
    assert without_numbers(why(noetl, "meet"))[-2:] == ["it joined and ran, with the tokens from a, b", "it ended well"]


def test_a_token_that_was_never_admitted_is_told_with_the_rule_and_what_it_saw(
    noetl: Noetl, start: Callable[..., Running]
) -> None:
    running = start("run", "join.yaml")
    running.wait_for("meet has a token from a", "b waits for the signal")
    noetl("signal", "last", "b")
    assert "gate never ran: a token came from meet" in running.end().err
    assert without_numbers(why(noetl, "gate"))[2:] == [
        "the token from meet was parked: not admitted",
        "{{ ctx.open == true }} did not hold",
        "ctx.open = null",
        "nothing could move any more, and its parked tokens were dropped",
    ]
    rows = {line.split()[0]: line for line in why(noetl) if line}
    assert "ctx.open = null" in rows["gate"]


def test_a_cancelled_step_is_told_with_the_reason(noetl: Noetl, start: Callable[..., Running]) -> None:
    running = start("run", "approval.yaml")
    running.wait_for("waits for the signal `ok`")
    noetl("cancel", "last", "--why", "no longer wanted")
    assert running.end().code == 1
    assert without_numbers(why(noetl, "ask"))[-1] == "it ended with the execution, which was cancelled"
    assert re.search(r" was cancelled at \S+ \S+ by a request .*, event \d+: no longer wanted$", why(noetl)[0])
    assert "no longer wanted" in why(noetl)[0]


def test_as_data_it_is_for_programs(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    steps = {one["step"]: one for one in json.loads(noetl("why", "last", "--json").out)["steps"]}
    assert list(steps) == ["start", "big", "other", "each", "end"]
    refused = steps["big"]["reasons"][0]
    assert (refused["what"], refused["source"], refused["saw"]) == ("arc", "start", {"ctx.n": 3})


def test_a_step_that_is_misspelt_is_answered_with_the_nearest(noetl: Noetl) -> None:
    noetl("run", "choice.yaml", "--json")
    done = noetl("why", "last", "eech")
    assert done.code == 2
    assert "did you mean `each`?" in done.err


def test_a_value_that_is_only_described_is_not_quoted(noetl: Noetl) -> None:
    noetl("run", "clumsy.yaml", "--json")
    assert why(noetl, "few")[2] == "ctx.totals is a list of 6"


def test_an_arc_that_could_not_be_judged_was_not_refused(noetl: Noetl) -> None:
    noetl("run", "clumsy.yaml", "--json")
    (line,) = [line for line in why(noetl, "nobody") if "its arc to nobody" in line]
    assert "judging its arc to nobody ({{ ctx.nothing | length == 0 }}) failed: template: " in line
    assert "refused" not in line
    assert "judging its arcs failed" in why(noetl, "rest")[1]


def test_behind_an_arc_that_could_not_be_judged_stands_its_own_error_alone(noetl: Noetl) -> None:
    noetl("run", "undelivered.yaml", "--json")
    assert "`loop.in` must yield a list" in why(noetl, "start")[-1]
    for step, judging in (("end", "judging its arc to end ({{ workload.n > 3 }})"), ("rest", "judging its arcs")):
        told = why(noetl, step)[1]
        assert f"{judging} failed: template: in `{{{{ workload.n > 3 }}}}`: `>` cannot take the text '5'" in told
        assert "loop.in" not in told
    assert "`loop.in` must yield a list" in why(noetl)[0]


def test_an_error_of_python_is_told_with_its_lines(noetl: Noetl) -> None:
    noetl("run", "raises.yaml", "--json")
    lines = ["raises.yaml:14, in main: return half(1)", "raises.yaml:10, in half: return n / 0"]
    assert why(noetl)[1:3] == lines
    assert why(noetl, "start")[-2:] == lines
    assert all(line in noetl("show", "last").out for line in lines)
    assert [f"start |   {line}" for line in lines] == noetl("logs", "last").out.splitlines()[-2:]


def test_of_an_execution_that_never_began_it_says_why(noetl: Noetl, folder: Path, home: Path) -> None:
    (folder / "locked.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: locked}\n"
        "keychain: [{name: api, kind: bearer, from: {env: NOBODY_HAS_THIS}}]\n"
        "workflow: [{step: start, tool: {kind: http, url: 'http://127.0.0.1:1', auth: api}}]\n"
    )
    assert noetl("run", "locked.yaml").code == 1
    said = noetl("why", "last", "start").out
    assert "the execution failed before any step could run: credential: " in said
    assert "no arc leads to it" not in said
