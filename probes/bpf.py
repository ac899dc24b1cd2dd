# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel tells of BPF: the programs of a process, and where structures keep members.

How often a program ran, for how long and what it missed is in /proc/PID/fdinfo; its name comes by
bpf(2). Offsets of members are in type information (BTF), so no kernel headers are needed.
"""

import ctypes
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probes.messages import RunError

SYS_BPF = 321  # x86-64
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

BTF_FILE = Path("/sys/kernel/btf/vmlinux")
HEADER = struct.Struct("<HBBIIIII")  # struct btf_header
TYPE = struct.Struct("<III")  # struct btf_type: name, info, size or type
MEMBER = struct.Struct("<III")  # struct btf_member: name, type, offset in bits
STRUCT, UNION = 4, 5
ALIASES = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# By kind: bytes after the type's three words, and for each member (include/uapi/linux/btf.h).
AFTER = {
    **{1: (4, 0), 3: (12, 0), STRUCT: (0, 12), UNION: (0, 12), 6: (0, 8), 13: (0, 8)},
    **{14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12)},
}


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


class Btf:
    """The structures of a kernel."""

    def __init__(self, data: bytes) -> None:
        _, _, _, size, types, length, strings, _ = HEADER.unpack_from(data)
        self._data = data
        self._strings = size + strings
        self._places = [0]  # by type id: where it stands
        self._structures: dict[str, int] = {}
        at, end = size + types, size + types + length
        while at < end:
            name, info, _ = TYPE.unpack_from(data, at)
            kind, count = info >> 24 & 31, info & 0xFFFF
            if kind == STRUCT and name:
                self._structures.setdefault(self._name(name), at)
            self._places.append(at)
            fixed, each = AFTER.get(kind, (0, 0))
            at += TYPE.size + fixed + each * count

    def offset(self, path: str) -> int:
        """The offset in bytes of `structure.member…`. Raises RunError."""
        structure, *members = path.split(".")
        if (place := self._structures.get(structure)) is None:
            raise RunError(f"this kernel has no struct {structure}.")
        bits = 0
        for member in members:
            if (member_place := self._find(place, member)) is None:
                raise RunError(f"this kernel has no {path}.")
            bits, place = bits + member_place[0], member_place[1]
        return bits // 8

    def _find(self, place: int, wanted: str) -> tuple[int, int] | None:
        """(offset in bits, where the type stands) of a member, in anonymous members too."""
        _, info, _ = TYPE.unpack_from(self._data, place)
        if info >> 24 & 31 not in (STRUCT, UNION):
            return None
        first, size = place + TYPE.size, (info & 0xFFFF) * MEMBER.size
        for name_at, kind, bits in MEMBER.iter_unpack(self._data[first : first + size]):
            name, inner = self._name(name_at), self._resolve(kind)
            bits &= 0xFFFFFF if info >> 31 else -1  # a bit field's size is above
            if name == wanted:
                return bits, inner
            if not name and (member_place := self._find(inner, wanted)):
                return bits + member_place[0], member_place[1]
        return None

    def _resolve(self, number: int) -> int:
        """Where a type stands, behind its typedefs and qualifiers."""
        while True:
            place = self._places[number]
            _, info, number = TYPE.unpack_from(self._data, place)
            if info >> 24 & 31 not in ALIASES:
                return place

    def _name(self, offset: int) -> str:
        start = self._strings + offset
        return self._data[start : self._data.index(b"\0", start)].decode()
