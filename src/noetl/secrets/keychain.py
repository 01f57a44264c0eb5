"""Keychains: the `keychain` entries of a playbook, resolved for one execution and held in memory only.

`Keychains` has those of all executions of a process, and decides which variables of its environment tools see.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec

from noetl.config import Settings
from noetl.errors import TemplateError
from noetl.model.net import Net
from noetl.model.output import Failure, failure
from noetl.model.playbook import Credential, Playbook
from noetl.model.scope import merge_maps
from noetl.ports import NoCredential, PlaybookSource
from noetl.redaction import SHORTEST_SECRET, Redactor
from noetl.secrets.credential_kinds import complete_fields, fields_of, find_missing, form_of, problem_in, secrets_in
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.sources import SecretHttpClient, SecretSources, Vault
from noetl.secrets.store import CredentialStore

# Tokens of OAuth2 client credentials: asked for once, shared by all who wait, renewed before they run out.


#: a token that says nothing of its end is taken to hold so long, in seconds
_USUAL = 300.0
#: a token is renewed so long before its end, or at nine tenths of its life where that is later
_EARLY = 30.0


class AccessToken(msgspec.Struct, frozen=True):
    """A token, and until when it is used."""

    fields: dict[str, Any]
    renew_at: float


class TokenCache:
    """The tokens of one credential."""

    def __init__(
        self, name: str, credential: Mapping[str, Any], web: SecretHttpClient, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._credential = credential
        self._web = web
        self._clock = clock
        self._token: AccessToken | None = None
        self._turn = asyncio.Lock()

    @property
    def is_fresh(self) -> bool:
        """Whether there is a token that need not be renewed yet."""
        return self._token is not None and self._clock() < self._token.renew_at

    async def get(self, *, instead_of: str | None = None) -> dict[str, Any]:
        """A token that holds; `instead_of` one that was refused, if nobody has renewed that meanwhile."""
        async with self._turn:
            token = self._token
            if token is None or not self.is_fresh or token.fields["token"] == instead_of:
                token = self._token = await self._ask()
            return token.fields

    async def _ask(self) -> AccessToken:
        given, asked_at = self._credential, self._clock()
        form = {"grant_type": "client_credentials"}
        scope = given.get("scope")
        if scope:
            form["scope"] = " ".join(map(str, scope)) if isinstance(scope, list) else str(scope)
        if given.get("audience"):
            form["audience"] = str(given["audience"])
        way = (given.get("options") or {}).get("client_auth")
        status, answer = await self._post(form, way or "body")
        if status in (400, 401) and way is None and answer.get("error") in ("invalid_client", "invalid_request", None):
            status, answer = await self._post(form, "basic")
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            error = answer.get("error")
            why = f"{status} {error}" if isinstance(error, str) else str(status)
            raise NoCredential(f"no token for `{self._name}` from its `token_url`: {why}", retryable=status >= 500)
        life = _seconds(answer.get("expires_in"))
        renew_at = asked_at + max(life - _EARLY, life * 0.9)
        kind = answer.get("token_type")
        return AccessToken({"token": token, "token_type": kind, "expires_at": asked_at + life}, renew_at)

    async def _post(self, form: dict[str, str], way: str) -> tuple[int, dict[str, Any]]:
        """Ask, with the client's secret in the body or in a header: services differ in what they take."""
        client, secret = str(self._credential["client_id"]), str(self._credential["client_secret"])
        headers = {"Accept": "application/json"}
        if way == "basic":
            pair = f"{quote_plus(client)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": client, "client_secret": secret}
        return await self._web.ask("POST", str(self._credential["token_url"]), headers=headers, form=form)


def _seconds(value: Any) -> float:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return _USUAL


_OAUTH: Final = "oauth2_client_credentials"
#: settings that say where a value comes from, and not what it is
_WHENCE: Final = frozenset({"from", "provider", "secret", "key"})
#: so many tokens of one credential are known at a time
_RECENT: Final = 8


class ExecutionKeychain:
    """What a playbook declares, what tasks fetch beside it, and the redactor that knows it all."""

    def __init__(
        self,
        entries: Collection[Credential],
        scopes: Mapping[str, Any],
        sources: SecretSources,
        web: SecretHttpClient,
        clock: Callable[[], float],
    ) -> None:
        self.redactor = Redactor()
        self.scope: dict[str, Any] = {}
        self._entries = {entry.name: entry for entry in entries}
        self.declared = bool(entries)
        self._scopes = {**scopes, "keychain": self.scope}
        self._sources = sources
        self._web = web
        self._clock = clock
        self._tokens: dict[str, TokenCache] = {}
        #: the last tokens of each, the oldest first
        self._recent: dict[str, list[str]] = {}
        self._kinds: dict[str, str] = {}
        self._resolved = False
        self._turn = asyncio.Lock()
        #: who hears of new secrets, and of the end
        self.on_found: Callable[[Collection[str]], None] = _ignore
        self.on_close: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Forget it all."""
        self.scope.clear()
        self._tokens.clear()
        self.on_close()

    def _add_secrets(self, secrets: Iterable[str]) -> None:
        """These are secrets from now on: before anybody else has them."""
        for secret in secrets:
            self.redactor.add(secret)
            if len(secret) >= SHORTEST_SECRET:
                self.on_found([secret])

    # --- what is declared ----------------------------------------------------------------------------------------------

    async def check(self) -> str | None:
        """What is wrong with the declared entries, all of them at once; None: nothing."""
        problems = []
        async with self._turn:
            for name in self._entries:
                try:
                    await self._resolve(name, ())
                except NoCredential as error:
                    said = str(error).removeprefix(f"credential `{name}`: ")
                    problems.append(f"`{name}`: {said}")
        self._resolved = not problems
        if not problems:
            return None
        what = "a credential" if len(problems) == 1 else f"{len(problems)} credentials"
        return f"{what} cannot be used: {'; '.join(problems)}"

    async def ready(self, reading: Collection[str] = ()) -> None:
        """Resolve everything once, and renew the tokens that templates are about to read."""
        if not self._resolved:
            async with self._turn:
                for name in self._entries:
                    await self._resolve(name, ())
            self._resolved = True
        for name in reading:
            tokens = self._tokens.get(name)
            if tokens is not None and not (tokens.is_fresh and "token" in self.scope[name]):
                await self._with_token(name)

    async def credential(self, name: str) -> dict[str, Any]:
        """A credential for use now; one that is not declared is looked for in the store."""
        if name not in self.scope:
            async with self._turn:
                await (self._resolve(name, ()) if name in self._entries else self._from_store(name))
        if name in self._tokens:
            await self._with_token(name)
        return {**self.scope[name], "kind": self._kinds[name]}

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> dict[str, Any] | None:
        """The credential with another token than the one that was refused."""
        if name not in self._tokens:
            return None
        await self._with_token(name, instead_of=used.get("token"))
        return {**self.scope[name], "kind": self._kinds[name]}

    async def secret(self, provider: str, secret: str, key: str | None) -> Any:
        """A secret that no entry declares."""
        found = _pick_part(await self._sources.fetch(provider or "store", secret), key, secret)
        # A text may hold a map, whose parts somebody may take out of it.
        self._add_secrets(secrets_in("generic", {"value": found} if isinstance(found, str) else {}))
        self._add_secrets(secrets_in("generic", fields_of("generic", found)))
        return found

    # --- one entry -----------------------------------------------------------------------------------------------------

    async def _resolve(self, name: str, trail: tuple[str, ...]) -> None:
        if name in self.scope:
            return
        if name in trail:
            raise NoCredential(f"it reads itself: {' → '.join((*trail, name))}")
        entry = self._entries[name]
        for other in _reads(entry):
            if other in self._entries:
                await self._resolve(other, (*trail, name))
        try:
            given = {key: value.evaluate(self._scopes) for key, value in entry.settings.items() if key != "from"}
        except TemplateError as error:
            raise NoCredential(f"a template of it fails: {error.message}") from None
        given = {key: value for key, value in given.items() if value is not None}
        fields = {key: value for key, value in given.items() if key not in _WHENCE}
        if _names_a_source(entry, given) or find_missing(entry.kind, fields):
            fields = {**await self._fetch(entry, given), **fields}
        self._keep(name, entry.kind, fields)

    async def _fetch(self, entry: Credential, given: Mapping[str, Any]) -> dict[str, Any]:
        provider, secret = _source(entry, given)
        if provider == "store":
            kind, stored = self._sources.store.get(secret)
            if "generic" not in (kind, entry.kind) and entry.kind not in ("secret_manager", kind):
                raise NoCredential(f"the store has a `{kind}` of the name `{secret}`, not a `{entry.kind}`")
            found: Any = stored
        else:
            found = await self._sources.fetch(provider, secret, given.get("options"))
        found = _pick_part(found, given.get("key"), secret)
        fields = fields_of(entry.kind, found)
        self._add_secrets(secrets_in(entry.kind, fields))
        if isinstance(found, str) and found in fields.values() and find_missing(entry.kind, {**fields, **given}):
            raise NoCredential(f"`{secret}` is no JSON map, as a `{entry.kind}` is: {form_of(entry.kind)}")
        return fields

    async def _from_store(self, name: str) -> None:
        try:
            kind, fields = self._sources.store.get(name)
        except NoCredential as error:
            raise NoCredential(f"the keychain does not declare `{name}`, and {error}") from None
        self._keep(name, kind, fields)

    def _keep(self, name: str, kind: str, fields: Mapping[str, Any]) -> None:
        fields = complete_fields(kind, fields)
        self._add_secrets(secrets_in(kind, fields))
        problem = problem_in(kind, fields)
        if problem is not None:
            raise NoCredential(problem)
        self._kinds[name] = kind
        self.scope[name] = fields
        if kind == _OAUTH:
            self._tokens[name] = TokenCache(name, fields, self._web, self._clock)

    async def _with_token(self, name: str, *, instead_of: str | None = None) -> None:
        token = await self._tokens[name].get(instead_of=instead_of)
        self._add_token(name, str(token["token"]))
        self.scope[name] = {**self.scope[name], **token}

    def _add_token(self, name: str, token: str) -> None:
        """A token is a secret as long as somebody may still have it; of those before, most have run out."""
        recent = self._recent.setdefault(name, [])
        if token not in recent:
            self._add_secrets([token])
            recent.append(token)
            if len(recent) > _RECENT:
                self.redactor.forget(recent.pop(0))


def _ignore(_secrets: Collection[str]) -> None:
    """There is nobody to tell."""


def variables(playbook: Playbook) -> set[str]:
    """The environment variables that hold credentials, as far as the playbook itself says which."""
    found = set()
    for entry in playbook.keychain:
        given = {key: value.tree for key, value in entry.settings.items() if key != "from" and value.constant}
        if _names_a_source(entry, given):
            with suppress(NoCredential):
                found.add(_source(entry, given))
    tasks = [*(task for step in playbook.steps for task in step.all_tasks), *chain(*playbook.workbook.values())]
    for task in tasks:
        if task.kind == "secrets":
            provider, secret = (task.config.get(key) for key in ("provider", "secret"))
            found.add((str(getattr(provider, "tree", provider)), str(getattr(secret, "tree", secret))))
    return {secret for provider, secret in found if provider == "env"}


def _names_a_source(entry: Credential, given: Mapping[str, Any]) -> bool:
    return bool(entry.settings.get("from")) or bool(given.get("secret")) or bool(given.get("provider"))


def _source(entry: Credential, given: Mapping[str, Any]) -> tuple[str, str]:
    """Provider and name of the secret: by `from`, by a secret manager's own words, else the store and the entry's name."""
    named = {key: str(value) for key, value in (entry.settings.get("from") or {}).items() if value is not None}
    if len(named) > 1:
        raise NoCredential(f"`from` names several sources: {', '.join(named)}; one of them is enough")
    if named:
        return next(iter(named.items()))
    return str(given.get("provider") or "store"), str(given.get("secret") or entry.name)


def _pick_part(found: Any, key: Any, secret: str) -> Any:
    """One part of a secret that has several."""
    if key is None:
        return found
    parts = fields_of("generic", found)
    if str(key) not in parts:
        names = ", ".join(sorted(parts)) if isinstance(found, Mapping) or len(parts) > 1 else "one value only"
        raise NoCredential(f"`{secret}` has no `{key}`; it has {names}")
    return parts[str(key)]


def _reads(entry: Credential) -> list[str]:
    """The other entries that its templates read."""
    reads = [read for key, value in entry.settings.items() if key != "from" for read in value.facts.reads]
    return [read.path[1] for read in reads if read.path[0] == "keychain" and len(read.path) > 1]


# The keychains of the executions of one process, and what their tools see of its environment.


#: a shorter secret within a longer value may be there by chance
_TELLING = 12
#: how variables with credentials are named
_CREDENTIAL = re.compile(
    r"(secret|token|password|passwd|passphrase|_pwd|(secret|api|access|private|signing|encryption|master)_?key)$",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"://[^\s/:@]*:[^\s/@]+@")


def open_store(settings: Settings, clock: Callable[[], float]) -> CredentialStore:
    """The credential store of a home."""
    master = MasterKeys(settings.key, settings.key_file or settings.home / "key")
    return CredentialStore(settings.home / "credentials.json", master, clock)


def read_credential(store: CredentialStore, name: str) -> dict[str, Any] | None:
    """A credential of the store for use by this process itself; None: there is none. NoCredential: it cannot be read."""
    if name not in store.all():
        return None
    kind, stored = store.get(name)
    fields = complete_fields(kind, stored)
    problem = problem_in(kind, fields)
    if problem is not None:
        raise NoCredential(f"the credential `{name}` of the store cannot be used: {problem}")
    return {**fields, "kind": kind}


def _disable_core_dumps() -> None:
    """What is in memory now must not be written by a crash, neither ours nor that of a tool."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _holds_credential(name: str, value: str) -> bool:
    """Whether a variable holds a credential: by its name, or as an address with a password in it."""
    return _CREDENTIAL.search(name) is not None or _LOGIN.search(value) is not None


def folder_of(source: PlaybookSource) -> Path:
    """Where relative paths of a playbook start."""
    return Path(source.file).absolute().parent


class Keychains:
    """One for each execution, made when it starts or is gone on with."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._store = open_store(settings, clock)
        self._web = SecretHttpClient()
        self._made: dict[str, ExecutionKeychain] = {}
        #: what tools may see: nothing that looks like a credential, nor a variable that some playbook here takes one from
        self.environment = {
            name: value for name, value in settings.environment.items() if not _holds_credential(name, value)
        }

    async def check(
        self, execution_id: str, net: Net, source: PlaybookSource, payload: Mapping[str, Any]
    ) -> Failure | None:
        """Why an execution cannot start: what its playbook declares is not there."""
        playbook = net.playbook
        self._hide(playbook)
        if not playbook.keychain:
            return None
        keychain = self.of(execution_id, playbook, merge_maps(playbook.workload, payload), folder_of(source))
        problem = await keychain.check()
        if problem is None:
            return None
        self.forget(execution_id)
        return failure("credential", keychain.redactor.text(problem))

    def of(self, execution_id: str, playbook: Playbook, workload: Mapping[str, Any], folder: Path) -> ExecutionKeychain:
        """The keychain of an execution."""
        made = self._made.get(execution_id)
        if made is None:
            self._hide(playbook)
            vault = Vault(self._settings.vault_address, self._settings.vault_token, self._settings.vault_namespace)
            sources = SecretSources(self._store, self._settings.environment, vault, folder, self._web)
            scopes = {"workload": workload, "execution_id": execution_id, "now": self._now, "uuid": self._new_id}
            made = ExecutionKeychain(playbook.keychain, scopes, sources, self._web, self._clock)
            made.on_found = self._hide_values
            made.on_close = lambda: self.forget(execution_id)
            self._made[execution_id] = made
        return made

    def forget(self, execution_id: str) -> None:
        """An execution is over."""
        self._made.pop(execution_id, None)

    def _hide(self, playbook: Playbook) -> None:
        """Take the variables that a playbook names out of what tools see, also of playbooks that do not name them."""
        for name in variables(playbook):
            self.environment.pop(name, None)

    def _hide_values(self, secrets: Collection[str]) -> None:
        """The same with variables that hold a secret under another name, alone or in an address."""
        _disable_core_dumps()
        for name, value in list(self.environment.items()):
            if any(secret == value or (len(secret) >= _TELLING and secret in value) for secret in secrets):
                del self.environment[name]

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat()

    async def close(self) -> None:
        """Forget everything."""
        self._made.clear()
        await self._web.close()
