"""The garbage collector of processes that run executions."""

from __future__ import annotations

import gc

#: after how many new containers it looks around: data makes many, and none of it goes round in circles
_LOOK_AROUND = 10_000


def tune_gc() -> None:
    """Have it leave the program itself alone, and come less often."""
    gc.freeze()
    gc.set_threshold(_LOOK_AROUND)
