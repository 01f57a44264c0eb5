"""PostgreSQL's driver: credentials become connection arguments, and errors become failures that hold no password."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.drivers.postgres import (
    NoAddress,
    connection_arguments,
    connection_refusal,
    from_connect_error,
    from_statement_error,
    is_denied,
    is_lost,
)

psycopg = pytest.importorskip("psycopg")


def test_a_credential_is_its_address_and_the_parts_beside_it() -> None:
    given = connection_arguments({"dsn": "postgresql://db.example/app", "username": "ann", "port": 5433, "host": ""})
    assert given["conninfo"] == "postgresql://db.example/app"
    assert (given["user"], given["port"], given["fallback_application_name"]) == ("ann", 5433, "noetl")
    assert "host" not in given


def test_an_address_that_is_none_is_refused_and_not_shown() -> None:
    with pytest.raises(NoAddress) as caught:
        connection_arguments({"dsn": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "spec", "refused"),
    [
        ({"host": "db.example"}, {}, None),
        ({"host": "db.example"}, {"network": "off"}, "`network: off`"),
        ({"host": "DB.example"}, {"allow_hosts": ["db.example"]}, None),
        ({"host": "db.example"}, {"allow_hosts": ["*.example"]}, None),
        ({"host": "db.example"}, {"allow_hosts": ["*"]}, None),
        ({"host": "db.example,other.test"}, {"allow_hosts": ["db.example"]}, "other.test"),
        ({"dsn": "postgresql://db.example/app"}, {"allow_hosts": ["other.test"]}, "db.example"),
        ({"host": "db.example", "hostaddr": "10.0.0.1"}, {"allow_hosts": ["db.example"]}, "10.0.0.1"),
        ({"user": "ann"}, {"allow_hosts": ["db.example"]}, "a host that its credential does not name"),
    ],
)
def test_a_connection_goes_only_to_hosts_that_are_allowed(
    auth: dict[str, Any], spec: dict[str, Any], refused: str | None
) -> None:
    said = connection_refusal(auth, spec)
    assert (said is None) if refused is None else (said is not None and refused in said)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.InterfaceError("the connection is closed"), True),
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg.errors.UniqueViolation("duplicate key"), False),
        (psycopg.ProgrammingError("no results to fetch"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_lost_connection_is_told_from_an_error_of_a_statement(error: Exception, lost: bool) -> None:
    assert is_lost(error) is lost


@pytest.mark.parametrize(
    ("error", "kind", "code", "retryable"),
    [
        (psycopg.OperationalError("connection closed"), "sql", "08006", True),
        (psycopg.errors.SerializationFailure("could not serialize"), "sql", "40001", True),
        (psycopg.errors.UniqueViolation("duplicate key"), "sql", "23505", False),
        (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), "timeout", "57014", True),
        (psycopg.errors.QueryCanceled("canceling statement due to user request"), "sql", "57014", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failed_statement_says_whether_to_retry(error: Exception, kind: str, code: str, retryable: bool) -> None:
    failed = from_statement_error(error)
    assert (failed.failure["kind"], failed.code, failed.failure["retryable"]) == (kind, code, retryable)
    assert (failed.pg["code"], failed.pg["message"]) == (code, failed.failure["message"])


@pytest.mark.parametrize(
    ("said", "kind", "code", "retryable"),
    [
        ('password authentication failed for user "ann"', "credential", "28P01", False),
        ('database "app" does not exist', "credential", "3D000", False),
        ("sorry, too many clients already", "sql", "53300", True),
        ("the database system is starting up", "sql", "57P03", True),
        ("connection refused", "sql", "08001", True),
    ],
)
def test_a_refused_connection_says_whether_the_credential_or_the_moment_is_wrong(
    said: str, kind: str, code: str, retryable: bool
) -> None:
    error = psycopg.OperationalError(said)
    failed = from_connect_error(error, "the credential db")
    assert (failed.failure["kind"], failed.code, failed.failure["retryable"]) == (kind, code, retryable)
    assert is_denied(error) is (kind == "credential")


def test_a_password_taken_for_a_host_is_not_shown() -> None:
    error = psycopg.OperationalError("could not translate host name 'hunter2@db' to address")
    failed = from_connect_error(error, "the credential db")
    assert failed.failure["kind"] == "credential"
    assert "hunter2" not in failed.failure["message"]
