"""Files that a command line names: finding and reading them, and replacing one so that it is never half written."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from noetl.errors import UsageError
from noetl.model.nearest import nearest

STDIN = "-"
#: how it is called in messages
STDIN_NAME = "<stdin>"
#: more than the language reads; what is beyond is not even taken from the disk
_ENOUGH = 8_000_001
_ENDINGS = (".yaml", ".yml")
_PLAYBOOK = re.compile(rb"""^(?:\{\s*)?["']?apiVersion["']?\s*:\s*["']?noetl\.io/""", re.MULTILINE)
#: what its author may have meant for a playbook, though nobody would take it for one
_NEARLY = re.compile(
    rb"""^["']?(?:api[_-]?version["']?\s*:\s*["']?noetl|kind["']?\s*:\s*["']?playbook\b|workflow["']?\s*:\s*$)""",
    re.MULTILINE | re.IGNORECASE,
)
_STEP = re.compile(rb"^\s*-\s*\{?\s*step\s*:", re.MULTILINE)
_TESTS = (".test.yaml", ".test.yml")
#: folders that hold other people's files
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class InputFile(NamedTuple):
    """A file of the command line; `path` is None for stdin. A folder is one in which no playbook was found."""

    name: str
    path: Path | None
    is_folder: bool = False


def expand_files(names: Iterable[str], skipped: list[str] | None = None, *, tests: bool = False) -> list[InputFile]:
    """The files that are meant: folders stand for the playbooks in them, each file is taken once.

    With `tests` they stand for test files, too. `skipped` gets the YAML files of folders that are no playbooks.
    """
    found: dict[object, InputFile] = {}
    for name in names:
        for one in _expand_name(name, skipped if skipped is not None else [], tests=tests):
            found.setdefault(one.path.absolute() if one.path is not None else None, one)
    return list(found.values())


def one_file(name: str) -> InputFile:
    """A file of a command that takes one."""
    return InputFile(STDIN_NAME, None) if name == STDIN else InputFile(name, Path(name))


def _expand_name(name: str, skipped: list[str], *, tests: bool) -> Iterator[InputFile]:
    path = Path(name)
    if name == STDIN or not path.is_dir():
        yield one_file(name)
        return
    playbooks = []
    for file in sorted(yaml_files(path)):
        if looks_like_playbook(file) or (tests and file.name.endswith(_TESTS)):
            playbooks.append(InputFile(str(file), file))
        else:
            skipped.append(str(file))
    yield from playbooks or [InputFile(name, path, is_folder=True)]


def yaml_files(folder: Path) -> Iterator[Path]:
    """All YAML files in a folder and below, less those of other people."""
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS]
        yield from (Path(root, name) for name in files if name.endswith(_ENDINGS))


def looks_like_playbook(file: Path) -> bool:
    """Whether a file is a playbook, or its author meant it to be one; by its text alone."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_ENOUGH)
            return _PLAYBOOK.search(data) is not None or (
                _NEARLY.search(data) is not None and (_STEP.search(data) is not None or b"noetl" in data)
            )
    except OSError:
        return True  # reading it again will say what is wrong with it


def read(file: InputFile) -> bytes:
    """The bytes of a file that may be a playbook."""
    try:
        data = _read(file)
    except FileNotFoundError:
        raise UsageError(f"{file.name}: there is no such file{_suggest_name(Path(file.name))}") from None
    except IsADirectoryError:
        what = "there is no playbook in this folder" if file.is_folder else "this is a folder, not a file"
        raise UsageError(f"{file.name}: {what}") from None
    except PermissionError:
        raise UsageError(f"{file.name}: this file may not be read") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{file.name}: cannot be read ({reason})") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{file.name}: this is UTF-16 text; save it in the encoding UTF-8")
    if b"\0" in data and not _is_text(data):
        raise UsageError(f"{file.name}: this is a binary file, not a playbook")
    return data


def _read(file: InputFile) -> bytes:
    if file.path is None:
        return sys.stdin.buffer.read(_ENOUGH)
    with file.path.open("rb") as opened:
        return opened.read(_ENOUGH)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_unicode(text: str) -> bool:
    """Whether an argument can be written down; bytes that are no UTF-8 come as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def near(file: str) -> str:
    """A file as seen from the current folder, where it lies in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _suggest_name(path: Path) -> str:
    try:
        meant = nearest(path.name, (other.name for other in path.parent.iterdir()))
    except OSError:
        return ""
    return f"; did you mean {path.with_name(meant)}?" if meant else ""


def replace(path: Path, text: str, *, before: bytes) -> None:
    """Put another text into a file, all or nothing; its mode, its owner and a byte order mark are kept."""
    import tempfile  # slow to import, and reading is what most commands do

    target = path.resolve()
    data = codecs.BOM_UTF8 * before.startswith(codecs.BOM_UTF8) + text.encode("utf-8")
    try:
        status = target.stat()
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        made.chmod(status.st_mode & 0o7777)
        _keep_owner(made, status)
        made.replace(target)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def _keep_owner(made: Path, status: os.stat_result) -> None:
    if hasattr(os, "chown") and (made.stat().st_uid, made.stat().st_gid) != (status.st_uid, status.st_gid):
        try:
            os.chown(made, status.st_uid, status.st_gid)
        except PermissionError:
            return  # only root may give files away; the content matters more


def write(path: Path, text: str) -> None:
    """Write a new file, or another text into an old one."""
    try:
        if path.exists():
            replace(path, text, before=b"")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
