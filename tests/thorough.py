"""How many generated examples a test looks at: enough of them when all tests are run, the whole lot when THOROUGH is set."""

from __future__ import annotations

import os


def up_to(whole: int, enough: int) -> int:
    """A number of examples."""
    return whole if os.environ.get("THOROUGH") else enough
