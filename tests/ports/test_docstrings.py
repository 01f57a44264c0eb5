"""A port is its docstrings: every public method of every protocol says what an implementation must do."""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc, getmembers, isfunction
from pkgutil import iter_modules
from typing import Any, Protocol

import pytest

import noetl.ports


def ports() -> list[type]:
    """Return the protocols that the modules of `noetl.ports` define."""
    names = [f"noetl.ports.{module.name}" for module in iter_modules(noetl.ports.__path__)]
    found = [(name, value) for name in names for value in vars(import_module(name)).values()]
    return [value for name, value in found if is_protocol(value) and value.__module__ == name]


def is_protocol(value: Any) -> bool:
    return isinstance(value, type) and Protocol in value.__bases__


def is_member(value: Any) -> bool:
    return isfunction(value) or isinstance(value, property)


def test_the_ports_are_found() -> None:
    assert {"EventLog", "Slots", "WorkerRegistry", "Bus", "ResultStore", "Keychain", "World", "Tool"} <= {
        port.__name__ for port in ports()
    }


@pytest.mark.parametrize("port", ports(), ids=lambda port: port.__name__)
def test_a_port_and_each_of_its_public_methods_has_a_docstring(port: type) -> None:
    methods = {name: value for name, value in getmembers(port, is_member) if not name.startswith("_")}
    assert methods != {}
    assert port.__doc__
    assert [name for name, value in methods.items() if not getdoc(value)] == []
