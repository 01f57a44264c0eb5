"""Keychain entries of other shapes: `type`, `credential`, `map`, `auto_renew`, OAuth endpoints."""

from __future__ import annotations

from noetl.lang.grammar_keychain import CREDENTIAL_KINDS
from noetl.lang.legacy.lowering import Lowering
from noetl.lang.node import Entry, ListNode, MapNode, Scalar, entry, make, map_of, text_of

_KINDS = {
    "bearer": "bearer", "token": "bearer", "basic": "basic", "api_key": "header", "header": "header",
    "oauth2": "oauth2_client_credentials", "oauth": "oauth2_client_credentials",
    "secrets": "secret_manager", "secret": "secret_manager", "secret_manager": "secret_manager",
    "credential": "generic", "credentials": "generic", "postgres": "postgres_credential", "pg": "postgres_credential",
    "duckdb": "duckdb_credential", "s3": "s3_credential", "gcs": "s3_credential", "hmac": "s3_credential",
}  # fmt: skip
#: the runtime sees to these by itself
_DROPPED = ("scope", "auto_renew", "method", "headers", "cache", "ttl")
_RENAMED = {"endpoint": "token_url", "url": "token_url", "user": "username"}


def lower(doc: Lowering) -> None:
    """Bring every keychain entry into `{name, kind, …}`."""
    found = doc.root.entry("keychain")
    if found is None:
        return
    if isinstance(found.value, MapNode):
        doc.found("habit", "a map under `keychain`", "a list of `{name, kind}`", found.key)
        items = []
        for one in found.value.entries:
            if isinstance(one.value, MapNode):
                # The new key's place must not lie before the map's own.
                one.value.put(entry("name", make(one.name, near=one.key), near=one.value), at=0)
                items.append(one.value)
        made = ListNode(list(items), found.value.start, found.value.end)
        made.changed = True
        found.value = made
        doc.root.changed = True
    for item in found.value.items if isinstance(found.value, ListNode) else []:
        if isinstance(item, MapNode):
            _entry(doc, item, found)


def _entry(doc: Lowering, item: MapNode, keychain: Entry) -> None:
    if "type" in item and "kind" not in item:
        doc.found("habit", "`type` of a keychain entry", "`kind`", item)
        item.rename("type", "kind")
    kind = item.get("kind")
    if not isinstance(kind, Scalar) or (kind.text in CREDENTIAL_KINDS and not _has_habits(item)):
        return
    name = text_of(item, "name")
    if kind.text not in CREDENTIAL_KINDS:
        new = _KINDS.get(kind.text)
        doc.found("habit", f"the credential kind `{kind.text}`", f"`{new or 'generic'}`", kind)
        if new is None:
            doc.todo(
                item.entry("kind") if not item.flow else keychain,
                f"`{kind.text}`: say how this credential is made",
                kind,
            )
        kind.rewrite(new or "generic")
    stored = text_of(item, "credential") or text_of(item, "ref")
    if stored and stored != name:
        doc.todo(item.entry("kind"), f"store this credential under the name `{name}`; it was called `{stored}`", item)
    _oauth(item)
    secret = map_of(item, "map")
    if secret is not None and secret.entries and "secret" not in item:
        item.put(entry("secret", secret.entries[0].value, near=secret))
        if len(secret.entries) > 1:
            doc.todo(item.entry("kind"), "one entry holds one secret: declare one for each", item)
    for word in (
        "credential",
        "ref",
        "map",
        *(w for w in _DROPPED if not (w == "scope" and kind.text.startswith("oauth2"))),
    ):
        item.take(word) if word in item else None
    _rest(doc, item, keychain)


def _has_habits(item: MapNode) -> bool:
    return any(word in item for word in ("auto_renew", "map", "credential", "ref", "endpoint", "data"))


def _oauth(item: MapNode) -> None:
    data = item.entry("data")
    if data is not None and isinstance(data.value, MapNode):
        grant = text_of(data.value, "grant_type")
        if grant not in ("", "client_credentials"):
            return  # another grant: left to a person, under `options`
    item.take("data")
    if data is not None and isinstance(data.value, MapNode):
        for one in data.value.entries:
            if one.name in ("client_id", "client_secret", "scope", "audience") and one.name not in item:
                item.put(one)
    for old, new in _RENAMED.items():
        if old in item and new not in item:
            item.rename(old, new)


def _rest(doc: Lowering, item: MapNode, keychain: Entry) -> None:
    """What has no key of its own goes to `options`, for a person to look at."""
    known = ("name", "kind", "from", "provider", "secret", "key", "header", "prefix", "token_url", "client_id",
             "client_secret", "scope", "audience", "token", "username", "password", "options")  # fmt: skip
    moved = [one for one in item.entries if one.name not in known]
    if not moved:
        return
    for one in moved:
        item.take(one.name)
    options = make({}, near=item)
    assert isinstance(options, MapNode)
    for one in moved:
        options.put(one)
    item.put(entry("options", options, near=item))
    names = ", ".join(f"`{one.name}`" for one in moved)
    doc.todo(
        item.entry("options") if not item.flow else keychain,
        f"{names}: say this in the keys of the credential's kind",
        item,
    )
