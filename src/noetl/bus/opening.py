"""The bus that an installation names."""

from __future__ import annotations

from noetl.cluster_ports import Bus
from noetl.config import Settings


def open_bus(settings: Settings) -> Bus:
    """The bus of the settings, not yet open. UsageError: an address in them is none."""
    if settings.bus is None:
        from noetl.bus.local import LocalBus

        return LocalBus()
    from noetl.bus.nats import NatsBus
    from noetl.tools.jetstream import address_of

    return NatsBus(address_of(settings.bus.reveal(), "NOETL_BUS"))
