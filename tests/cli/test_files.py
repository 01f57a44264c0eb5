"""Which files are meant, reading and replacing them."""

import os
import stat
from pathlib import Path

import pytest

from noetl.cli.files import InputFile, expand_files, one_file, read, replace, write
from noetl.errors import UsageError


def test_each_file_is_taken_once_in_the_order_it_is_named(folder: Path, good: str) -> None:
    for name in ("b.yaml", "a.yaml"):
        (folder / name).write_text(good)
    assert [file.name for file in expand_files(["b.yaml", ".", "./b.yaml"])] == ["b.yaml", "a.yaml"]


@pytest.mark.parametrize(
    "head", ["apiVersion: noetl.io/v2", '"apiVersion": "noetl.io/v1"', "# a comment\napiVersion:  noetl.io/v2 # x"]
)
def test_a_playbook_is_known_by_its_first_key(folder: Path, head: str) -> None:
    (folder / "a.yaml").write_text(f"{head}\nworkflow: [\n")
    (folder / "b.yaml").write_text("apiVersion: v1\nkind: Pod\ndata: {apiVersion: noetl.io/v2}\n")
    assert [file.name for file in expand_files(["."])] == ["a.yaml"]


def test_what_is_larger_than_any_playbook_is_not_read_to_its_end(folder: Path) -> None:
    with (folder / "big.yaml").open("wb") as file:
        file.truncate(3_000_000_000)
    assert len(read(InputFile("big.yaml", folder / "big.yaml"))) < 10_000_000


def test_a_pipe_can_be_read(folder: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a: 1")
    os.close(writer)
    assert read(one_file(f"/dev/fd/{reader}")) == b"a: 1"
    os.close(reader)


def test_replacing_leaves_no_trace_when_it_fails(folder: Path) -> None:
    file = folder / "a.yaml"
    file.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        replace(file, "\ud800", before=b"old")
    assert [path.name for path in folder.iterdir()] == ["a.yaml"]
    assert file.read_text() == "old"


def test_replacing_keeps_the_mode(folder: Path) -> None:
    file = folder / "a.yaml"
    file.write_text("old")
    file.chmod(0o604)
    replace(file, "new", before=b"old")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o604)


def test_a_file_that_is_gone_cannot_be_replaced(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"gone.yaml: cannot be written"):
        replace(folder / "gone.yaml", "new", before=b"old")


def test_writing_makes_the_folders_above(folder: Path) -> None:
    write(folder / "a" / "b" / "c", "text")
    assert (folder / "a" / "b" / "c").read_text() == "text"
