"""Seccomp: a filter of system calls, for this process and all that it starts. Needs no privilege, cannot be undone.

The filter is a short program for the kernel. It refuses what is on a list and allows the rest; calls of another
architecture than the machine's own, by which the list could be passed by, end the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
#: where the kernel puts the number, the architecture and the arguments of a call
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP, _PR_SET_SECCOMP, _FILTER = 38, 21, 22, 2
_X32 = 0x40000000
#: of clone: new namespaces of any sort
_NAMESPACES = 0x7E020080
#: the domains of the internet's sockets
_INTERNET = (2, 10)

#: call → its number on x86-64 and on 64-bit ARM; None: it is not there
CALLS: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "clone": (56, 220), "clone3": (435, 435),
    "prlimit64": (302, 261),
    # into other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "process_madvise": (440, 440), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180),
    # a second way to everything else
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # what files are said to be, which Landlock does not look at
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # the machine
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
#: calls with a rule of their own
_RULED = frozenset({"socket", "clone", "clone3", "prlimit64"})
_SIGNALS = frozenset(
    {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"}
)  # fmt: skip
#: what would let a process without a network use that of another one
AROUND_THE_NETWORK = frozenset(
    {"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "io_uring_setup", "io_uring_enter",
     "io_uring_register"}
)  # fmt: skip
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def unavailable_reason() -> str | None:
    """Why there can be no filter here; None: there can."""
    if os.uname().sysname != "Linux" or os.uname().machine not in ARCHITECTURES:
        return f"seccomp filters are known for Linux on {' and '.join(ARCHITECTURES)} only"
    if _libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return "this kernel has no seccomp"
    return None


def program(*, strict: bool, network: bool, signals: bool) -> bytes:
    """The filter: what it refuses depends on what is not allowed. `signals`: nobody else keeps them in."""
    column, architecture = ARCHITECTURES[os.uname().machine]
    made = [_load(_ARCHITECTURE), _jump(_EQUAL, architecture, 1, 0), _return(_KILL), _load(_NUMBER)]
    if column == 0:
        made += [_jump(_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)]
    denied = (set(CALLS) - _RULED - (set() if signals else _SIGNALS)) if strict else set()
    if not network:
        denied |= AROUND_THE_NETWORK
    for name in sorted(denied):
        made += _when(CALLS[name][column], [_refuse(errno.EPERM)])
    made += _sockets(column, strict=strict, network=network)
    if strict:
        made += _clones(column)
        own = [_load(_ARGUMENTS), _jump(_EQUAL, 0, 1, 0), _refuse(errno.EPERM), _return(_ALLOW)]
        made += _when(CALLS["prlimit64"][column], own)
    return b"".join([*made, _return(_ALLOW)])


def install(body: bytes) -> None:
    """Put this process under a filter. OSError: the kernel does not."""
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    text = ctypes.create_string_buffer(body, len(body))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(body) // 8, ctypes.addressof(text)))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, head, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _sockets(column: int, *, strict: bool, network: bool) -> list[bytes]:
    """No socket but pairs, which lead nowhere; under `strict`, with a network, those of the internet."""
    if not network:
        return _when(CALLS["socket"][column], [_refuse(errno.EACCES)])
    if not strict:
        return []
    four, six = _INTERNET
    rule = [_load(_ARGUMENTS), _jump(_EQUAL, four, 2, 0), _jump(_EQUAL, six, 1, 0), _refuse(errno.EACCES)]
    return _when(CALLS["socket"][column], [*rule, _return(_ALLOW)])


def _clones(column: int) -> list[bytes]:
    """No new namespaces. `clone3` hides its flags from filters: without it, everybody takes `clone`."""
    rule = [_load(_ARGUMENTS), _jump(_ANY_BIT, _NAMESPACES, 0, 1), _refuse(errno.EPERM), _return(_ALLOW)]
    return [*_when(CALLS["clone3"][column], [_refuse(errno.ENOSYS)]), *_when(CALLS["clone"][column], rule)]


# --- the words of the program ----------------------------------------------------------------------------------------


def _when(number: int | None, then: list[bytes]) -> list[bytes]:
    """What is done for one call; it must end there."""
    return [] if number is None else [_jump(_EQUAL, number, 0, len(then)), *then]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", _LOAD, 0, 0, offset)


def _jump(how: int, value: int, if_so: int, if_not: int) -> bytes:
    return struct.pack("HBBI", how, if_so, if_not, value)


def _return(value: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, value)


def _refuse(number: int) -> bytes:
    return _return(_ERRNO | number)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
