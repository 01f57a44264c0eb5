"""Keychains: those of the executions of one process, and what their tools may see of its environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noetl.config import Settings
from noetl.model.net import Net
from noetl.model.output import Failure, failure
from noetl.model.playbook import Playbook
from noetl.model.scope import merge_maps
from noetl.ports import NoCredential, PlaybookSource
from noetl.secrets.credential_kinds import complete_fields, problem_in
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.keychain import ExecutionKeychain, variables
from noetl.secrets.sources import SecretHttpClient, SecretSources, Vault
from noetl.secrets.store import CredentialStore

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
