"""Credentials of an older document: keychain entries of other shapes, and credentials that stood in a task."""

from __future__ import annotations

import re

from noetl.expr import has_template
from noetl.lang.grammar.spec_shape import CREDENTIAL, CREDENTIAL_KINDS
from noetl.lang.legacy.lowered_document import Lowering, free_name, quote_entries
from noetl.lang.legacy.scanner import KEPT_FOR, OWN_KEYS
from noetl.lang.reading.node import (
    ListNode,
    MapEntry,
    MapNode,
    Node,
    NodeBase,
    Scalar,
    entry,
    make,
    map_of,
    plain_value,
    text_of,
)
from noetl.model.nearest import nearest

_KINDS = {
    "bearer": "bearer", "token": "bearer", "basic": "basic", "api_key": "header", "header": "header",
    "oauth2": "oauth2_client_credentials", "oauth": "oauth2_client_credentials",
    "secrets": "secret_manager", "secret": "secret_manager", "secret_manager": "secret_manager",
    "credential": "generic", "credentials": "generic", "postgres": "postgres_credential", "pg": "postgres_credential",
    "duckdb": "duckdb_credential", "s3": "s3_credential", "gcs": "s3_credential", "hmac": "s3_credential",
}  # fmt: skip
_RENAMED = {"endpoint": "token_url", "url": "token_url", "user": "username"}
#: how long and for whom a runtime kept a credential: this one sees to it by itself
_KEPT = ("auto_renew", "cache", "ttl")
#: headers of a token request that say what every one says
_USUAL_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_OLDER = ("credential", "ref", "data", "map", "method", "headers")
#: the keys that hold a credential's one secret
_SECRETS = ("token", "secret")
_OF_OAUTH = ("client_id", "client_secret", "scope", "audience")


def lower(doc: Lowering) -> None:
    """Bring every keychain entry into `{name, kind, …}`."""
    found = doc.root.entry("keychain")
    if found is None:
        return
    if isinstance(found.value, MapNode):
        doc.report_older("habit", "a map under `keychain`", "a list of `{name, kind}`", found.key)
        made = ListNode([_to_item(doc, one) for one in found.value.entries], found.value.start, found.value.end)
        made.changed = True
        found.value = made
        doc.root.changed = True
    for item in found.value.items if isinstance(found.value, ListNode) else []:
        if isinstance(item, MapNode):
            _entry(doc, item, found)


def _to_item(doc: Lowering, one: MapEntry) -> Node:
    """What stood under its name in a map, as an item of a list."""
    if isinstance(one.value, MapNode):
        # The new key's place must not lie before the map's own.
        one.value.put(entry("name", make(one.name, near=one.key), near=one.value), at=0)
        return one.value
    settings: dict[str, object] = {"name": one.name, "kind": "generic"}
    if isinstance(one.value, Scalar) and one.value.value not in (None, "", one.name):
        settings["from"] = {"store": one.value.text}
    made = make(settings, near=one.key)
    assert isinstance(made, MapNode)
    said = f"say of which kind `{one.name}` is" + (
        f": {quote_entries([one])}" if isinstance(one.value, ListNode) else ""
    )
    doc.todo(made.entry("kind"), said, one.key)
    return made


def _entry(doc: Lowering, item: MapNode, keychain: MapEntry) -> None:
    kind_entry = item.entry("type")
    if kind_entry is not None and "kind" not in item:
        doc.report_older("habit", "`type` of a keychain entry", "`kind`", kind_entry.key)
        item.rename("type", "kind")
    kind = item.get("kind")
    if not isinstance(kind, Scalar) or (kind.text in CREDENTIAL_KINDS and not _has_habits(item)):
        return
    if kind.text not in CREDENTIAL_KINDS:
        new = _KINDS.get(kind.text)
        if new is None and nearest(kind.text, CREDENTIAL_KINDS) is not None:
            return  # a misspelt kind is for the checks to say
        doc.report_older("habit", f"the credential kind `{kind.text}`", f"`{new or 'generic'}`", kind)
        if new is None:
            doc.todo(_place(item, "kind", keychain), f"`{kind.text}`: say how this credential is made", kind)
        kind.rewrite(new or "generic")
    _lower_stored(doc, item, keychain)
    _oauth(doc, item)
    _secret(doc, item)
    _drop_defaults(doc, item, kind.text)
    _of_environment(doc, item)
    _rest(doc, item, keychain)


def _of_environment(doc: Lowering, item: MapNode) -> None:
    """A secret out of the environment: that is where the credential is from."""
    for word in _SECRETS:
        variable = env_of(item.get(word))
        if variable and "from" not in item:
            told = item.take(word)
            assert told is not None
            doc.report_older("habit", f"`env.{variable}` in a keychain entry", f"`from: {{env: {variable}}}`", told.key)
            item.put(entry("from", make({"env": variable}, near=told.key), near=told.key))


def _has_habits(item: MapNode) -> bool:
    if text_of(item, "scope") in KEPT_FOR or any(env_of(item.get(word)) for word in _SECRETS):
        return True
    return any(word in item for word in (*_OLDER, *_key_renames(item), *_KEPT))


def _key_renames(item: MapNode) -> dict[str, str]:
    """Names that are others in this entry."""
    return {old: new for old, new in _RENAMED.items() if OWN_KEYS.get(old) != text_of(item, "kind")}


def _place(item: MapNode, name: str, keychain: MapEntry) -> MapEntry | None:
    """Where a comment about an entry can stand."""
    return item.entry(name) if not item.flow else keychain


def _lower_stored(doc: Lowering, item: MapNode, keychain: MapEntry) -> None:
    """`credential: other`: kept under another name than its own."""
    name = text_of(item, "name")
    for word in ("credential", "ref"):
        found = item.entry(word)
        if found is None or not isinstance(found.value, Scalar) or not found.value.text:
            continue
        doc.report_older("habit", f"`{word}` of a keychain entry", "`from: {store: …}`", found.key)
        item.take(word)
        if found.value.text == name or "from" in item:
            continue
        if has_template(found.value.text):
            said = f"store this credential under the name `{name}`; it was called `{found.value.text}`"
            doc.todo(_place(item, "kind", keychain), said, found.key)
        else:
            item.put(entry("from", make({"store": found.value.text}, near=found.key), near=found.key))


def _oauth(doc: Lowering, item: MapNode) -> None:
    """What was sent to the token's endpoint, as the settings of the credential."""
    data = item.entry("data")
    if data is not None and isinstance(data.value, MapNode):
        if text_of(data.value, "grant_type") not in ("", "client_credentials"):
            return  # another grant: left to a person, under `options`
        moved = [one for one in data.value if one.name in _OF_OAUTH and one.name not in item]
        if moved or "grant_type" in data.value:
            doc.report_older("habit", "`data` of a keychain entry", "its keys beside `kind`", data.key)
        for one in moved:
            data.value.take(one.name)
            item.put(one)
        data.value.take("grant_type")
        item.take("data") if not data.value.entries else None
    for old, new in _key_renames(item).items():
        found = item.entry(old)
        if found is not None and new not in item:
            doc.report_older("habit", f"`{old}` of a keychain entry", f"`{new}`", found.key)
            item.rename(old, new)


def _secret(doc: Lowering, item: MapNode) -> None:
    """`map: {token: path}`: the one secret it holds; of several, each needs an entry."""
    found = item.entry("map")
    if found is None or not isinstance(found.value, MapNode) or len(found.value.entries) != 1 or "secret" in item:
        return
    doc.report_older("habit", "`map` of a keychain entry", "`secret`", found.key)
    item.take("map")
    only = found.value.entries[0]
    item.put(entry("secret", only.value, near=found.value))
    if text_of(item, "kind") == "secret_manager" and only.name != "value":
        doc.secret_fields[text_of(item, "name")] = only.name


def _drop_defaults(doc: Lowering, item: MapNode, kind: str) -> None:
    """Leave out what says nothing here."""
    oauth = kind.startswith("oauth2")
    usual = map_of(item, "headers")
    says_nothing = [*_KEPT] if plain_value(item.get("auto_renew")) is not False else ["cache", "ttl"]
    if text_of(item, "scope") in KEPT_FOR:
        says_nothing.append("scope")
    if oauth and text_of(item, "method").upper() == "POST":
        says_nothing.append("method")
    if oauth and usual is not None and all(_is_usual(one) for one in usual.entries):
        says_nothing.append("headers")
    for word in says_nothing:
        found = item.take(word)
        if found is not None:
            doc.report_older("habit", f"`{word}` of a keychain entry", "nothing", found.key)


def _is_usual(header: MapEntry) -> bool:
    return _USUAL_HEADERS.get(header.name.lower()) == text_of(MapNode([header], 0, 0), header.name)


def _is_misspelt(name: str) -> bool:
    # That is for the checks to say.
    return name not in _OLDER and nearest(name, CREDENTIAL.keys) is not None


def _rest(doc: Lowering, item: MapNode, keychain: MapEntry) -> None:
    """What has no key of its own goes to `options`, for a person to look at."""
    moved = [one for one in item.entries if one.name not in CREDENTIAL.keys and not _is_misspelt(one.name)]
    options = item.get("options")
    if not moved or not (options is None or isinstance(options, MapNode)):
        return
    if options is None:
        options = make({}, near=item)
        assert isinstance(options, MapNode)
    for one in moved:
        item.take(one.name)
        options.put(one)
    item.put(entry("options", options, near=item))
    names = ", ".join(f"`{one.name}`" for one in moved)
    said = f"{names}: say this in the keys of the credential's kind"
    if "map" in options:
        said = "one entry holds one secret: declare one for each in `map`"
    doc.todo(_place(item, "options", keychain), said, item)


# Credentials that stood in a task: a keychain entry of the fitting kind, and its name under `auth`.


_TASK_KINDS = {
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
_TASK_RENAMED = {"user": "username", "value": "token", "header_name": "header", "url": "token_url", "api_key": "token"}
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
    elsewhere = text_of(block, "provider") not in ("", *_TASK_KINDS)
    words = () if inline else _STORED[:1] if elsewhere else _STORED
    stored = next((one for one in block.entries if one.name in words and _is_text(one)), None)
    if stored is not None and (kind is not None or has_template(text_of(block, stored.name))):
        _by_name(doc, task, found, block, stored, kind)
    elif kind is not None:
        _inline(doc, task, found, block, kind, name)
    elif isinstance(source := block.get("source"), Scalar) and not has_template(source.text):
        _inline(doc, task, found, block, "generic", name)
        place = doc.root.entry("keychain")
        doc.todo(
            place, f"say of which kind `{text_of(task, 'auth')}` is, and where it is kept: `{source.text}`", found.key
        )
    else:
        doc.todo(found, "declare this credential under `keychain` and name it here", found.key)


def _is_text(one: MapEntry) -> bool:
    return isinstance(one.value, Scalar) and isinstance(one.value.value, str)


def _kind(task: MapNode, block: MapNode) -> str | None:
    said = text_of(block, "type") or text_of(block, "kind") or text_of(block, "provider")
    told = next((kind for key, kind in _TELLING.items() if key in block), None) if not said else None
    return _TASK_KINDS.get(said) or _OF_A_TASK.get(text_of(task, "kind")) or told


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
    renamed = {**_TASK_RENAMED, **({"key": "header", "name": "header"} if kind == "header" else {})}
    for one in entries:
        key = renamed.get(one.name, one.name)
        if one.name == "env" and _is_text(one) and "from" not in settings:
            settings["from"] = {"env": one.value}
        elif key in _SETTINGS and key not in settings:
            settings[key] = one.value
        elif key not in _SORT or (key == "provider" and text_of(block, key) not in _TASK_KINDS):
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
    return free_name(label, taken)


def keychain_entry(doc: Lowering, name: str, kind: str, settings: dict[str, object], near: NodeBase) -> None:
    """Declare a credential, unless it is declared already."""
    keychain = doc.root.get("keychain")
    if not isinstance(keychain, ListNode):
        made = make([], near=near)
        doc.root.take("keychain")
        doc.root.put(entry("keychain", made, near=near), at=doc.root.position("metadata") + 1)
        assert isinstance(made, ListNode)
        keychain = made
    if not any(isinstance(item, MapNode) and text_of(item, "name") == name for item in keychain.items):
        keychain.items.append(make({"name": name, "kind": kind, **settings}, near=near))
        keychain.changed = True
