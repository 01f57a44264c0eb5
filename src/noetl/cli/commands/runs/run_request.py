"""What `noetl run` is asked for; this process runs it, or a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noetl.cli.catalog_folders import CatalogFolders, collect_called

if TYPE_CHECKING:
    from noetl.client import CalledPlaybook
    from noetl.model.net import Net
    from noetl.server.core import StartKey


class RunRequest(NamedTuple):
    """A playbook that is to be run, and what it is given."""

    name: str
    file: Path
    data: bytes
    payload: dict[str, Any]
    legacy: bool
    #: of a playbook that was run before: the path it is asked for by
    path: str | None
    #: requests with one key are for one run
    key: str | None
    #: where called playbooks are found, besides the folder of their caller
    folders: CatalogFolders

    def collect_calls(self, net: Net) -> list[CalledPlaybook]:
        """Return the playbooks that come along, because they are called."""
        found = collect_called(net, self.file, self.folders, legacy=self.legacy)
        self.folders.note_unreadable()
        return found

    def start_key(self) -> StartKey:
        """Return the key with the digest of the request, which is that of the same request to a server."""
        from noetl.server.core import StartKey, digest_request

        is_known = self.path is not None
        request: dict[str, Any] = {
            "playbook": None if is_known else self.data.decode("utf-8-sig", "replace"),
            "file": None if is_known else str(self.file),
            "path": self.path,
            "payload": self.payload,
            "legacy": self.legacy and not is_known,
            "calls": [],
        }
        return StartKey("", self.key or "", digest_request(request))
