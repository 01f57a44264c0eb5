"""Other processes that use a log: python code with `log`, `events` and `arguments` at hand."""

import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_FRAME = """
import asyncio, sys
from pathlib import Path
from log_contract import events
from noetl.ports import Conflict, StoreFailed
from noetl.stores.sqlite_log import SqliteLog

async def main(log, arguments):
{body}

log = SqliteLog(Path(sys.argv[1]), durability=sys.argv[2])
asyncio.run(main(log, sys.argv[3:]))
asyncio.run(log.close())
"""


def start(
    body: str, path: Path, *arguments: str, durability: str = "process", **environment: str
) -> subprocess.Popen[str]:
    """Run the body of a coroutine in a process of its own."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    paths = os.pathsep.join([str(_HERE.parents[1] / "src"), str(_HERE.parent / "ports")])
    return subprocess.Popen(
        [sys.executable, "-c", _FRAME.format(body=lines), str(path), durability, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
