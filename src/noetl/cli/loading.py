"""Playbooks from files: loaded for one short command, so without the garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import click

from noetl.cli.files import Given, one_file, read
from noetl.cli.printing import as_json, in_colour, out

if TYPE_CHECKING:
    from noetl.lang import Loaded
    from noetl.model.net import Net

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
        return load_bytes(data, Kinds(), name=name, legacy=legacy, strict=strict)


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
