"""kind: python"""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.tools.python.kind import KIND as KIND, run as run
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "kind": "KIND run",
        },
    )
