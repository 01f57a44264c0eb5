"""noetl credential: the encrypted store. Values go in, and never come out here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.executions import json_option
from noetl.cli.local_audit import record_apart
from noetl.cli.output.printing import as_json, columns, note, out
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.secrets import CredentialStore, StoredCredential

_FROM = "-"


def _names(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """What is in the store, for a shell to complete."""
    from noetl.errors import NoetlError

    try:
        return [name for name in _store().all() if name.startswith(begun)]
    except NoetlError:
        return []


def _kinds(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    from noetl.secrets import CREDENTIAL_KINDS

    return [kind for kind in CREDENTIAL_KINDS if kind.startswith(begun)]


@click.group()
def command() -> None:
    """Keep credentials for playbooks, encrypted, in NOETL_HOME.

    A playbook that declares `keychain: [{name: NAME, kind: KIND}]` finds them here by their name. They are encrypted with
    the key in the file `key` there (or that NOETL_KEY_FILE names), which is made with the first credential and which
    nobody else may be able to read; or with NOETL_KEY. Values are never shown.
    """


value_options = [
    click.option("--set", "given", metavar="FIELD=VALUE", multiple=True,
                 help="A field; may be repeated. Others on this machine can see it while the command runs."),
    click.option("--file", metavar="FILE|-", help="Take the value from a file, or from stdin: a JSON map, or one text."),
]  # fmt: skip


def _with_values(function: Any) -> Any:
    for option in reversed(value_options):
        function = option(function)
    return function


@command.command("add")
@click.argument("name", metavar="NAME")
@click.option(
    "--kind", default="generic", show_default=True, shell_complete=_kinds, help="What it is, as in `keychain`."
)
@_with_values
@json_option
def add(*, name: str, kind: str, given: tuple[str, ...], file: str | None, as_data: bool) -> None:
    """Add a credential. Without --set and --file it is asked for, or read from stdin if that is no terminal."""
    _check_name(name)
    _check_kind(kind)
    kept = _store().add(name, kind, _values(kind, given, file))
    record_apart("credential.add", name)
    _print_change(name, kept, "added", as_data=as_data)


@command.command("list")
@json_option
def list_all(*, as_data: bool) -> None:
    """List the credentials: names, kinds and the names of their fields; never values."""
    found = _store().all()
    if as_data:
        out(as_json([_as_document(name, kept) for name, kept in found.items()]))
    elif not found:
        note("there are no credentials; `noetl credential add NAME` adds one")
    else:
        rows = [("NAME", "KIND", "FIELDS", "VERSION", "CHANGED")]
        rows += [
            (name, kept.kind, ", ".join(kept.fields), str(kept.version), kept.updated_at)
            for name, kept in found.items()
        ]
        out(columns(rows))


@command.command("remove")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(*, names: tuple[str, ...], yes: bool, as_data: bool) -> None:
    """Remove credentials: all that are named, or none if one is not there. At a terminal it asks first."""
    if not yes and not as_data and sys.stdin.isatty():
        click.confirm(f"remove {', '.join(names)}? What is removed cannot be brought back", abort=True, err=True)
    _store().remove(names)
    record_apart("credential.remove", *names)
    if as_data:
        out(as_json({"removed": list(names)}))
    else:
        note(f"removed {', '.join(names)}")


@command.command("rotate")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_names)
@_with_values
@json_option
def rotate(*, name: str | None, given: tuple[str, ...], file: str | None, as_data: bool) -> None:
    """Give a credential a new value; without NAME, put all of them under a new key.

    The new key takes the place of the old one in the key file. If the key is given by NOETL_KEY, set that to NEW,OLD for
    this call, and to NEW afterwards.
    """
    store = _store()
    if name is None:
        if given or file is not None:
            raise UsageError("say which credential gets the new value: `noetl credential rotate NAME`")
        count = store.change_key()
        record_apart("credential.rotate", "the key of all credentials")
        if as_data:
            out(as_json({"credentials": count}))
        else:
            note(f"{count} credential{'' if count == 1 else 's'} under a new key")
        return
    old = store.all().get(name)
    kind = old.kind if old is not None else "generic"
    kept = store.replace(name, _values(kind, given, file) if old is not None else {})
    record_apart("credential.rotate", name)
    _print_change(name, kept, "has a new value", as_data=as_data)


# --- values ------------------------------------------------------------------------------------------------------------


def _values(kind: str, given: tuple[str, ...], file: str | None) -> dict[str, Any]:
    """The fields of a credential: from the command line, from a file, from stdin, or typed in unseen."""
    from noetl.secrets import complete_fields, fields_of, problem_in

    fields: dict[str, Any] = {}
    if file is not None:
        fields = fields_of(kind, _whole(_read(file)))
    elif not given:
        fields = _prompt_fields(kind) if sys.stdin.isatty() else fields_of(kind, _whole(_read(_FROM)))
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise UsageError("--set wants FIELD=VALUE")  # what was given may be the value itself
        fields[name] = value
    problem = problem_in(kind, complete_fields(kind, fields))
    if problem is not None:
        raise UsageError(problem)
    return fields


def _whole(text: str) -> str:
    """A text that is no map cut short: whoever begins one means one."""
    if not text.lstrip().startswith("{"):
        return text
    import json

    try:
        json.loads(text)
    except ValueError as error:
        at = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a number"
        said = f"the value begins with {{ and is not JSON ({at}); a text that begins so is given with --set FIELD=VALUE"
        raise UsageError(said) from None
    return text


def _read(file: str) -> str:
    """The text of a file or of stdin, without the end of its last line."""
    try:
        if file == _FROM:
            text = sys.stdin.read()
        else:
            with open(file, encoding="utf-8") as opened:  # noqa: PTH123  its OSError names the file
                text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UsageError(f"{file}: cannot be read ({reason})") from None
    text = text.rstrip("\r\n")
    if not text:
        raise UsageError(f"{'stdin' if file == _FROM else file} is empty: there is no value in it")
    return text


def _prompt_fields(kind: str) -> dict[str, Any]:
    from noetl.secrets import CREDENTIAL_KINDS, is_open

    about = CREDENTIAL_KINDS[kind]
    names = about.required or (about.main or "value",)
    return {name: _prompt_value(name, hidden=not is_open(name)) for name in names}


def _prompt_value(name: str, *, hidden: bool) -> str:
    """What is typed; it may be nothing."""
    typed: str = click.prompt(name, hide_input=hidden, err=True, default="", show_default=False)
    return typed


# --- the store -----------------------------------------------------------------------------------------------------------


def _store() -> CredentialStore:
    import time

    from noetl.config import settings
    from noetl.secrets import open_store

    return open_store(settings(), time.time)


def _check_name(name: str) -> None:
    if not name.replace("-", "_").replace(".", "_").isidentifier():
        raise UsageError(f"{name!r} is no name for a credential: use letters, digits, `_`, `-` and `.`")


def _check_kind(kind: str) -> None:
    from noetl.model.nearest import nearest
    from noetl.secrets import CREDENTIAL_KINDS

    if kind not in CREDENTIAL_KINDS:
        meant = nearest(kind, CREDENTIAL_KINDS)
        hint = f"did you mean `{meant}`?" if meant else f"there are {', '.join(CREDENTIAL_KINDS)}"
        raise UsageError(f"there is no credential kind `{kind}`; {hint}")


def _print_change(name: str, kept: StoredCredential, what: str, *, as_data: bool) -> None:
    if as_data:
        out(as_json(_as_document(name, kept)))
    else:
        note(f"{name} ({kept.kind}: {', '.join(kept.fields)}) {what}")


def _as_document(name: str, kept: StoredCredential) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kept.kind,
        "fields": list(kept.fields),
        "version": kept.version,
        "created_at": kept.created_at,
        "updated_at": kept.updated_at,
    }
