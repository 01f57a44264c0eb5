"""Names that a package exports without importing the modules that define them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping


def export_lazily(package: str, exports: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's `__getattr__`: each name is imported from its module on first use.

    `exports` maps a module, relative to the package, to the names it defines, separated by spaces. Type checkers read
    the same names from the imports under `TYPE_CHECKING`; a test compares both.
    """
    modules = {name: module for module, names in exports.items() for name in names.split()}

    def find(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        full = f"{package}.{module}"
        __import__(full)
        value: object = getattr(sys.modules[full], name)
        setattr(sys.modules[package], name, value)
        return value

    return find
