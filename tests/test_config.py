"""Settings, from the environment and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.config import settings
from noetl.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for name in ("NOETL_RESULTS", "NOETL_DURABILITY", "NOETL_STORE", "NOETL_LEASE", "NOETL_BUS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_nothing_said_means_this_machine() -> None:
    assert settings().results == ()


def test_several_stores_are_named_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_RESULTS", "s3://b/p, postgres ,")
    assert settings().results == ("s3://b/p", "postgres")


def test_a_file_says_the_same_and_the_environment_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "home" / "noetl.toml").write_text('NOETL_RESULTS = ["s3://a", "postgres"]\nNOETL_DURABILITY = "power"\n')
    assert settings().results == ("s3://a", "postgres")
    assert settings().durability == "power"
    (here / "noetl.toml").write_text('NOETL_RESULTS = "s3://b"\nNOETL_RESULTS_CACHE_MB = 10\n')
    assert (settings().results, settings().results_cache_mb, settings().durability) == (("s3://b",), 10, "process")
    monkeypatch.setenv("NOETL_RESULTS", "s3://c")
    assert settings().results == ("s3://c",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("results = 's3://b'", "`results` is not known there; it may have NOETL_DURABILITY, NOETL_STORE"),
        ("NOETL_KEY = 'x'", "`NOETL_KEY` is not known there"),
        ("NOETL_RESULTS", "cannot be read"),
        ("NOETL_RESULTS_CACHE_MB = 'much'", "write a whole number"),
        ("NOETL_LEASE = 0.2", "NOETL_LEASE is '0.2'; write a number of seconds from 1 to 3600"),
        ("NOETL_LEASE = 'nan'", "write a number of seconds"),
        ("NOETL_LEASE = 'long'", "write a number of seconds"),
    ],
)
def test_what_a_file_cannot_say_is_told(here: Path, text: str, said: str) -> None:
    (here / "noetl.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        settings()


def test_an_owner_is_believed_to_live_for_as_long_as_is_set(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings().lease_s == 10
    (here / "noetl.toml").write_text("NOETL_LEASE = 30\n")
    assert settings().lease_s == 30
    monkeypatch.setenv("NOETL_LEASE", "1.5")
    assert settings().lease_s == 1.5


def test_tools_see_no_credential_of_the_result_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    assert "AWS_SECRET_ACCESS_KEY" in settings().environment
    monkeypatch.setenv("NOETL_RESULTS", "s3://b")
    assert {"AWS_SECRET_ACCESS_KEY", "NOETL_RESULTS"} & settings().environment.keys() == set()


@pytest.mark.parametrize("said", ["", "local"])
def test_no_bus_is_the_same_as_a_local_one(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("NOETL_BUS", said)
    assert settings().bus is None


def test_a_bus_may_stand_in_a_file_and_tools_never_see_its_password(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "noetl.toml").write_text('NOETL_BUS = ["nats://a:4222", "nats://b:4222"]\n')
    found = settings().bus
    assert found is not None
    assert found.reveal() == "nats://a:4222,nats://b:4222"
    monkeypatch.setenv("NOETL_BUS", "nats://me:hush@a:4222")
    assert "hush" not in repr(settings())
    assert "NOETL_BUS" not in settings().environment
