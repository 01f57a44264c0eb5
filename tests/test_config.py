"""Settings, from the environment and from a file."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

from noetl import config
from noetl.config import SETTINGS, settings
from noetl.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for name in ("NOETL_RESULTS", "NOETL_DURABILITY", "NOETL_STORE", "NOETL_LEASE", "NOETL_BUS", "NOETL_CATALOG"):
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
    (here / "noetl.toml").write_text('durability = "process"\nNOETL_RESULTS_CACHE_MB = 10\n')
    assert (settings().results, settings().results_cache_mb) == (("s3://a", "postgres"), 10)
    assert settings().durability == "process"
    monkeypatch.setenv("NOETL_RESULTS", "s3://c")
    assert settings().results == ("s3://c",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("result = 's3://b'", "`result` is not known there; it may have NOETL_DURABILITY, NOETL_CATALOG"),
        ("NOETL_KEY = 'x'", "`NOETL_KEY` is not known there"),
        ("NOETL_RESULTS", "cannot be read"),
        ("results = 's3://b'", "a project's file cannot set `results`; set NOETL_RESULTS in the environment"),
        ("NOETL_STORE = 'postgresql://h/d'", "a project's file cannot set `NOETL_STORE`"),
        ("server = 'http://h'", "a project's file cannot set `server`"),
        ("hosts = 'h'", "a project's file cannot set `hosts`"),
        ("lease = 10\nNOETL_LEASE = 20", "both set NOETL_LEASE; keep one"),
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
    (here / "home" / "noetl.toml").write_text('NOETL_BUS = ["nats://a:4222", "nats://b:4222"]\n')
    found = settings().bus
    assert found is not None
    assert found.reveal() == "nats://a:4222,nats://b:4222"
    monkeypatch.setenv("NOETL_BUS", "nats://me:hush@a:4222")
    assert "hush" not in repr(settings())
    assert "NOETL_BUS" not in settings().environment


@pytest.mark.parametrize("name", SETTINGS)
def test_every_variable_is_read(name: str) -> None:
    """What the reference lists is looked up under that name, and nothing else is."""
    text = inspect.getsource(config)
    assert len(re.findall(rf'(?:env|environ)(?:\.get\(|\[)"{name}"', text)) >= 1
    assert set(re.findall(r'(?:env|environ)(?:\.get\(|\[)"(\w+)"', text)) == SETTINGS.keys()


def test_folders_of_the_catalog_are_relative_to_the_file_that_names_them(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings().catalog == ()
    (here / "home" / "noetl.toml").write_text('catalog = ["books", "/shared"]\n')
    assert settings().catalog == (here / "home" / "books", Path("/shared"))
    (here / "noetl.toml").write_text('catalog = "books"\n')
    assert settings().catalog == (here / "books",)
    monkeypatch.setenv("NOETL_CATALOG", "a, b/c")
    assert settings().catalog == (here / "a", here / "b" / "c")


def test_a_current_folder_that_was_removed_has_no_file(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "home" / "noetl.toml").write_text("NOETL_RESULTS_CACHE_MB = 10\n")
    gone = tmp_path_factory.mktemp("gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert settings().results_cache_mb == 10


def test_a_store_may_be_a_file_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings().database == here / "home" / "noetl.db"
    for text, file in (
        ("sqlite:///runs.db", here / "runs.db"),
        (f"sqlite:///{here}/other/runs.db", here / "other" / "runs.db"),
        ("sqlite:////var/x.db", Path("/var/x.db")),
    ):
        monkeypatch.setenv("NOETL_STORE", text)
        assert (settings().database, settings().store) == (file, None)
        assert settings().hidden[:2] == [here / "home", file]
        assert "NOETL_STORE" not in settings().environment
    monkeypatch.delenv("NOETL_STORE")
    (here / "home" / "noetl.toml").write_text('store = "sqlite:///deep.db"\n')
    assert settings().database == here / "home" / "deep.db"


@pytest.mark.parametrize(
    "text",
    ["mysql://me:hush@h/d", "postgresql:/me:hush@h", "runs.db", "sqlite", "file:///x.db", "POSTGRESQL://me:hush@h/d"],
)
def test_an_address_with_another_scheme_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NOETL_STORE", text)
    with pytest.raises(UsageError) as error:
        settings()
    assert str(error.value) == (
        "NOETL_STORE is not the address of a store; write postgresql://USER:PASSWORD@HOST/DATABASE, sqlite:///FILE or "
        "sqlite:////ABSOLUTE/FILE"
    )


@pytest.mark.parametrize(
    "text",
    ["sqlite:", "sqlite://", "sqlite:///", "sqlite:runs.db", "sqlite://me:hush@h/x", "sqlite:///:memory:", "sqlite:///x/", "sqlite:///x?mode=ro"],
)  # fmt: skip
def test_an_address_of_sqlite_names_a_file(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NOETL_STORE", text)
    with pytest.raises(UsageError, match="names no file; write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE") as error:
        settings()
    assert "hush" not in str(error.value)


def test_a_slash_too_few_does_not_make_a_store_in_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_STORE", "sqlite:///srv/noetl/runs.db")
    with pytest.raises(UsageError, match=r"written with four: sqlite:////srv/noetl/runs\.db"):
        settings()


def test_no_test_records_its_runs_in_the_home_of_whoever_runs_it() -> None:
    import pwd

    assert not settings().home.is_relative_to(pwd.getpwuid(os.getuid()).pw_dir)
