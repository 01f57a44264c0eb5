"""How exceptions are told."""

from __future__ import annotations

from noetl.errors import describe_error
from noetl.ports import StoreFailed


def test_an_exception_of_ours_is_told_without_the_name_of_its_class() -> None:
    assert describe_error(StoreFailed("the disk is full")) == "the disk is full"
    assert describe_error(KeyError("x")) == "KeyError: 'x'"
