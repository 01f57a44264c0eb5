"""How exceptions are reported, and that the tree in `noetl.errors` shows all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import noetl
from noetl import errors
from noetl.errors import NoetlError, describe_error, describe_os_error
from noetl.ports import StoreFailed

#: a line of the tree: the branches, four characters per level, and the name of a class
BRANCH = re.compile(r"^((?:│   |    )*)[├└]── (\w+)")


def drawn_tree() -> Iterator[tuple[str, str]]:
    """Parent and child, as the docstring draws them."""
    path = ["NoetlError"]
    for line in (errors.__doc__ or "").splitlines():
        if branch := BRANCH.match(line):
            depth = len(branch[1]) // 4 + 1
            path[depth:] = [branch[2]]
            yield path[depth - 1], path[depth]


def defined_tree(root: type[NoetlError] = NoetlError) -> Iterator[tuple[str, str]]:
    """Parent and child, as the classes are defined; private classes never leave their module."""
    for child in root.__subclasses__():
        if child.__module__.startswith("noetl.") and not child.__name__.startswith("_"):
            yield root.__name__, child.__name__
            yield from defined_tree(child)


def test_the_tree_of_exceptions_shows_every_class_under_its_parent() -> None:
    for module in walk_packages(noetl.__path__, "noetl."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    assert sorted(drawn_tree()) == sorted(defined_tree())


def test_an_exception_of_ours_is_told_without_the_name_of_its_class() -> None:
    assert describe_error(StoreFailed("the disk is full")) == "the disk is full"
    assert describe_error(KeyError("x")) == "KeyError: 'x'"


def test_errors_of_the_system_are_told_in_words() -> None:
    assert describe_os_error(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert describe_os_error(FileNotFoundError(2, "No such file or directory")) == "no such file or directory"
    assert describe_os_error(OSError("odd")) == "odd"
    assert describe_os_error(EOFError()) == "EOFError"
