"""Zones of the network: what an answer names may lie outside of where the answer came from, or beside it, never further in.

The names of hosts are looked up here, once for those who check them and those who connect: nobody can answer the first
question with one address and the second with another.
"""

from __future__ import annotations

import asyncio
import socket
import time
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

_REMEMBERED_S = 60.0
_MOST_NAMES = 1_000
#: IPv4 behind a gateway
_TRANSLATED = IPv6Network("64:ff9b::/96")


class Zone(IntEnum):
    """From the outside to the inside."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    LINK = 3

    @property
    def label(self) -> str:
        """In words."""
        return ("public", "a private network", "this machine itself", "an address of the local link")[self]


def zone_of(address: str) -> Zone:
    """The zone of an IP address."""
    ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip.sixtofour is not None:
            ip = ip.sixtofour
        elif ip in _TRANSLATED:
            ip = IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip.is_link_local:
        return Zone.LINK
    if ip.is_loopback or ip.is_unspecified:
        return Zone.LOOPBACK
    return Zone.PUBLIC if ip.is_global else Zone.PRIVATE


class Resolver(AbstractResolver):
    """Names to addresses, remembered for a minute."""

    def __init__(self) -> None:
        self._ask: AbstractResolver | None = None
        self._known: dict[tuple[str, int], tuple[float, asyncio.Future[list[ResolveResult]]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. OSError: there are none."""
        key, now = (host, int(family)), time.monotonic()
        until, asked = self._known.get(key, (0.0, None))
        if asked is None or now >= until:
            if self._ask is None:
                self._ask = aiohttp.DefaultResolver()
            while len(self._known) >= _MOST_NAMES:
                del self._known[next(iter(self._known))]
            asked = asyncio.ensure_future(self._ask.resolve(host, 0, family))
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever asked may be gone
            self._known[key] = now + _REMEMBERED_S, asked
        try:
            return [{**one, "port": port} for one in await asyncio.shield(asked)]
        except OSError:
            self._known.pop(key, None)
            raise

    async def zone(self, host: str) -> Zone:
        """The innermost zone that a host has an address in. OSError: its name is not known."""
        try:
            return zone_of(host)
        except ValueError:
            found = await self.resolve(host, 0, socket.AF_UNSPEC)
            return max((zone_of(one["host"]) for one in found), default=Zone.PUBLIC)

    async def close(self) -> None:
        """Let go."""
        if self._ask is not None:
            await self._ask.close()
