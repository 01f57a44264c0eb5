"""kind: shell"""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from noetl.drivers.exhaustion import check_machine
from noetl.drivers.text import as_text
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Output, failed, failure, ok
from noetl.model.shape import Anything, Key, ListOf, MapOf, OneOf, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from noetl.drivers.confinement import Confinement
    from noetl.drivers.processes import Capture
    from noetl.drivers.spilled_data import TextSpool
    from noetl.ports import Call, World

_SHELL = "/bin/sh"
#: of a failed command's output, what goes into the error
_TRIMMED = 4_096
_LAST_LINES = 3

KIND = ToolKind(
    name="shell",
    doc="Runs a command. Each template in it stands for one word. `input` gives environment variables. A command that is "
    "cancelled or out of time gets SIGTERM, with all of its process group, and is killed two seconds later.",
    keys={
        "cmd": Key(
            OneOf((Text(templated=True), ListOf(Text(templated=True)))),
            "The command, or a list of commands run in order until one fails.",
        ),
        "file": Key(Text(templated=True), "A script file, in place of `cmd`."),
        "env": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Environment variables."),
        "cwd": Key(Text(templated=True), "The folder to run in, seen from the playbook's own; by default that one."),
    },
    input=InputRole.ARGUMENTS,
    output="`{stdout, stderr, exit_code}`; an exit code other than 0 is an error",
    one_of=(("cmd", "file"),),
    keeps_network=True,
    has_process=True,
    shell=frozenset({"cmd"}),
    paths=frozenset({"file"}),
    aliases=("script",),
    settings=frozenset(),
)


async def run(call: Call, world: World) -> Output:
    """Run the commands one after another until one fails; what they left in the background ends with the task."""
    from noetl.drivers.confinement import Confinement, bounds_of, enforcement_failure

    bounds = bounds_of(call.spec)
    problem = enforcement_failure(bounds)
    if problem is not None:
        return failed(problem)
    place = Confinement(bounds, world)
    try:
        return await _run(call, world, place)
    finally:
        place.close()


async def _run(call: Call, world: World, place: Confinement) -> Output:
    from noetl.drivers.processes import Capture
    from noetl.drivers.spilled_data import TextSpool, over_limit
    from noetl.ports import StoreFailed

    spools = {stream: TextSpool(world, call.spill, tail=_TRIMMED) for stream in ("stdout", "stderr")}
    capture = Capture(call, world, spools)
    try:
        try:
            code = await _run_all(call, world, place, capture)
        finally:
            capture.finish()
        if code is None:
            return failed(failure("limit", f"the command has more than {call.spec['limits.processes']} processes"))
        if capture.exceeded:
            return failed(failure("limit", over_limit("what the command wrote", capture.limit)))
        if isinstance(capture.broken, StoreFailed):
            raise capture.broken
        if capture.broken is not None:
            return failed(failure("shell", f"what the command wrote cannot be kept: {capture.broken.strerror}"))
        if code == 0:
            return ok(await _data(world, spools))
        return _failure_output(call, code, *(spool.text() for spool in spools.values()))
    except (OSError, ValueError) as error:
        check_machine(error, starting=True)
        return failed(failure("shell", f"the command cannot be started: {error}"))
    finally:
        for spool in spools.values():
            spool.close()


async def _run_all(call: Call, world: World, place: Confinement, capture: Capture) -> int | None:
    """The exit code of the last command that ran; None: it had too many processes."""
    from noetl.drivers.processes import GRACE_S, ChildProcess, ExecutionProcesses, ProcessCounter, end

    # Who has left the group of a command is not looked for at the end of each task, but at the end of the execution.
    family = await world.resource("shell", ExecutionProcesses.open, ExecutionProcesses.close)
    children: list[ChildProcess] = []
    code, crowded = 0, False
    try:
        environment = {**place.environment, **_variables(call)}
        folder = _folder(call, world)
        for arguments in _commands(call, world.folder):
            with _hide_command(arguments, world) as (seen, files):
                command = place.command(_apply_limits(seen, call))
                child = ChildProcess(command, folder=folder, environment=environment, files=files, family=family)
            child.capture = capture
            children.append(child)
            with ProcessCounter(child, call) as census:
                code = await child.wait()
            crowded = census.exceeded
            child.drain()
            if code or capture.exceeded or crowded:
                break
    except (OSError, ValueError):
        raise
    except BaseException:  # cancelled
        await end(children, grace_s=GRACE_S)
        raise
    finally:
        for child in children:
            child.close()
    return None if crowded else code


def _folder(call: Call, world: World) -> Path:
    folder = world.folder / str(call.config.get("cwd") or "")
    if not folder.is_dir():
        raise ValueError(f"`cwd` is no folder: {folder}")
    return folder


async def _data(world: World, spools: Mapping[str, TextSpool]) -> Any:
    """What a command yields, or the file that it was left in."""
    import asyncio

    if not any(spool.is_spilled for spool in spools.values()):
        return {**{stream: spool.text() for stream, spool in spools.items()}, "exit_code": 0}
    from noetl.drivers.spilled_data import guard_disk_full

    with world.open_unnamed() as file:
        with guard_disk_full(world):
            await asyncio.to_thread(_write_streams, spools, file)
        return await world.adopt_spill(file)


def _write_streams(spools: Mapping[str, TextSpool], file: IO[bytes]) -> None:
    for stream, spool in spools.items():
        file.write(b'%b"%b":"' % (b"{" if stream == "stdout" else b",", stream.encode()))
        spool.write_to(file)
        file.write(b'"')
    file.write(b',"exit_code":0}')
    file.flush()


def _commands(call: Call, folder: Path) -> Iterator[list[str]]:
    """What to start, in order."""
    file = call.config.get("file")
    if file:
        import os

        path = folder / str(file)
        # A script that may be executed says itself, in its first line, who is to read it.
        yield [str(path)] if os.access(path, os.X_OK) else [_SHELL, str(path)]
        return
    commands = call.config.get("cmd")
    for command in commands if isinstance(commands, list) else [commands]:
        yield [_SHELL, "-c", as_text(command)]


@contextmanager
def _hide_command(arguments: list[str], world: World) -> Iterator[tuple[list[str], list[int]]]:
    """The same, with a command that holds a secret in a file that has no name, and not among the arguments."""
    import os

    if arguments[1:2] != ["-c"] or not world.is_secret(arguments[2]) or not hasattr(os, "memfd_create"):
        yield arguments, []
        return
    file = os.memfd_create("command", 0)
    try:
        with os.fdopen(os.dup(file), "wb") as opened:
            opened.write(arguments[2].encode())
        yield [_SHELL, f"/proc/self/fd/{file}"], [file]
    finally:
        os.close(file)


def _apply_limits(arguments: list[str], call: Call) -> list[str]:
    """The same under the limits that the task has; the shell sets them and is then replaced."""
    limits = []
    if memory_mb := call.spec.get("limits.memory_mb"):
        limits.append(f"ulimit -v {int(memory_mb * 1024)}")
    if (cpu_s := call.spec.get("limits.cpu_s")) is not None:
        seconds = int(cpu_s) + 1
        limits += [f"ulimit -S -t {seconds}", f"ulimit -H -t {seconds + 1}"]
    if not limits:
        return arguments
    return [_SHELL, "-c", " && ".join([*limits, 'exec "$@"']), _SHELL, *arguments]


def _variables(call: Call) -> dict[str, str]:
    """The environment variables that the task gives: its credential's parts, its input, and over it `env`."""
    env = call.config.get("env") or {}
    if not isinstance(env, dict):
        raise ValueError(f"`env` must be a map, not {type(env).__name__}")  # noqa: TRY004  it is the author's error
    auth = {f"AUTH_{name.upper()}": value for name, value in (call.auth or {}).items()}
    return {name: as_text(value) for name, value in {**auth, **call.input, **env}.items()}


def _failure_output(call: Call, code: int, stdout: str, stderr: str) -> Output:
    from noetl.drivers.confinement import REASON, REFUSED, bounds_of
    from noetl.drivers.processes import OUT_OF_TIME, describe_exit, signal_name

    # Shells tell of a signal by 128 and its number.
    if code in (OUT_OF_TIME, 128 - OUT_OF_TIME) and "limits.cpu_s" in call.spec:
        limit = call.spec["limits.cpu_s"]
        return failed(failure("limit", f"the command used more than {limit} s of processor time"))
    if code == REFUSED and stderr.startswith(REASON):
        return failed(failure("isolation", stderr.strip()))
    said = " | ".join(stderr.strip().splitlines()[-_LAST_LINES:])
    said = (
        said if len(said) <= _TRIMMED else f"…{said[-_TRIMMED:]}"
    )  # half of a secret is known by what it stands behind
    message = f"the command {describe_exit(code)}"
    more: dict[str, Any] = {"exit_code": code} if code > 0 else {"exit_code": 128 - code, "signal": signal_name(code)}
    more |= {"stdout": stdout[-_TRIMMED:], "stderr": stderr[-_TRIMMED:]}
    # What a program makes of a refusal seldom says who refused.
    bound = f" ({words})" if (words := bounds_of(call.spec).words) else ""
    return failed(failure("shell", f"{message}: {said}{bound}" if said else f"{message}{bound}", **more))
