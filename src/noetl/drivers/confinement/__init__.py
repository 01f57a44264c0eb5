"""Confinement: what the process of a task cannot do, kept by the kernel, for itself and all that it starts."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.drivers.confinement.bounds import (
        SOURCES as SOURCES,
        Bounds as Bounds,
        Confinement as Confinement,
        bounds_of as bounds_of,
        enforcement_failure as enforcement_failure,
    )
    from noetl.drivers.confinement.process import confine as confine
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "bounds": "Bounds Confinement SOURCES bounds_of enforcement_failure",
            "process": "confine",
        },
    )

#: how a process ends that could not be confined as it was to be, and what stands in front of the reason
REFUSED, REASON = 125, "the task could not be confined: "
