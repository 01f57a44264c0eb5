"""What an installation of the core brings along."""

from __future__ import annotations

import re
from importlib.metadata import requires

#: noetl itself included
MOST_DISTRIBUTIONS = 31
#: chosen, and to be added by what needs them
TO_COME = {"cronsim"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_by(name: str) -> set[str]:
    """The direct requirements of a distribution, on this platform and without extras."""
    found = set()
    for requirement in requires(name) or ():
        what, _, marker = requirement.partition(";")
        if holds(marker):
            match = _NAME.match(what)
            assert match is not None, requirement
            found.add(normalized(match.group()))
    return found


def holds(marker: str) -> bool:
    from packaging.markers import Marker

    return not marker.strip() or Marker(marker).evaluate({"extra": ""})


def core() -> set[str]:
    found: set[str] = set()
    ahead = {"noetl"}
    while ahead:
        name = ahead.pop()
        found.add(name)
        ahead |= needed_by(name) - found
    return found


def test_the_core_is_at_most_so_many_distributions() -> None:
    found = core() | TO_COME
    assert len(found) <= MOST_DISTRIBUTIONS, sorted(found)


def test_what_was_given_up_for_its_size_has_not_come_back() -> None:
    assert core() & {"zstandard", "cryptography", "grandalf", "pyparsing", "jsonschema"} == set()
