"""A home with a store, and keychains made from the text of a playbook's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.config import Secret
from noetl.lang.loader import load
from noetl.model.playbook import Playbook
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.keychain import ExecutionKeychain
from noetl.secrets.sources import SecretHttpClient, SecretSources, Vault
from noetl.secrets.store import CredentialStore
from noetl.tools.registry import ToolKinds


class Desk:
    """A home with a store, an environment, and keychains made from the text of a playbook's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.environment: dict[str, str] = {}
        self.vault = Vault()
        self.web = SecretHttpClient()

    def store(self, key: str | None = None) -> CredentialStore:
        master = MasterKeys(Secret(key) if key else None, self.folder / "home" / "key")
        return CredentialStore(self.folder / "home" / "credentials.json", master, lambda: self.now)

    def playbook(self, entries: str, steps: str = "- {step: start, tool: {kind: noop}}") -> Playbook:
        text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t}}\nkeychain:\n{entries}\nworkflow:\n{steps}\n"
        loaded = load(text, ToolKinds())
        assert loaded.net is not None, loaded.diagnostics
        return loaded.net.playbook

    def keychain(self, entries: str, **workload: Any) -> ExecutionKeychain:
        sources = SecretSources(self.store(), self.environment, self.vault, self.folder, self.web)
        scopes = {"workload": workload, "execution_id": "x"}
        return ExecutionKeychain(self.playbook(entries).keychain, scopes, sources, self.web, lambda: self.now)
