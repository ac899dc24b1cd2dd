# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the running kernel keeps a structure's members: its type information (BTF).

BCC compiles against kernel headers, which we do not install; offsets are all that a program needs
to read a member with bpf_probe_read_kernel.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

TYPES = Path("/sys/kernel/btf/vmlinux")
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


class BtfError(Exception):
    """The kernel has no such type information; the message is one sentence."""


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

    @classmethod
    def of_kernel(cls) -> "Btf":
        """Raises BtfError."""
        try:
            return cls(TYPES.read_bytes())
        except OSError as error:
            raise BtfError(f"the kernel shows no type information ({error}).") from error

    def offset(self, path: str) -> int:
        """The offset in bytes of `structure.member…`. Raises BtfError."""
        structure, *members = path.split(".")
        if (place := self._structures.get(structure)) is None:
            raise BtfError(f"this kernel has no struct {structure}.")
        bits = 0
        for member in members:
            if (member_place := self._find(place, member)) is None:
                raise BtfError(f"this kernel has no {path}.")
            bits, place = bits + member_place[0], member_place[1]
        return bits // 8

    def _find(self, place: int, wanted: str) -> tuple[int, int] | None:
        """(offset in bits, where the type stands) of a member, in anonymous members too."""
        for name, kind, bits in self._members(place):
            inner = self._resolve(kind)
            if name == wanted:
                return bits, inner
            if not name and (member_place := self._find(inner, wanted)):
                return bits + member_place[0], member_place[1]
        return None

    def _members(self, place: int) -> Iterator[tuple[str, int, int]]:
        _, info, _ = TYPE.unpack_from(self._data, place)
        if info >> 24 & 31 not in (STRUCT, UNION):
            return
        bitfields = bool(info >> 31)
        for number in range(info & 0xFFFF):
            at = place + TYPE.size + number * MEMBER.size
            name, kind, bits = MEMBER.unpack_from(self._data, at)
            yield self._name(name), kind, bits & 0xFFFFFF if bitfields else bits

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
