"""Requests of our own, to services that hand out secrets: nothing of what is sent or answered is told in an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.ports import NoCredential

if TYPE_CHECKING:
    import aiohttp

_SECONDS = 15.0
_MOST = 1 << 20


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
        if len(body) > _MOST:
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
