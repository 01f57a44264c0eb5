"""Kinds of errors: every one that the program makes is explained."""

from __future__ import annotations

import re
from pathlib import Path

from noetl.model.slugs import SLUGS
from noetl.model.slugs.failures import FAILURES

SOURCES = Path(__file__).parents[2] / "src" / "noetl"
MADE = re.compile(r'(?:failure|Failing|Refused)\(\s*"([a-z-]+)"|error\.kind = "([a-z-]+)"')


def test_every_kind_that_is_made_somewhere_is_explained() -> None:
    made = {
        one or other
        for path in SOURCES.rglob("*.py")
        for one, other in MADE.findall(path.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert len(made) > 20
    assert made - FAILURES.keys() - SLUGS.keys() == set()


def test_no_kind_is_explained_twice() -> None:
    assert FAILURES.keys() & SLUGS.keys() == set()
