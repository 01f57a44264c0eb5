"""Files that a command rewrites."""

from pathlib import Path

from noetl.cli.files import InputFile
from noetl.cli.playbook_files import rewrite_each
from noetl.errors import UsageError


def shouted(file: InputFile, data: bytes) -> str:
    if b"never" in data:
        raise UsageError(f"{file.name}: no")
    return data.decode().upper()


def rewrite(*names: str, check: bool = False, to_stdout: bool = False) -> int:
    return rewrite_each(names, shouted, word="shouted", check=check, to_stdout=to_stdout)


def test_files_are_replaced_and_told(folder: Path, capsys) -> None:
    (folder / "a").write_text("a\n")
    (folder / "b").write_text("B\n")
    assert rewrite("a", "b") == 0
    assert (folder / "a").read_text() == "A\n"
    assert capsys.readouterr().err == "a: shouted\nb: already formatted\n"


def test_check_writes_nothing_and_exits_with_1_if_something_would_change(folder: Path) -> None:
    (folder / "a").write_text("a\n")
    (folder / "b").write_text("B\n")
    assert rewrite("a", "b", check=True) == 1
    assert rewrite("b", check=True) == 0
    assert (folder / "a").read_text() == "a\n"


def test_stdout_gets_the_text_and_the_file_stays(folder: Path, capsys) -> None:
    (folder / "a").write_text("a\n")
    assert rewrite("a", to_stdout=True) == 0
    assert (folder / "a").read_text() == "a\n"
    assert capsys.readouterr() == ("A\n", "")


def test_a_file_that_fails_does_not_stop_the_others(folder: Path, capsys) -> None:
    (folder / "a").write_text("never\n")
    (folder / "b").write_text("b\n")
    assert rewrite("a", "missing", "b") == 2
    assert (folder / "b").read_text() == "B\n"
    assert capsys.readouterr().err == "noetl: a: no\nnoetl: missing: there is no such file\nb: shouted\n"


def test_a_folder_stands_for_its_playbooks(folder: Path, good: str) -> None:
    (folder / "flow.yaml").write_text(good)
    (folder / "other.yaml").write_text("a: 1\n")
    assert rewrite(".") == 0
    assert (folder / "flow.yaml").read_text() == good.upper()
    assert (folder / "other.yaml").read_text() == "a: 1\n"
