"""Credentials: the encrypted store, the other places they come from, and the keychain of an execution."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.secrets.credential_kinds import (
        CREDENTIAL_KINDS as CREDENTIAL_KINDS,
        complete_fields as complete_fields,
        fields_of as fields_of,
        is_open as is_open,
        problem_in as problem_in,
    )
    from noetl.secrets.keychain import (
        Keychains as Keychains,
        open_store as open_store,
        read_credential as read_credential,
    )
    from noetl.secrets.store import CredentialStore as CredentialStore, StoredCredential as StoredCredential
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "credential_kinds": "CREDENTIAL_KINDS complete_fields fields_of is_open problem_in",
            "keychain": "Keychains open_store read_credential",
            "store": "CredentialStore StoredCredential",
        },
    )
