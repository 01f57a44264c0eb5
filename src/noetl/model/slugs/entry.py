"""Slug: what there is to say about one code of a diagnostic."""

from textwrap import dedent

import msgspec


class Slug(msgspec.Struct, frozen=True):
    """A diagnostic's code explained: what it means, why it matters, how to mend it, with an example of both."""

    code: str
    title: str
    meaning: str
    why: str
    mend: str
    #: a piece of a playbook in which it is found; steps when it starts with `- step:`, else root keys
    wrong: str = ""
    #: the same piece, mended
    right: str = ""


def make_slug(code: str, *, title: str, meaning: str, why: str, mend: str, wrong: str = "", right: str = "") -> Slug:
    """A slug whose examples are written indented, where they stand in the table."""
    return Slug(code, title, meaning, why, mend, _dedent_example(wrong), _dedent_example(right))


def _dedent_example(example: str) -> str:
    return dedent(example).strip("\n")
