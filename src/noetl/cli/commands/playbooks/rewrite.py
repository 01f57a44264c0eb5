"""Files that a command rewrites: checked, printed or replaced; one that cannot be read does not stop the others."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

import click

from noetl.cli.files import InputFile, expand_files, read, replace
from noetl.cli.output.printing import note, out
from noetl.errors import UsageError

#: a file and its bytes to its new text
Rewrite = Callable[[InputFile, bytes], str]


def rewrite_each(names: Iterable[str], rewrite: Rewrite, *, word: str, check: bool, to_stdout: bool) -> int:
    """Rewrite the files; the exit code: 2 when one cannot be read, 1 when `check` found one that would change."""
    changed = failed = False
    for file in expand_files(names):
        try:
            changed |= _rewrite(file, rewrite, word=word, check=check, to_stdout=to_stdout)
        except UsageError as error:
            note(f"noetl: {error}")
            failed = True
        except click.exceptions.Exit:
            failed = True  # what is wrong with it has been printed
    return 2 if failed else 1 if check and changed else 0


def _rewrite(file: InputFile, rewrite: Rewrite, *, word: str, check: bool, to_stdout: bool) -> bool:
    data = read(file)
    text = rewrite(file, data)
    differs = text.encode() != data.removeprefix(codecs.BOM_UTF8)
    if check:
        note(f"{file.name}: would be {word}" if differs else f"{file.name}: is as it should be")
    elif to_stdout or file.path is None:
        out(text)
    elif differs:
        replace(file.path, text, before=data)
        note(f"{file.name}: {word}")
    else:
        note(f"{file.name}: is as it should be")
    return differs
