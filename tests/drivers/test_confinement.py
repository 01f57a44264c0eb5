"""Confinement: what code that is held cannot do, tried for real; and that a machine which cannot hold it says so."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_world import Workshop

from noetl.drivers.confinement import landlock, seccomp
from noetl.drivers.confinement.bounds import Bounds, bounds_of, enforcement_failure

STRICT = {"isolation": "strict"}
OFF = {"network": "off"}

needs_landlock = pytest.mark.skipif(
    enforcement_failure(Bounds(strict=True)) is not None, reason="this kernel cannot confine"
)
needs_seccomp = pytest.mark.skipif(enforcement_failure(Bounds(network=False)) is not None, reason="no seccomp here")

#: each is tried by a strictly confined task; it must raise, or give something else than True
ESCAPES = {
    "read a file of the user": "open(outside).read()",
    "list a folder above": "os.listdir(os.path.dirname(os.path.dirname(outside)))",
    "write beside the playbook": "open('new.txt', 'w')",
    "write into the system": "open('/usr/new.txt', 'w')",
    "change the playbook": "open('playbook.yaml', 'a')",
    "cut a file": "os.truncate(outside, 0)",
    "remove a file": "os.remove(outside)",
    "remove a file of the playbook": "os.remove('playbook.yaml')",
    "move a file here": "os.rename(outside, os.path.join(os.environ['TMPDIR'], 'x'))",
    "link a file here": "(os.link(outside, os.path.join(os.environ['TMPDIR'], 'l')), open(os.path.join(os.environ['TMPDIR'], 'l')).read())",
    "look through a symbolic link": "(os.symlink(outside, os.path.join(os.environ['TMPDIR'], 's')), open(os.path.join(os.environ['TMPDIR'], 's')).read())",
    "look through a link beside the playbook": "open('link.txt').read()",
    "open to anybody": "os.chmod(outside, 0o777)",
    "open to anybody by its handle": "os.fchmod(os.open('playbook.yaml', os.O_RDONLY), 0o777)",
    "give away": "os.chown('playbook.yaml', 1000, 1000)",
    "mark": "os.setxattr('playbook.yaml', 'user.x', b'1')",
    "read the log": "open(hidden).read()",
    "read the engine's environment": "open(f'/proc/{engine}/environ').read()",
    "read the engine's memory": "open(f'/proc/{engine}/mem', 'rb').read(1)",
    "read its own memory map": "open('/proc/self/maps').read()",
    "read the shadow file": "open('/etc/shadow').read()",
    "kill the engine": "os.kill(engine, 0)",
    "stop the engine": "os.kill(engine, 19)",
    "trace the engine": "call(101 if x86 else 117, 16, engine, 0, 0)",
    "read the engine's pages": "call(310 if x86 else 270, engine, 0, 0, 0, 0, 0) == 0",
    "limit the engine": "resource.prlimit(engine, resource.RLIMIT_NOFILE, (10, 10))",
    "connect": "socket.create_connection(('127.0.0.1', port), 2)",
    "send a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port))",
    "listen": "socket.socket().bind(('127.0.0.1', 0))",
    "ask a service of this machine": "socket.socket(socket.AF_UNIX).connect('/run/x')",
    "listen to packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "resolve a name": "socket.getaddrinfo('localhost.localdomain.example', 80)",
    "have the ring do it": "call(425, 1, 0) >= 0",
    "take a namespace": "call(272 if x86 else 97, 0x10000000)",
    "start in a namespace": "call(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0) > 0",
    "mount": "call(165 if x86 else 40, b'none', os.environ['TMPDIR'].encode(), b'tmpfs', 0, 0)",
    "change the root": "os.chroot('.')",
    "load a program into the kernel": "call(321 if x86 else 280, 0, 0, 0) >= 0",
    "take a key": "call(250 if x86 else 219, 0, -3, 0) >= 0",
    "share memory with others": "call(29 if x86 else 194, 0, 4096, 0o1600) >= 0",
    "call as another architecture": "x86 and call(0x40000000 | 41, 2, 1, 0) >= 0",
    "become root": "(subprocess.run(['su', '-c', 'cat ' + outside], check=True))",
    "have a child do it": "subprocess.run(['cat', outside], check=True)",
    "have a child call": f"subprocess.run([{sys.executable!r}, '-c', 'import socket; socket.socket()'], check=True)",
    "put a device": "os.mknod(os.path.join(os.environ['TMPDIR'], 'd'), 0o60600, os.makedev(8, 0))",
}
ATTEMPT = """
import ctypes, os, platform, resource, socket, subprocess
x86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)

def call(*arguments):
    found = libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return found

def main(attempts, **names):
    found = {}
    for name, text in attempts.items():
        try:
            result = eval(text, {**globals(), **names})
            found[name] = "done" if result is not False else "refused"
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            found[name] = "refused"
    return found
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody who answers on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()
        server.settimeout(0.05)

        def accept() -> None:
            while not stopped.is_set():
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        stopped.set()
        thread.join()


@pytest.fixture
def names(world: Workshop, tmp_path_factory: pytest.TempPathFactory, port: int) -> dict[str, Any]:
    """What escapes are after."""
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("secret")
    (world.folder / "playbook.yaml").write_text("text")
    (world.folder / "home").mkdir()
    (world.folder / "home" / "log.db").write_text("log")
    (world.folder / "link.txt").symlink_to(outside)
    world.hidden = [world.folder / "home"]
    hidden = str(world.folder / "home" / "log.db")
    return {"outside": str(outside), "hidden": hidden, "engine": os.getpid(), "port": port}


@needs_landlock
async def test_strict_code_can_do_none_of_what_has_been_thought_of(world: Workshop, names: dict[str, Any]) -> None:
    output = await world.python(ATTEMPT, spec=STRICT, input={"attempts": ESCAPES, **names})
    assert output["error"] is None
    assert [name for name, how in output["data"].items() if how != "refused"] == []
    assert Path(names["outside"]).read_text() == "secret"
    assert len(output["data"]) == len(ESCAPES)


async def test_the_same_can_be_done_by_code_that_is_not_held(world: Workshop, names: dict[str, Any]) -> None:
    possible = ("read a file of the user", "read the log", "write beside the playbook", "connect", "have a child do it",
                "read the engine's environment", "kill the engine", "look through a link beside the playbook")  # fmt: skip
    attempts = {name: ESCAPES[name] for name in possible}
    output = await world.python(ATTEMPT, input={"attempts": attempts, **names})
    assert set(output["data"].values()) == {"done"}


@needs_landlock
async def test_strict_code_reads_its_folder_and_writes_its_own(world: Workshop) -> None:
    (world.folder / "data").mkdir()
    (world.folder / "data" / "in.txt").write_text("given")
    code = (
        "import asyncio, os, sqlite3, ssl, subprocess, tempfile\n"
        "def main():\n"
        "    asyncio.run(asyncio.sleep(0))\n"
        "    with tempfile.NamedTemporaryFile('w') as file:\n"
        "        file.write('x')\n"
        "    said = subprocess.run('echo hi > $HOME/f; cat $HOME/f data/in.txt', shell=True, capture_output=True)\n"
        "    return said.stdout.decode(), os.environ['HOME'], sorted(os.environ)\n"
    )
    output = await world.python(code, spec=STRICT)
    said, home, environment = output["data"]
    assert said == "hi\ngiven"
    assert "SECRET_OF_THE_ENGINE" not in environment
    await world.close()
    assert not Path(home).exists()


@needs_landlock
async def test_a_strict_command_has_a_place_of_its_own_that_is_removed(world: Workshop) -> None:
    world.environment = {**world.environment, "SECRET_OF_THE_ENGINE": "x"}
    (world.folder / "run.sh").write_text("#!/bin/sh\necho $0 > $TMPDIR/f && cat $TMPDIR/f && echo $TMPDIR; env\n")
    (world.folder / "run.sh").chmod(0o755)
    output = await world.run("shell", file="run.sh", spec=STRICT, input={"MINE": "1"})
    lines = output["data"]["stdout"].splitlines()
    assert lines[0].endswith("run.sh")
    assert not Path(lines[1]).exists()
    assert "MINE=1" in lines
    assert "SECRET_OF_THE_ENGINE=x" not in lines


@needs_landlock
async def test_strict_with_a_network_reaches_the_internet_and_no_service_by_name(world: Workshop, port: int) -> None:
    code = (
        "import socket\n"
        "def main(port):\n"
        "    socket.create_connection(('127.0.0.1', port), 5).close()\n"
        "    try:\n        socket.socket(socket.AF_UNIX)\n"
        "    except PermissionError:\n        return 'only the internet'\n"
    )
    output = await world.python(code, spec={**STRICT, "network": "on"}, input={"port": port})
    assert output["data"] == "only the internet"


@needs_seccomp
@pytest.mark.parametrize("spec", [OFF, {"allow_hosts": ["api.example.com"]}, {"allow_hosts": []}])
async def test_without_a_network_there_is_no_socket(world: Workshop, port: int, spec: dict[str, Any]) -> None:
    code = "import socket\ndef main(port):\n    socket.create_connection(('127.0.0.1', port), 2)\n"
    output = await world.python(code, spec=spec, input={"port": port})
    assert output["error"]["kind"] == "python"
    assert output["error"]["message"].endswith("(the task runs with no network)")
    command = f'exec "{sys.executable}" -c "import socket; socket.create_connection((\'127.0.0.1\', {port}), 2)"'
    output = await world.run("shell", cmd=command, spec=spec)
    assert "Permission denied" in output["error"]["message"]


@needs_seccomp
async def test_without_a_network_everything_else_is_as_it_was(world: Workshop) -> None:
    code = "import asyncio, os, subprocess\ndef main():\n    asyncio.run(asyncio.sleep(0))\n    open('f', 'w').write('x')\n    return subprocess.run(['cat', 'f'], capture_output=True, text=True).stdout, os.environ['HOME']\n"
    output = await world.python(code, spec=OFF)
    assert output["data"] == ["x", str(world.folder)]


async def test_all_hosts_are_no_bounds(world: Workshop, port: int) -> None:
    code = (
        "import socket\ndef main(port):\n    socket.create_connection(('127.0.0.1', port), 2).close()\n    return 1\n"
    )
    assert (await world.python(code, spec={"allow_hosts": ["*"]}, input={"port": port}))["data"] == 1


@needs_seccomp
async def test_a_task_is_never_given_to_a_host_with_other_bounds(world: Workshop) -> None:
    code = "import os, socket\ndef main():\n    try:\n        socket.socket().close()\n    except OSError:\n        return [os.getpid(), False]\n    return [os.getpid(), True]\n"
    free, held, again = [(await world.python(code, spec=spec))["data"] for spec in ({}, OFF, {})]
    assert (free[1], held[1], again[1]) == (True, False, True)
    assert free[0] == again[0] != held[0]


# --- machines that cannot --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["python", "shell"])
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (STRICT, "`isolation: strict` cannot be kept on this machine: this kernel has Landlock version 2"),
        (OFF, "`network: off` cannot be kept on this machine: this kernel has no seccomp"),
    ],
)
async def test_what_cannot_be_kept_is_not_tried(
    world: Workshop, monkeypatch: pytest.MonkeyPatch, kind: str, spec: dict[str, Any], said: str
) -> None:
    if spec == STRICT:
        monkeypatch.setattr(landlock, "version", lambda: 2)
    else:
        monkeypatch.setattr(seccomp, "unavailable_reason", lambda: "this kernel has no seccomp")
    given = {"code": "open('ran', 'w')"} if kind == "python" else {"cmd": "touch ran"}
    output = await world.run(kind, spec=spec, **given)
    assert output["error"]["kind"] == "isolation"
    assert output["error"]["message"].startswith(said)
    assert not (world.folder / "ran").exists()


@pytest.mark.parametrize("kind", ["python", "shell"])
async def test_a_kernel_that_breaks_its_word_keeps_the_task_from_running(
    world: Workshop, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # A process that may open no more than a few files cannot be confined: Landlock needs one for each path.
    from noetl.drivers.confinement import bounds

    monkeypatch.setattr(bounds, "_SYSTEM", ("/usr", "/lib", "/lib64"))
    monkeypatch.setattr(bounds, "_DEVICES", ("/proc/self/ns/net",))  # no rule can be made for it
    given = {"code": "open('ran', 'w')"} if kind == "python" else {"cmd": "touch ran"}
    output = await world.run(kind, spec=STRICT, **given)
    assert output["error"]["kind"] == "isolation"
    assert "could not be confined" in output["error"]["message"]
    assert not (world.folder / "ran").exists()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, Bounds()),
        ({"isolation": "process"}, Bounds()),
        ({"network": "on"}, Bounds()),
        ({"network": "off"}, Bounds(network=False)),
        ({"network": "on", "allow_hosts": ["a"]}, Bounds(network=False)),
        ({"isolation": "strict"}, Bounds(strict=True, network=False)),
        ({"isolation": "strict", "network": "on"}, Bounds(strict=True)),
        ({"isolation": "strict", "network": "on", "allow_hosts": ["a"]}, Bounds(strict=True, network=False)),
        ({"limits.processes": 1}, Bounds()),
    ],
)
def test_what_a_spec_asks_for(spec: dict[str, Any], expected: Bounds) -> None:
    assert bounds_of(spec) == expected


def test_every_call_has_a_number_and_none_has_that_of_another() -> None:
    for column in (0, 1):
        numbers = [pair[column] for pair in seccomp.CALLS.values() if pair[column] is not None]
        assert len(numbers) == len(set(numbers))
