"""Where secrets come from beside the store: the environment, files, Vault, and providers of installed plugins."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from noetl.config import Secret
from noetl.drivers.text import summarize_value
from noetl.model.nearest import nearest
from noetl.ports import NoCredential
from noetl.secrets.store import CredentialStore

if TYPE_CHECKING:
    import aiohttp


# Requests of our own, to services that hand out secrets: nothing of what is sent or answered is told in an error.


_SECONDS = 15.0
_MOST_BYTES = 1 << 20


class SecretHttpClient:
    """A client that is opened when it is first used."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an answer; what is no JSON is an empty map. NoCredential: there was no answer."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
            )
        try:
            # A redirect would carry the secret to whoever it names.
            async with self._session.request(
                method, url, headers=headers, data=form, allow_redirects=False
            ) as response:
                return response.status, _decode_json(await _body(response))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise NoCredential(f"{_place(url)} does not answer ({type(error).__name__})", retryable=True) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer, which may come in parts; of one that is too long to be ours, enough to tell."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > _MOST_BYTES:
            break
    return bytes(body)


def _decode_json(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _place(url: str) -> str:
    """An address without what may be secret in it."""
    return url.partition("?")[0].rpartition("@")[2]


#: the entry point group of plugins: an object with `fetch(secret, options)`, plain or async, that yields a text or a map
GROUP: Final = "noetl.secrets"
_MOST = 1 << 20


class Vault(msgspec.Struct, frozen=True):
    """Where HashiCorp Vault is, and as whom to ask."""

    address: str | None = None
    token: Secret | None = None
    namespace: str | None = None


class SecretSources:
    """All places a secret may come from, as one execution sees them."""

    def __init__(
        self, store: CredentialStore, environment: Mapping[str, str], vault: Vault, folder: Path, web: SecretHttpClient
    ) -> None:
        self.store = store
        self._environment = environment
        self._vault = vault
        self._folder = folder
        self._web = web

    async def fetch(self, provider: str, secret: str, options: Mapping[str, Any] | None = None) -> Any:
        """A secret: a text, or a map of its parts."""
        if provider == "store":
            return self.store.get(secret)[1]
        if provider == "env":
            return self._variable(secret)
        if provider == "file":
            return self._file(secret)
        if provider == "vault":
            return await self._from_vault(secret, options or {})
        return await _from_plugin(provider, secret, options or {})

    def _variable(self, name: str) -> str:
        value = self._environment.get(name)
        if value is None or value == "":
            said = "is not set" if value is None else "is empty"
            raise NoCredential(f"the environment variable {name} {said}")
        return value

    def _file(self, name: str) -> str:
        file = self._folder / name
        try:
            file = self._folder / Path(name).expanduser()
            with file.open("rb") as opened:
                data = opened.read(_MOST + 1)
        except OSError as error:
            raise NoCredential(f"the file {file} cannot be read: {error.strerror}") from None
        except (RuntimeError, ValueError) as error:  # there is no such user, or no file can have such a name
            raise NoCredential(f"the file {str(file)!r} cannot be read: {error}") from None
        try:
            text = data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise NoCredential(f"the file {file} is not text in UTF-8") from None
        if not text or len(data) > _MOST:
            raise NoCredential(f"the file {file} is {'too large for a secret' if text else 'empty'}")
        return text

    async def _from_vault(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """A secret of the key/value engine, version 2."""
        vault = self._vault
        if not vault.address or not vault.token:
            unset = [name for name, value in (("VAULT_ADDR", vault.address), ("VAULT_TOKEN", vault.token)) if not value]
            raise NoCredential(f"Vault is asked for a secret: set {' and '.join(unset)}")
        headers = {"X-Vault-Token": vault.token.reveal(), "X-Vault-Request": "true"}
        if vault.namespace:
            headers["X-Vault-Namespace"] = vault.namespace
        version = f"?version={_version(options['version'])}" if options.get("version") else ""
        status, answer = await self._web.ask(
            "GET", f"{vault.address.rstrip('/')}/v1/{_api_path(path)}{version}", headers=headers
        )
        found = answer.get("data") if isinstance(answer.get("data"), dict) else {}
        data = found.get("data") if found else None
        if status == 200 and isinstance(data, dict):
            return data
        why = {403: "the token may not read it", 404: "it is not there, or was deleted", 503: "Vault is sealed"}
        said = why.get(status, f"the answer was {status}, and not a secret of the key/value engine, version 2")
        raise NoCredential(f"Vault has no secret at `{path}` for us: {said}", retryable=status >= 500)


def _version(given: Any) -> int:
    try:
        return int(given)
    except (TypeError, ValueError):
        raise NoCredential(
            f"`options.version` of a secret in Vault must be a number, not {summarize_value(given)}"
        ) from None


def _api_path(path: str) -> str:
    """`secret/crm/api` as the API spells it; who writes `secret/data/crm/api` has done so already."""
    from urllib.parse import quote

    mount, _, rest = path.strip("/").partition("/")
    if not rest:
        raise NoCredential(f"`{path}` is no path of a secret in Vault: write its mount and its name, `secret/{path}`")
    return quote(f"{mount}/{rest}" if rest.startswith("data/") else f"{mount}/data/{rest}")


async def _from_plugin(provider: str, secret: str, options: Mapping[str, Any]) -> Any:
    found = _plugins().get(provider)
    if found is None:
        known = ["env", "file", "store", "vault", *_plugins()]
        meant = nearest(provider, known)
        hint = f"did you mean `{meant}`?" if meant else f"there are {', '.join(known)}"
        raise NoCredential(f"there is no provider `{provider}`; {hint}")
    try:
        answer = found.load().fetch(secret, dict(options))
        answer = await answer if isawaitable(answer) else answer
    except NoCredential:
        raise
    except Exception as error:  # noqa: BLE001  whatever a plugin raises, its words may hold what nobody may see
        raise NoCredential(f"the provider `{provider}` has no secret `{secret}` ({type(error).__name__})") from None
    if not isinstance(answer, (str, Mapping)) or not answer:
        raise NoCredential(f"the provider `{provider}` answered `{secret}` with neither a text nor a map")
    return answer


@cache
def _plugins() -> dict[str, Any]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry for entry in entry_points(group=GROUP)}
