"""How workers are woken. A bus is only a hint: the log says what there is to do."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.bus.location import open_bus as open_bus
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "location": "open_bus",
        },
    )
