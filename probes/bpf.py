# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel tells of BPF: the programs of a process, and those at a hook.

How often a program ran, for how long and what it missed is in /proc/PID/fdinfo; its name comes by
bpf(2).
"""

import ctypes
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probes.isa import HOST

SYS_BPF = HOST.numbers["bpf"]
PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD, PROG_QUERY, ENABLE_STATS = 13, 15, 16, 32
EFFECTIVE = 1  # BPF_F_QUERY_EFFECTIVE: include the programs of the groups above
QUERY = struct.Struct("=IIIIQII")  # of union bpf_attr: target, type, flags, -, ids, count, -
MOST_ATTACHED = 64  # programs listed for a hook: the most that a control group can have itself
INFO_SIZE = 256
ATTRIBUTES = 512  # more than bpf_attr has: the kernel may write beyond the size that it was given
# bpftrace's names and BCC's, cut.
ON_PATH = ("kprobe_", "kretprobe_", "tracepoint_net_", "tracepoint__net")
FDINFO_COUNTERS = ("run_cnt", "run_time_ns", "recursion_misses")
NAME = slice(64, 80)  # of struct bpf_prog_info: 15 characters, and a zero


@dataclass(frozen=True)
class Program:
    """How often a program ran since it was loaded, and for how long, while statistics were on.

    `missed`: events for which it did not run, as another ran on that CPU; None before Linux 5.12.
    """

    name: str
    runs: int
    ns: int
    missed: int | None

    @property
    def on_path(self) -> bool:
        """Whether it is on the network's path, which mostly the workload takes."""
        return self.name.startswith(ON_PATH)


class Programs:
    """The programs that a process holds now."""

    def __init__(self, pid: int) -> None:
        self._names: dict[Path, str] = {}
        for file in Path(f"/proc/{pid}/fdinfo").glob("*"):
            if "prog_id" in (fields := _fields(file)):
                self._names[file] = name(int(fields["prog_id"]))

    def read(self) -> list[Program]:
        """What they have counted so far."""
        programs = []
        for file, name in self._names.items():
            fields = {
                key: int(text) for key, text in _fields(file).items() if key in FDINFO_COUNTERS
            }
            runs, ns, missed = map(fields.get, FDINFO_COUNTERS)
            programs.append(Program(name, runs or 0, ns or 0, missed))
        return programs


def _fields(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def name(program: int) -> str:
    """The name of a program, cut to 15 characters; empty where the program is gone."""
    info = ctypes.create_string_buffer(INFO_SIZE)
    with suppress(OSError):
        number = bpf(PROG_GET_FD_BY_ID, struct.pack("III", program, 0, 0))
        try:
            bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", number, INFO_SIZE, ctypes.addressof(info)))
        finally:
            os.close(number)
    return info.raw[NAME].split(b"\0")[0].decode(errors="replace")


def attached(target: int, hook: int, flags: int = 0) -> list[str]:
    """Names of the programs at a hook (enum bpf_attach_type) of a group's descriptor or a device.

    Raises OSError: EINVAL where this kernel has no such hook.
    """
    ids = (ctypes.c_uint32 * MOST_ATTACHED)()
    query = QUERY.pack(target, hook, flags, 0, ctypes.addressof(ids), MOST_ATTACHED, 0)
    answer = ctypes.create_string_buffer(query, ATTRIBUTES)
    _ask(PROG_QUERY, answer, len(query))
    return [name(number) for number in ids[: QUERY.unpack_from(answer.raw)[5]]]


def enable_statistics() -> int:
    """A descriptor: while it is open the kernel counts each program's runs and time (Linux 5.8)."""
    return bpf(ENABLE_STATS, struct.pack("I", 0))


def bpf(command: int, attributes: bytes) -> int:
    return _ask(command, ctypes.create_string_buffer(attributes, ATTRIBUTES), len(attributes))


def _ask(command: int, attributes: ctypes.Array[ctypes.c_char], size: int) -> int:
    """bpf(2): `size` bytes of `attributes` are the question; its answer may be written there."""
    library = ctypes.CDLL(None, use_errno=True)
    result: int = library.syscall(SYS_BPF, command, attributes, size)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
