"""How the statements of a query are taken apart and run; nothing of it needs a server."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.drivers.postgres import PostgresFailed
from noetl.expr.embedded.sql_template import compile_sql
from noetl.tools.postgres.parameters import (  # fmt: skip
    ANY,
    BOOLS,
    INT4,
    INT4S,
    INT8,
    INT8S,
    JSONB,
    NUMERIC,
    NUMERICS,
    TEXT,
    TEXTS,
    array,
    array_type,
    literal,
    parameter,
)
from noetl.tools.postgres.statements import StatementPlan, plan


def planned(text: str, *, once: bool = False, timeout: bool = False, **workload: Any) -> StatementPlan:
    return plan(compile_sql(text).bind({"workload": workload}), once=once, timeout=timeout)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("SELECT 1", "BEGIN"),
        ("INSERT INTO t VALUES (1)", None),
        ("INSERT INTO t VALUES (1) RETURNING n", "BEGIN"),
        ("INSERT INTO t VALUES (1); DELETE FROM t", "BEGIN"),
        ("-- remark\nUPDATE t SET n = 1", None),
        ("CALL p()", None),
        ("DO $$ BEGIN END $$", None),
        ("VACUUM t", None),
        ("SELECT 1; VACUUM t", None),
        ("CREATE UNIQUE INDEX CONCURRENTLY i ON t (n)", None),
        ("BEGIN READ ONLY; SELECT 1; END", "BEGIN READ ONLY"),
        ("START TRANSACTION; SELECT 1", "START TRANSACTION"),
        ("", None),
    ],
)
def test_statements_have_the_transaction_that_they_need(text: str, begin: str | None) -> None:
    assert planned(text).begin == begin


def test_a_time_limit_and_a_marker_need_a_transaction() -> None:
    assert planned("INSERT INTO t VALUES (1)", timeout=True).begin == "BEGIN"
    assert planned("INSERT INTO t VALUES (1)", once=True).begin == "BEGIN"
    assert planned("VACUUM t", timeout=True).begin is None


@pytest.mark.parametrize(
    "text", ["BEGIN; VACUUM t; COMMIT", "SELECT 1; COMMIT", "COPY t TO STDOUT", "ABORT", "PREPARE TRANSACTION 'x'"]
)
def test_what_no_task_can_do_is_refused(text: str) -> None:
    with pytest.raises(PostgresFailed):
        planned(text)


def test_a_statement_knows_its_number_and_its_line() -> None:
    found = planned("\nSELECT 1;\n\n  -- remark\n  SELECT 2;;\nSELECT 3").statements
    assert [(one.number, one.line, one.verb) for one in found] == [(1, 2, "SELECT"), (2, 4, "SELECT"), (3, 6, "SELECT")]


@pytest.mark.parametrize(
    ("text", "lingers"),
    [("SELECT 1", False), ("SET x = 1; SELECT 1", True), ("SELECT pg_advisory_lock(1)", True), ("SELECT set_config('a', 'b', false)", True), ("CREATE TABLE t (n int)", True)],
)  # fmt: skip
def test_what_may_stay_behind_in_a_session_is_known(text: str, lingers: bool) -> None:
    assert planned(text).lingers is lingers


@pytest.mark.parametrize(
    ("text", "sent", "values"),
    [
        ("SELECT 1 WHERE n IN {{ workload.l }}", "SELECT 1 WHERE n = ANY ($1)", ["{1,2}"]),
        ("SELECT 1 WHERE n IN ( {{ workload.l }} ) AND m", "SELECT 1 WHERE n = ANY ($1) AND m", ["{1,2}"]),
        ("SELECT 1 WHERE n not in ({{ workload.l }})", "SELECT 1 WHERE n <> ALL ($1)", ["{1,2}"]),
        ("SELECT 1 WHERE n IN ({{ workload.l }}, 3)", "SELECT 1 WHERE n IN ($1, 3)", [[1, 2]]),
        ("SELECT 1 WHERE n IN ({{ workload.n }})", "SELECT 1 WHERE n IN ($1)", [5]),
        ("SELECT join_{{ 'x' }} ({{ workload.l }})", 'SELECT "join_x" ($1)', [[1, 2]]),
        (
            "CREATE VIEW v AS SELECT 1 WHERE 1 IN {{ workload.l }}",
            "CREATE VIEW v AS SELECT 1 WHERE 1 = ANY ('{1,2}')",
            [],
        ),
        ("CREATE VIEW v AS SELECT {{ workload.m }}", """CREATE VIEW v AS SELECT '{"a":"it''s"}'""", []),
    ],
)
def test_lists_behind_in_are_arrays(text: str, sent: str, values: list[Any]) -> None:
    (one,) = planned(text, l=[1, 2], n=5, m={"a": "it's"}).statements
    assert one.render() == (sent, values)


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (5, (INT4, b"5")),
        (-(2**31), (INT4, b"-2147483648")),
        (2**31, (INT8, b"2147483648")),
        (2**63, (NUMERIC, b"9223372036854775808")),
        (2.5, (NUMERIC, b"2.5")),
        ("x", (ANY, b"x")),
        (None, (ANY, None)),
        ({"a": None}, (JSONB, b'{"a":null}')),
    ],
)
def test_values_have_the_types_that_they_would_have_in_the_text(value: Any, bound: tuple[int, bytes | None]) -> None:
    assert parameter(value) == bound


def test_where_the_server_cannot_tell_text_is_text() -> None:
    assert parameter("x", typed=True) == (TEXT, b"x")
    assert parameter(None, typed=True) == (TEXT, None)
    assert parameter([1, 2], typed=True) == (INT4S, b"{1,2}")


@pytest.mark.parametrize(
    ("values", "kind"),
    [([], TEXTS), (["a", None], TEXTS), ([1], INT4S), ([1, 2**40], INT8S), ([2**70], NUMERICS), ([1, 2.5], NUMERICS), ([True], BOOLS), ([1, "a"], JSONB), ([[1]], JSONB), ([{}], JSONB)],
)  # fmt: skip
def test_a_list_has_a_type_by_itself(values: list[Any], kind: int) -> None:
    assert array_type(values) == kind


def test_elements_of_arrays_are_quoted() -> None:
    assert array(["a", 'b"\\', "NULL", None, True, 1.5, [1]]) == '{"a","b\\"\\\\","NULL",NULL,true,1.5,{1}}'
    assert array([[1], "x"], json=True) == '{"[1]","\\"x\\""}'


def test_literals_are_quoted() -> None:
    assert [literal(value) for value in (None, True, 5, -1.5, "it's", {"a": [1]}, float("inf"))] == [
        "NULL", "true", "5", "-1.5", "'it''s'", """'{"a":[1]}'""", "'inf'::float8",
    ]  # fmt: skip
