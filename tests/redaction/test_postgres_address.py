"""Addresses of PostgreSQL are taken apart as its own library does it, and what is none is told from them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.redaction.addresses import is_address, parts_of_address, passwords_in_address


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("postgresql://u:p%40ss@h:5433/db", {"user": "u", "password": "p@ss", "host": "h", "port": 5433, "database": "db"}),
        ("postgres://h", {"host": "h"}),
        ("postgresql:///db?user=a@b&sslmode=require", {"database": "db", "user": "a@b", "sslmode": "require"}),
        ("postgresql://u:12#34@h/db", {"user": "u", "password": "12#34", "host": "h", "database": "db"}),
        ("postgresql://u:a?b[c@[::1]:5/db", {"user": "u", "password": "a?b[c", "host": "::1", "port": 5, "database": "db"}),
        ("postgresql://u:p@h1:1,h2:2/db", {"user": "u", "password": "p", "database": "db"}),
        ("postgresql://%2Fvar%2Frun/db", {"host": "/var/run", "database": "db"}),
        (r"host=h password='it\'s' dbname=x", {"host": "h", "password": "it's", "dbname": "x"}),
        ("host=h password=a://b", {"host": "h", "password": "a://b"}),
        ("password='x://y' host=h", {"password": "x://y", "host": "h"}),
        ("postgresql://h/db?user=a&", {"host": "h", "database": "db", "user": "a"}),
        ("postgresql://h/db?", {"host": "h", "database": "db"}),
    ],
)  # fmt: skip
def test_an_address_is_taken_apart(text: str, parts: dict[str, Any]) -> None:
    assert is_address(text)
    assert parts_of_address(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://postgres:p@VerySecretPart/word#1@127.0.0.1:5432/postgres",
        "postgresql://u:p@Secret@h/db",
        "postgresql://u:p/Secret@h/db",
        "postgresql://u:12/Secret@h/db",
        "postgresql://u:p@Secret?x@h/db",
        "postgresql://u:p@Secret#x@h/db",
        "postgresql://u:100%Secret@h/db",
        "postgresql://u:p/Secret",
        "mysql://u:Secret@h/db",
        "jdbc:postgresql://u:Secret@h/db?a=b",
        "postgresql://h/db?a=b=c",
        "Secret",
    ],
)
def test_what_is_no_address_is_not_taken_apart(text: str) -> None:
    assert not is_address(text)
    assert parts_of_address(text) == {}


def test_the_password_of_what_is_no_address_is_known_as_a_whole() -> None:
    assert "p@VerySecret/word#1" in set(passwords_in_address("postgresql://u:p@VerySecret/word#1@h:5432/db"))


@pytest.mark.parametrize(
    ("text", "password"), [("host=h password=a://b", "a://b"), ("password='x://y' host=h", "x://y")]
)
def test_a_password_among_settings_may_look_like_an_address(text: str, password: str) -> None:
    assert password in set(passwords_in_address(text))


@pytest.mark.parametrize("repeated", ["xy=", "xy=&", "a=b&", "=", "a", "a:1,", "%41", ":", "?a=", "/"])
def test_a_long_address_that_is_none_is_told_at_once(repeated: str) -> None:
    assert not is_address(f"postgresql://u:p@h/db?a={repeated * 2_000}&z@")
    assert not is_address(f"postgresql://{repeated * 2_000}@@")
