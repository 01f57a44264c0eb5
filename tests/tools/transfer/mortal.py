"""A transfer in a process of its own that kills itself with SIGKILL at a given record of its progress.

    mortal.py FOLDER TASK NTH before|after

What was recorded goes to FOLDER/progress.ndjson; what was recorded last is where it goes on from. The output is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tool_world import Workshop

from noetl.ports import Call
from noetl.tools.transfer import move


class Mortal(Workshop):
    """A world that ends."""

    def __init__(self, folder: Path, nth: int, when: str) -> None:
        super().__init__(folder)
        self.left, self.when = nth, when

    @property
    def records(self) -> Path:
        return self.folder / "progress.ndjson"

    async def progress(self, call: Call, said: Mapping[str, Any]) -> None:
        self.left -= 1
        if not self.left and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with self.records.open("a") as file:
            file.write(json.dumps(said) + "\n")
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: str, task: str, nth: str, when: str) -> None:
    move._EVERY_S = 0.0  # every chunk is recorded, so that there are many places to die at
    world = Mortal(Path(folder), int(nth), when)
    recorded = world.records.read_text().splitlines() if world.records.exists() else []
    output = await world.task(json.loads(recorded[-1]) if recorded else None, **json.loads(task))
    await world.close()
    print(json.dumps(output))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
