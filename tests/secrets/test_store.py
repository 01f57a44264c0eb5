"""The credential store: nothing can be read, swapped or changed unnoticed, and a crash in a rotation costs nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from credential_home import Desk

from noetl.errors import UsageError
from noetl.ports import NoCredential

TOKEN = {"token": "tok-canary-93af"}


def content(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desk.store().file.read_text())
    return found


def test_what_was_added_is_found_again_and_lies_there_encrypted(desk: Desk) -> None:
    desk.store().add("api", "bearer", TOKEN)
    assert desk.store().get("api") == ("bearer", TOKEN)
    for file in (desk.folder / "home").iterdir():
        assert b"canary" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


def test_a_list_needs_no_key(desk: Desk) -> None:
    desk.store().add("api", "bearer", TOKEN)
    desk.store().master.file.unlink()
    assert [(name, kept.kind, kept.fields) for name, kept in desk.store().all().items()] == [
        ("api", "bearer", ("token",))
    ]


def test_credentials_without_their_key_are_refused_and_no_new_key_is_made(desk: Desk) -> None:
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    store.master.file.unlink()
    with pytest.raises(NoCredential, match="not their key"):
        store.get("api")
    with pytest.raises(NoCredential, match="not their key"):
        store.add("other", "bearer", TOKEN)
    assert not store.master.file.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_is_refused(desk: Desk, mode: int) -> None:
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    store.master.file.chmod(mode)
    with pytest.raises(NoCredential, match="chmod 600"):
        store.get("api")


def test_another_key_is_told_apart(desk: Desk) -> None:
    desk.store().add("api", "bearer", TOKEN)
    other = b64encode(os.urandom(32)).decode()
    with pytest.raises(NoCredential, match="another key"):
        desk.store(other).get("api")


@pytest.mark.parametrize(
    "key", ["secret", "x" * 44, "", b64encode(bytes(16)).decode()], ids=["word", "x", "-", "short"]
)
def test_there_is_no_default_key_and_no_weak_one(desk: Desk, key: str) -> None:
    if not key:
        assert desk.store().master.keys() == []
        return
    with pytest.raises(NoCredential, match="32 random bytes") as told:
        desk.store(key).add("api", "bearer", TOKEN)
    assert key not in str(told.value)


def test_every_flipped_bit_is_noticed(desk: Desk) -> None:
    desk.store().add("api", "bearer", TOKEN)
    whole = content(desk)
    for part in ("wrapped", "data"):
        good = urlsafe_b64decode(whole["credentials"]["api"]["sealed"][part])
        for at in range(len(good)):
            bad = bytearray(good)
            bad[at] ^= 1 << (at % 8)
            changed = json.loads(json.dumps(whole))
            changed["credentials"]["api"]["sealed"][part] = urlsafe_b64encode(bytes(bad)).decode()
            desk.store().file.write_text(json.dumps(changed))
            with pytest.raises(NoCredential, match="changed or damaged") as told:
                desk.store().get("api")
            assert "canary" not in str(told.value)


def test_one_credential_cannot_stand_in_for_another_nor_for_an_older_version(desk: Desk) -> None:
    store = desk.store()
    store.add("low", "bearer", TOKEN)
    store.add("high", "bearer", {"token": "other"})
    before = content(desk)
    swapped = json.loads(json.dumps(before))
    swapped["credentials"]["high"]["sealed"] = before["credentials"]["low"]["sealed"]
    store.file.write_text(json.dumps(swapped))
    with pytest.raises(NoCredential, match="changed or damaged"):
        store.get("high")
    store.file.write_text(json.dumps(before))
    store.replace("low", {"token": "new"})
    rolled_back = content(desk)
    rolled_back["credentials"]["low"]["sealed"] = before["credentials"]["low"]["sealed"]
    store.file.write_text(json.dumps(rolled_back))
    with pytest.raises(NoCredential, match="changed or damaged"):
        store.get("low")


def test_a_damaged_file_is_told_of_without_its_content(desk: Desk) -> None:
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    store.file.write_text("{broken")
    with pytest.raises(NoCredential, match="is damaged"):
        store.all()


def test_names_are_taken_once_and_removed_together_or_not_at_all(desk: Desk) -> None:
    store = desk.store()
    store.add("one", "bearer", TOKEN)
    store.add("two", "bearer", TOKEN)
    with pytest.raises(UsageError, match="already"):
        store.add("one", "bearer", TOKEN)
    with pytest.raises(UsageError, match="did you mean `two`"):
        store.remove(("one", "twos"))
    assert list(store.all()) == ["one", "two"]
    store.remove(("one", "two"))
    assert store.all() == {}


def test_a_new_key_reads_everything_and_the_old_one_nothing(desk: Desk) -> None:
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    old = store.master.file.read_text()
    assert store.change_key() == 1
    assert store.get("api") == ("bearer", TOKEN)
    store.master.file.write_text(old)
    with pytest.raises(NoCredential, match="another key"):
        store.get("api")


def test_a_key_that_changes_between_the_looks_at_file_and_key_is_no_failure(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    read, looks = store._read, []

    def read_then_changed() -> Any:
        looks.append(1)
        content = read()
        if len(looks) == 1:
            desk.store().change_key()
        return content

    monkeypatch.setattr(store, "_read", read_then_changed)
    assert store.get("api") == ("bearer", TOKEN)
    assert len(looks) == 2


def test_a_key_of_the_environment_is_changed_by_naming_both(desk: Desk) -> None:
    old, new = (b64encode(os.urandom(32)).decode() for _ in range(2))
    desk.store(old).add("api", "bearer", TOKEN)
    assert not desk.store().master.file.exists()
    assert desk.store(f"{new},{old}").change_key() == 1
    assert desk.store(new).get("api") == ("bearer", TOKEN)
    with pytest.raises(NoCredential, match="another key"):
        desk.store(old).get("api")


CRASHING = """
import os, sys, time
from pathlib import Path
from noetl.secrets import encryption, encryption, store
left, folder = int(sys.argv[1]), Path(sys.argv[2])
replace = Path.replace
def crash(self, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)      # before this write is seen
    done = replace(self, target)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)      # just behind it
    return done
Path.replace = crash
store.CredentialStore(folder / "credentials.json", encryption.MasterKeys(None, folder / "key"), time.time).change_key()
"""


@pytest.mark.parametrize("at", range(1, 7))
def test_a_rotation_that_is_killed_at_any_write_loses_nothing(desk: Desk, at: int) -> None:
    store = desk.store()
    store.add("api", "bearer", TOKEN)
    store.add("db", "basic", {"username": "u", "password": "p4ssw0rd"})
    sources = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", CRASHING, str(at), str(store.file.parent)],
        env={**os.environ, "PYTHONPATH": sources},
        check=False,
    )
    assert done.returncode == -9
    assert desk.store().get("api") == ("bearer", TOKEN)
    assert desk.store().get("db")[1]["password"] == "p4ssw0rd"
    assert desk.store().change_key() == 2
    assert desk.store().get("api") == ("bearer", TOKEN)


def test_processes_that_add_at_the_same_time_lose_nothing(desk: Desk) -> None:
    code = (
        "import sys, time; from pathlib import Path; from noetl.secrets import encryption, store; f = Path(sys.argv[1]);"
        "s = store.CredentialStore(f / 'credentials.json', encryption.MasterKeys(None, f / 'key'), time.time);"
        "[s.add(f'{sys.argv[2]}_{n}', 'generic', {'value': 'x'}) for n in range(5)]"
    )
    desk.store().add("first", "generic", {"value": "x"})
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    folder = str(desk.store().file.parent)
    running = [subprocess.Popen([sys.executable, "-c", code, folder, f"p{n}"], env=environment) for n in range(3)]
    assert [one.wait() for one in running] == [0, 0, 0]
    assert len(desk.store().all()) == 16
    assert desk.store().get("p2_4") == ("generic", {"value": "x"})


def test_nonces_are_never_used_twice(desk: Desk) -> None:
    from noetl.secrets.encryption import new_key, seal

    key = new_key()
    seen = {seal({"a": 1}, key, ["n"]).data[:16] for _ in range(2000)}
    assert len(seen) == 2000
