"""Credentials that stood in a task: a keychain entry of the fitting kind, and its name under `auth`."""

from __future__ import annotations

import re

from noetl.expr import has_template
from noetl.lang.legacy.declarations.document import keychain_entry
from noetl.lang.legacy.lowering import Lowering, quote_entries
from noetl.lang.reading.node import ListNode, MapEntry, MapNode, Node, Scalar, entry, make, map_of, text_of

_KINDS = {
    "bearer": "bearer", "token": "bearer", "basic": "basic", "api_key": "header", "apikey": "header", "header": "header",
    "oauth2": "oauth2_client_credentials", "oauth2_client_credentials": "oauth2_client_credentials",
    "postgres": "postgres_credential", "pg": "postgres_credential", "duckdb": "duckdb_credential",
    "s3": "s3_credential", "gcs": "s3_credential", "hmac": "s3_credential",
}  # fmt: skip
_OF_A_TASK = {"postgres": "postgres_credential", "duckdb": "duckdb_credential"}
#: what the kind of a credential can be told from
_TELLING = {"token": "bearer", "username": "basic", "user": "basic", "client_id": "oauth2_client_credentials"}
_STORED = ("credential", "key", "name", "source_key")
_SETTINGS = frozenset(
    {
        "token",
        "username",
        "password",
        "header",
        "token_url",
        "client_id",
        "client_secret",
        "scope",
        "audience",
        "prefix",
    }
)
_RENAMED = {"user": "username", "value": "token", "header_name": "header", "url": "token_url", "api_key": "token"}
#: what says which sort of credential this is, and no more
_SORT = frozenset({"type", "kind", "provider", "source", "tool", "service"})
_ENV = re.compile(r"\s*\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}\s*")


def lower_auth(doc: Lowering, task: MapNode, name: str) -> None:
    """Make `auth` of a task, or of a sink, the name of a keychain entry."""
    found = task.entry("auth")
    if found is None or not isinstance(found.value, MapNode):
        credential = task.entry("credential") or task.entry("credentials")
        if found is None and credential is not None and isinstance(credential.value, Scalar):
            doc.report_older("habit", f"`{credential.name}`", "`auth`", credential.key)
            task.rename(credential.name, "auth")
        return
    block = found.value
    if len(block.entries) == 1 and isinstance(block.entries[0].value, MapNode):
        block = block.entries[0].value  # auth: {pg: {type: postgres, key: pg_local}}
    kind = _kind(task, block)
    # Beside a value, `key` is the name of the header that carries it.
    inline = kind == "header" and "value" in block
    elsewhere = text_of(block, "provider") not in ("", *_KINDS)
    words = () if inline else _STORED[:1] if elsewhere else _STORED
    stored = next((one for one in block.entries if one.name in words and _is_text(one)), None)
    if stored is not None and (kind is not None or has_template(text_of(block, stored.name))):
        _by_name(doc, task, found, block, stored, kind)
    elif kind is not None:
        _inline(doc, task, found, block, kind, name)
    else:
        doc.todo(found, "declare this credential under `keychain` and name it here", found.key)


def _is_text(one: MapEntry) -> bool:
    return isinstance(one.value, Scalar) and isinstance(one.value.value, str)


def _kind(task: MapNode, block: MapNode) -> str | None:
    said = text_of(block, "type") or text_of(block, "kind") or text_of(block, "provider")
    told = next((kind for key, kind in _TELLING.items() if key in block), None) if not said else None
    return _KINDS.get(said) or _OF_A_TASK.get(text_of(task, "kind")) or told


def _by_name(doc: Lowering, task: MapNode, found: MapEntry, block: MapNode, stored: MapEntry, kind: str | None) -> None:
    """A credential that is kept elsewhere, under a name."""
    doc.report_older("habit", "`auth` as a map", "`auth: <name of a keychain entry>`", found.key)
    name = text_of(block, stored.name)
    if not has_template(name):
        assert kind is not None
        keychain_entry(doc, name, kind, {}, found.value)
    left = [one for one in block.entries if one is not stored and one.name not in _SORT]
    if left:
        doc.todo(found, f"`{name}` was used with {quote_entries(left)}: store this with the credential", found.key)
    found.value = make(name, near=found.value)
    task.changed = True


def _inline(doc: Lowering, task: MapNode, found: MapEntry, block: MapNode, kind: str, name: str) -> None:
    """Values that stood in the task itself."""
    doc.report_older("habit", "`auth` as a map", "`auth: <name of a keychain entry>`", found.key)
    inner = map_of(block, "inline")
    entries = [one for one in block.entries if one.name != "inline"] + (inner.entries if inner is not None else [])
    settings: dict[str, object] = {}
    options: list[MapEntry] = []
    renamed = {**_RENAMED, **({"key": "header", "name": "header"} if kind == "header" else {})}
    for one in entries:
        key = renamed.get(one.name, one.name)
        if one.name == "env" and _is_text(one) and "from" not in settings:
            settings["from"] = {"env": one.value}
        elif key in _SETTINGS and key not in settings:
            settings[key] = one.value
        elif key not in _SORT or (key == "provider" and text_of(block, key) not in _KINDS):
            options.append(one)
    if isinstance(token := settings.get("token"), Scalar) and (variable := env_of(token)) and "from" not in settings:
        del settings["token"]
        settings["from"] = {"env": variable}
    if options:
        settings["options"] = {one.name: one.value for one in options}
        names = ", ".join(f"`{one.name}`" for one in options)
        doc.todo(found, f"{names}: say this in the keys of the credential's kind", found.key)
    made = _free(doc, f"{name}_auth")
    keychain_entry(doc, made, kind, settings, found.value)
    renewed = task.put(entry("auth", make(made, near=found.value), near=found.key))
    renewed.todo = found.todo


def env_of(node: Node | None) -> str:
    """The variable of the environment that a value is read from."""
    matched = _ENV.fullmatch(node.text) if isinstance(node, Scalar) and isinstance(node.value, str) else None
    return matched[1] if matched else ""


def _free(doc: Lowering, label: str) -> str:
    """A name that no keychain entry has."""
    keychain = doc.root.get("keychain")
    items = keychain.items if isinstance(keychain, ListNode) else []
    taken = {text_of(item, "name") for item in items if isinstance(item, MapNode)}
    made, number = label, 2
    while made in taken:
        made, number = f"{label}_{number}", number + 1
    return made
