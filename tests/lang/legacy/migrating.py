"""What the tests of migration share: a playbook around its body, and what becomes of it."""

import textwrap

from noetl.lang.legacy import migrate
from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
KINDS = ToolKinds()


def migrated(body: str) -> tuple[str, list[str]]:
    """The migrated body, and what is left to decide."""
    body = textwrap.dedent(body)
    result = migrate(HEAD + body, KINDS)
    assert result is not None
    again = migrate(result.text, KINDS)
    assert again is not None
    assert again.text == result.text
    todo = [one.message for one in result.diagnostics if one.code == "legacy-todo"]
    assert all(one.severity == "warning" for one in result.diagnostics if one.code == "legacy-todo")
    return result.text.removeprefix(HEAD), todo


def errors(body: str, *, legacy: bool = False) -> list[str]:
    """The errors of a body."""
    loaded = load(HEAD + textwrap.dedent(body), KINDS, legacy=legacy)
    return [one.code for one in loaded.diagnostics if one.severity == "error"]
