"""A real world for tools: a folder, an environment, resources that are kept and closed, a log that can be read."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import IO, Any, TypeVar

from aiohttp import web
from msgspec.structs import replace

from noetl.errors import TemplateError
from noetl.expr.values import failure_of
from noetl.lang.loader import load
from noetl.model.output import JSON, Output, Spilled, failed
from noetl.pipeline import machine
from noetl.pipeline.frame import Frame, Moment
from noetl.pipeline.machine import RunTask
from noetl.ports import Call
from noetl.tools.registry import ToolKinds
from noetl.worker.outgoing import give_name, open_unnamed_file
from noetl.worker.tool_caller import call_of

T = TypeVar("T")


class Workshop:
    """The world of one execution, and a way to have tasks run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.hidden: list[Path] = []
        self.restrict: dict[str, Any] = {}
        self.written: list[tuple[str, str, str]] = []
        #: the credentials that have another token when the one they had is refused
        self.renewable: set[str] = set()
        #: what tasks said of their progress, in order
        self.said: list[dict[str, Any]] = []
        self._kept: dict[str, tuple[asyncio.Task[Any], Callable[[Any], Awaitable[None]]]] = {}

    async def resource(self, name: str, make: Callable[[], Awaitable[T]], close: Callable[[T], Awaitable[None]]) -> T:
        if name not in self._kept:
            self._kept[name] = asyncio.ensure_future(make()), close  # type: ignore[assignment,arg-type]
        made: T = await self._kept[name][0]
        return made

    def log(self, call: Call, stream: str, text: str) -> None:
        self.written.append((call.task, stream, text))

    def is_secret(self, text: str) -> bool:
        return "hush" in text

    async def renew_credential(self, name: str, used: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A credential is renewed by counting its token up."""
        if name not in self.renewable:
            return None
        return {**used, "token": f"{name}-{int(used['token'].rpartition('-')[2]) + 1}"}

    def seal(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        return dict(reference)

    def draft(self, suffix: str) -> Path:
        drafts = self.folder / ".drafts"
        drafts.mkdir(exist_ok=True)
        return drafts / f"{uuid.uuid4().hex}{suffix}"

    def open_unnamed(self) -> IO[bytes]:
        return open_unnamed_file(self.draft("").parent)

    async def adopt_spill(
        self,
        file: IO[bytes],
        content_type: str = JSON,
        *,
        rows: int | None = None,
        columns: dict[str, str] | None = None,
        compact: bool = False,
    ) -> Spilled:
        path = self.draft(".json")
        with file:
            file.flush()
            give_name(file, path)
        return Spilled(str(path), content_type, rows, columns, compact=compact)

    async def progress(self, call: Call, said: Mapping[str, Any]) -> None:
        self.said.append(json.loads(json.dumps(said)))

    async def close(self) -> None:
        kept, self._kept = self._kept, {}
        for making, close in reversed(kept.values()):
            await close(await making)

    def logged(self, stream: str, task: str = "task") -> str:
        return "".join(text for who, where, text in self.written if (who, where) == (task, stream))

    async def run(
        self, kind: str, *, task: str = "task", spec: Mapping[str, Any] | None = None, **given: Any
    ) -> Output:
        """Run a task; of what is given, `input`, `scopes`, `key` and `spill` are its own, the rest is configuration."""
        values, scopes, key = given.pop("input", {}), given.pop("scopes", {}), given.pop("key", "e/1")
        spill = given.pop("spill", None)
        call = Call(kind, "e", "step", task, given, values, values, spec or {}, key, 1, scopes, spill=spill)
        made = ToolKinds().module(kind).run(call, self)
        output: Output = await made if isawaitable(made) else made
        return output

    def call(self, progress: Mapping[str, Any] | None = None, *, key: str = "", **task: Any) -> Call:
        """The call of a task as it stands in a playbook; `workload` is what its templates may read.

        `credential` is what its `auth` names, `auths` what those of its ends do; data of more than `spill` bytes goes to a file.
        """
        auths = task.pop("auths", {})
        workload, auth, spill = task.pop("workload", {}), task.pop("credential", None), task.pop("spill", None)
        playbook = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "p"}}
        loaded = load(json.dumps({**playbook, "workflow": [{"step": "s", "tool": task}]}), ToolKinds())
        assert loaded.net is not None, loaded.diagnostics
        scopes = {"workload": workload, "ctx": {}, "step": {}, "input": {}, "execution_id": key or "e"}
        frame = Frame(loaded.net.steps["s"], scopes, run="s-1", iteration=None)
        move = machine.begin(frame, Moment(0, lambda: "id"))
        assert isinstance(move, RunTask), move
        kind = ToolKinds()[task["kind"]]
        call = call_of(move, kind, step="s", iteration=None, progress=progress)
        return replace(call, auth=auth, auth_name="db" if auth else None, auths=auths, spill=spill)

    async def task(self, progress: Mapping[str, Any] | None = None, *, key: str = "", **task: Any) -> Output:
        """Run a task as it stands in a playbook."""
        try:
            call = self.call(progress, key=key, **task)
        except TemplateError as error:
            return failed(failure_of(error))
        output: Output = await ToolKinds().module(task["kind"]).run(call, self)
        return output

    async def python(self, code: str, **given: Any) -> Output:
        return await self.run("python", code=code, **given)


@asynccontextmanager
async def serving(*routes: web.RouteDef, **options: Any) -> AsyncIterator[str]:
    """A server on loopback; yields its address."""
    application = web.Application(middlewares=options.pop("middlewares", ()))
    application.add_routes(routes)
    cancels = options.pop("handler_cancellation", False)
    server = web.AppRunner(application, handler_cancellation=cancels, shutdown_timeout=0.1)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0, **options)
    await site.start()
    try:
        yield site.name.rsplit(":", 1)[0] + f":{server.addresses[0][1]}"
    finally:
        await server.cleanup()


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that happens in another process."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
