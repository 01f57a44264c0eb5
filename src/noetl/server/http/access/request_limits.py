"""RequestLimits: how many calls a token, or an address, may make; and how fast tokens may be guessed.

Buckets of what is allowed, refilled with time. Calls that are refused are counted apart from others: they use up nothing of
what callers with a token have, also of those at the same address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final

from noetl.lru import LruCache

#: seconds of its rate that a bucket holds
_BURST_S: Final = 10.0
#: unknown tokens of an address that are looked up at once, and then per second
_GUESSES, _GUESSES_PER_S = 20.0, 0.5
#: calls of an address per second that are refused or need no token
_ANONYMOUS_PER_S = 500.0
#: tokens and addresses that are remembered, of each kind
_MOST: Final = 10_000


class TokenBucket:
    """What is allowed at once, and what is added each second."""

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, most: float, rate: float, now: float) -> None:
        self._most, self._rate = most, rate
        self._left, self._at = most, now

    def take(self, now: float) -> float:
        """Take one, if there is one; return the seconds until there is: none, it was taken."""
        wait = self.wait(now)
        if not wait:
            self._left -= 1
        return wait

    def wait(self, now: float) -> float:
        """Return the seconds until there is one."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        return 0.0 if self._left >= 1 else (1 - self._left) / self._rate


class RequestLimits:
    """The limits of one server. A rate of zero is no limit."""

    def __init__(self, per_token: float, per_address: float, clock: Callable[[], float]) -> None:
        self._per_token, self._per_address, self._clock = per_token, per_address, clock
        self._buckets: dict[str, LruCache[str, TokenBucket]] = {
            kind: LruCache(_MOST) for kind in ("token", "address", "anonymous", "guess")
        }

    def wait_for_call(self, token: str, address: str) -> float:
        """Return the seconds that a caller with a token has to wait; none: this call is counted."""
        now, buckets = self._clock(), []
        if self._per_token > 0:
            buckets.append(self._bucket("token", token, self._per_token))
        if self._per_address > 0:
            buckets.append(self._bucket("address", network_of(address), self._per_address))
        wait = max((one.wait(now) for one in buckets), default=0.0)
        for one in buckets if not wait else ():
            one.take(now)
        return wait

    def wait_for_anonymous(self, address: str) -> float:
        """Return the same of a call that needs no token, or is refused."""
        return self._bucket("anonymous", network_of(address), _ANONYMOUS_PER_S).take(self._clock())

    def wait_for_guess(self, address: str) -> float:
        """Return the seconds until a token from an address is looked up that was not seen to be valid before."""
        return self._bucket("guess", network_of(address), _GUESSES_PER_S, _GUESSES).wait(self._clock())

    def count_guess(self, address: str) -> None:
        """Count a token that is none."""
        self._bucket("guess", network_of(address), _GUESSES_PER_S, _GUESSES).take(self._clock())

    def _bucket(self, kind: str, key: str, rate: float, most: float | None = None) -> TokenBucket:
        buckets = self._buckets[kind]
        bucket = buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(rate * _BURST_S if most is None else most, rate, self._clock())
            buckets.put(key, bucket)
        return bucket


def network_of(address: str) -> str:
    """Return what one caller has: an address, or of version 6 the 64 bits of its network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None and not found.is_loopback:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address
