"""One module per tool kind; none knows another. `processes` and `plain` are what several of them need."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.tools.python.task_result import json_pieces as json_pieces
    from noetl.tools.registry import ToolKinds as ToolKinds
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "python.task_result": "json_pieces",
            "registry": "ToolKinds",
        },
    )
