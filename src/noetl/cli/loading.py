"""Playbooks from files: loaded for one short command, so without the garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import click

from noetl.cli.files import STDIN, STDIN_NAME, Given, one_file, read
from noetl.cli.printing import as_json, in_colour, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.lang import Loaded
    from noetl.model.net import Net

#: how the language names the command that rewrites a file whose name it does not know
MIGRATE = "noetl migrate FILE"
#: shells complete it to files; whether one can be read is for `files.read` to say
FILE = click.Path(allow_dash=True, readable=False)


@contextmanager
def collector_off() -> Iterator[None]:
    """A net is one big living structure: looking for garbage in it, again and again, would double the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_data(data: bytes, name: str, *, legacy: bool = False, strict: bool = False) -> Loaded:
    """What the language makes of the bytes of a file."""
    from noetl.lang import load_bytes
    from noetl.tools.registry import Kinds

    with collector_off():
        loaded = load_bytes(data, Kinds(), name=name, legacy=legacy, strict=strict)
    return _with_file_named(loaded)


def _with_file_named(loaded: Loaded) -> Loaded:
    """The same with commands that can be copied: the file stands in them."""
    if not any(MIGRATE in (found.fix or "") for found in loaded.diagnostics):
        return loaded
    from shlex import quote

    from msgspec.structs import replace

    name = STDIN if loaded.source.name == STDIN_NAME else quote(loaded.source.name)
    command = MIGRATE.replace("FILE", name)
    named = (
        replace(found, fix=found.fix.replace(MIGRATE, command)) if found.fix else found for found in loaded.diagnostics
    )
    return replace(loaded, diagnostics=tuple(named))


def as_given(loaded: Loaded, file: str) -> Loaded:
    """The same with the file called as on the command line."""
    from msgspec.structs import replace

    from noetl.model.source import Source

    return _with_file_named(replace(loaded, source=Source(loaded.source.text, one_file(file).name)))


def playbook_text(file: Given, data: bytes) -> str:
    """The text of a file that can be read as a playbook, whatever its dialect; other files are refused."""
    from noetl.lang.node import MapNode, Scalar
    from noetl.lang.reader import decode, read
    from noetl.model.diagnostics import Diagnostics
    from noetl.model.source import Source

    problems = Diagnostics(Source("", file.name))
    text = decode(data, problems)
    problems.source.text = text or ""
    root = read(text, problems) if text is not None else None
    if text is None or not isinstance(root, MapNode):
        refuse(load_data(data, file.name), json=False)
    version = root.get("apiVersion")
    ours = isinstance(version, Scalar) and version.text.startswith("noetl.io/")
    if not ours and "workflow" not in root:
        raise UsageError(f"{file.name}: this is not a playbook: it has no `workflow`, and no `apiVersion: noetl.io/v2`")
    return text


def load_file(file: Given, *, legacy: bool = False, strict: bool = False) -> Loaded:
    """What the language makes of a file."""
    return load_data(read(file), file.name, legacy=legacy, strict=strict)


def net_or_exit(name: str, *, legacy: bool, json: bool = False) -> Net:
    """The net of a file; where it has errors, they are printed and the command ends."""
    loaded = load_file(one_file(name), legacy=legacy)
    if loaded.net is None:
        refuse(loaded, json=json)
    return loaded.net


def refuse(loaded: Loaded, *, json: bool) -> NoReturn:
    """Print what is wrong with a playbook and end the command."""
    from noetl.lang import report

    found = [report.Reported(loaded.source, loaded.diagnostics)]
    if json:
        out(as_json(report.as_json(found)))
    else:
        text = report.as_text(loaded.source, loaded.diagnostics, colour=in_colour(sys.stderr))
        sys.stderr.write(f"{text}\n{report.summary(found)}")
    raise click.exceptions.Exit(2)
