"""What a task may not do, from its effective spec: as bounds for its process, or as the reason why it cannot run here."""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import noetl
from noetl.model.output import Failure, failure
from noetl.ports import World

SOURCES = str(Path(noetl.__file__).parents[1])
_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv[1]); from noetl.drivers.confinement.process import launch; "
    "launch(sys.argv[2], sys.argv[3:])"
)
#: the system: what programs need to start, to find out where they are and to trust a certificate
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc/alternatives",
    "/etc/ca-certificates", "/etc/ssl", "/etc/pki", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/host.conf", "/etc/hostname",
    "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/os-release",
    "/etc/mime.types", "/etc/terminfo", "/etc/inputrc", "/etc/profile", "/etc/bash.bashrc", "/etc/magic",
    "/run/systemd/resolve", "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg",
    "/proc/uptime", "/proc/version", "/proc/filesystems", "/proc/sys/kernel", "/proc/sys/vm",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
#: what a strictly confined process has of the engine's environment
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


class Bounds(msgspec.Struct, frozen=True):
    """What the process of a task may do."""

    strict: bool = False
    network: bool = True

    @property
    def none(self) -> bool:
        """Whether it may do everything."""
        return self == _UNBOUND

    @property
    def words(self) -> str:
        """What a message adds to an error of the system that may come of it."""
        said = ["`isolation: strict`"] if self.strict else []
        said += [] if self.network else ["no network"]
        return f"the task runs with {' and '.join(said)}" if said else ""


_UNBOUND = Bounds()


def bounds_of(spec: Mapping[str, Any]) -> Bounds:
    """The bounds that an effective spec asks for.

    Hosts cannot be told apart by the kernel: where only some are allowed, there are none. A strict process has a
    network only if the spec says so.
    """
    strict = spec.get("isolation") == "strict"
    asked = spec.get("network")
    hosts = spec.get("allow_hosts")
    network = asked != "off" and (hosts is None or "*" in hosts) and (asked == "on" or not strict)
    return Bounds(strict=strict, network=network)


def enforcement_failure(bounds: Bounds) -> Failure | None:
    """Why this machine cannot keep a process within its bounds; None: it can."""
    if bounds.none:
        return None
    from noetl.drivers.confinement import landlock, seccomp  # slow to import, and nearly no task has bounds

    wanted = "`isolation: strict`" if bounds.strict else "`network: off`"
    reason = seccomp.unavailable_reason()
    if reason is None and bounds.strict and (abi := landlock.version()) < landlock.ENOUGH:
        has = f"version {abi}" if abi else "none (or it is switched off)"
        reason = f"this kernel has Landlock {has}, version {landlock.ENOUGH} is needed (Linux 6.2)"
    if reason is None:
        return None
    return failure("isolation", f"{wanted} cannot be kept on this machine: {reason}; the task was not run")


class Confinement:
    """Where a process runs within its bounds; a strict one has a folder of its own, the only one it can write to."""

    def __init__(self, bounds: Bounds, world: World) -> None:
        self.bounds = bounds
        self._private: str | None = None
        self.environment: Mapping[str, str] = world.environment
        #: the bounds in full, for the process that is to put itself into them; empty: it has none
        self.serialized = ""
        if bounds.strict:
            import tempfile

            self._private = tempfile.mkdtemp(prefix="noetl-")
            kept = {name: value for name, value in world.environment.items() if _is_kept(name)}
            self.environment = {**kept, "HOME": self._private, "TMPDIR": self._private}
        if not bounds.none:
            self.serialized = json.dumps({**msgspec.to_builtins(bounds), **_paths(world, self._private)})

    def command(self, arguments: list[str]) -> list[str]:
        """What to start, so that a command runs within the bounds."""
        if not self.serialized:
            return arguments
        return [sys.executable, "-I", "-S", "-c", _LAUNCH, SOURCES, self.serialized, *arguments]

    def close(self) -> None:
        """Remove what was written there."""
        if self._private is not None:
            import shutil

            shutil.rmtree(self._private, ignore_errors=True)


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith("LC_")


def _paths(world: World, private: str | None) -> dict[str, list[str]]:
    if private is None:
        return {"read": [], "write": []}
    hidden = [path.resolve() for path in world.hidden]
    read = dict.fromkeys([*_SYSTEM, *_programs(world), *_python()])
    readable = [path for path in read if not _contains_hidden(path, hidden)]
    return {"read": [*readable, *_visible_paths(world.folder, hidden)], "write": [*_DEVICES, private]}


def _programs(world: World) -> Iterator[str]:
    for folder in world.environment.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("/") and folder != "/":
            yield folder


def _python() -> Iterator[str]:
    """Where Python and what is installed for it lie."""
    yield from {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, SOURCES}
    yield from (path for path in [*site.getsitepackages(), *sys.path] if path.endswith("-packages"))


def _contains_hidden(path: str, hidden: list[Path]) -> bool:
    return any(one.is_relative_to(Path(path).resolve()) for one in hidden)


def _visible_paths(folder: Path, hidden: list[Path]) -> Iterator[str]:
    """A folder without what is hidden in it: what may be read beneath a path cannot be taken back beneath another."""
    folder = folder.resolve()
    if folder in hidden:
        return
    if not any(one.is_relative_to(folder) for one in hidden):
        yield str(folder)
        return
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and not inner.is_symlink():
            yield from _visible_paths(inner, hidden)
        elif not inner.is_symlink() and inner not in hidden:  # what it leads to is allowed, or is not
            yield str(inner)
