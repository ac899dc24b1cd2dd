# SPDX-License-Identifier: GPL-2.0-or-later
"""Type information of a kernel (BTF): where structures keep their members, and what lies at a byte.

The format is Documentation/bpf/btf.rst. No library reads it for us: drgn needs DWARF, which Debian
has in packages of 1 GB a kernel; pahole prints structures as C text, which would have to be parsed
again; btf2json makes JSON of 100 MB, and is in no registry.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.messages import RunError

RUNNING = Path("/sys/kernel/btf/vmlinux")  # of the kernel that runs here
HEADER = struct.Struct("<HBBIIIII")  # struct btf_header
HEAD = bytes.fromhex("9feb0100") + bytes([HEADER.size, 0, 0, 0])  # it begins so
TYPE = struct.Struct("<III")  # struct btf_type: name, info, size or type
MEMBER = struct.Struct("<III")  # struct btf_member: name, type, offset in bits
ARRAY_OF = struct.Struct("<III")  # struct btf_array: element, index, number
ENUMERATOR = struct.Struct("<Ii")  # struct btf_enum: name, value
INTEGER, POINTER, ARRAY, STRUCT, UNION, ENUM, FLOAT, ENUM64 = 1, 2, 3, 4, 5, 6, 16, 19
ALIASES = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# By kind: bytes after the type's three words, and for each member (include/uapi/linux/btf.h).
AFTER = {
    INTEGER: (4, 0),
    ARRAY: (12, 0),
    STRUCT: (0, 12),
    UNION: (0, 12),
    ENUM: (0, 8),
    13: (0, 8),  # function prototype
    14: (4, 0),  # variable
    15: (0, 12),  # section
    17: (4, 0),  # declaration tag
    ENUM64: (0, 12),
}
SIZED = (INTEGER, STRUCT, UNION, ENUM, FLOAT, ENUM64)
POINTER_SIZE = 8
LARGEST_ALIGNMENT = 16  # of a number: __int128
FLAGGED = 1 << 31  # of a structure's info: its bit fields have their size beside the offset
GROUP_BEGIN, GROUP_END = "__cacheline_group_begin__", "__cacheline_group_end__"
PADDING = "(padding)"


class Member(NamedTuple):
    """A member of a structure: `at` and `size` in bytes; of a bit field `bits` of them, else 0.

    `place` is where its type stands.
    """

    name: str
    at: int
    size: int
    bits: int
    place: int


class Btf:
    """The types of a kernel."""

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
            if kind in (STRUCT, UNION) and name:
                self._structures.setdefault(self._name(name), at)
            self._places.append(at)
            fixed, each = AFTER.get(kind, (0, 0))
            at += TYPE.size + fixed + each * count
        self.at = cache(self._path)
        self._members = cache(self._read_members)
        self.size_at = cache(self._read_size)

    def __contains__(self, structure: str) -> bool:
        return structure in self._structures

    def structures(self) -> list[str]:
        """The names of all structures, without unions."""
        return [name for name, place in self._structures.items() if self._kind(place) == STRUCT]

    def size(self, structure: str) -> int:
        """The size in bytes of a structure. Raises RunError."""
        return self.size_at(self.place(structure))

    def offset(self, path: str) -> int:
        """The offset in bytes of `structure.member…`. Raises RunError."""
        structure, *words = path.split(".")
        place, at = self.place(structure), 0
        for word in words:
            if (found := self._find(place, word)) is None:
                raise RunError(f"this kernel has no {path}.")
            at, place = at + found[0], found[1]
        return at

    def has(self, path: str) -> bool:
        """Whether this kernel has `structure.member…`."""
        try:
            self.offset(path)
        except RunError:
            return False
        return True

    def members(self, structure: str) -> list[Member]:
        """The members of a structure, in their order. Raises RunError."""
        return self._members(self.place(structure))

    def _path(self, structure: str, offset: int) -> tuple[str, ...]:
        """The members that hold this byte, the outermost first: `("sk", "sk_lock", "slock")`.

        Members without a name are left out; of a union it is the first that is that long; bit
        fields of one byte are one name. Raises RunError.
        """
        return tuple(self._at(self.place(structure), offset))

    def alignment(self, place: int) -> int:
        """The alignment of a type, as its parts have it: an attribute of its own is not in BTF."""
        if self._kind(place) == ARRAY:
            return self.alignment(self._array(place)[0])
        if self._kind(place) not in (STRUCT, UNION):
            return max(1, min(self.size_at(place), LARGEST_ALIGNMENT))
        align = max((self.alignment(member.place) for member in self._members(place)), default=1)
        while self.size_at(place) % align:  # packed
            align //= 2
        return align

    def name_of(self, place: int) -> str:
        """The name of a structure; empty for another type, and where it has none."""
        is_structure = place and self._kind(place) == STRUCT
        return self._name(TYPE.unpack_from(self._data, place)[0]) if is_structure else ""

    def parts(self, place: int) -> list[Member]:
        """The members of the structure, and the elements of the array, that stands there."""
        if self._kind(place) == STRUCT:
            return self._members(place)
        if self._kind(place) != ARRAY:
            return []
        element, count = self._array(place)
        each = self.size_at(element)
        return [Member(f"[{index}]", each * index, each, 0, element) for index in range(count)]

    def names(self, member: Member) -> tuple[str, ...]:
        """A member's name; of one without a name those of its own members."""
        if member.name or self._kind(member.place) not in (STRUCT, UNION):
            return (member.name,)
        return tuple(name for inner in self._members(member.place) for name in self.names(inner))

    def groups(self, structure: str) -> dict[str, range]:
        """The groups of cache lines that its source marks: name → bytes. Raises RunError."""
        begins: dict[str, int] = {}
        groups: dict[str, range] = {}
        for member in self.members(structure):
            if member.name.startswith(GROUP_BEGIN):
                begins[member.name.removeprefix(GROUP_BEGIN)] = member.at
            elif member.name.startswith(GROUP_END):
                name = member.name.removeprefix(GROUP_END)
                groups[name] = range(begins[name], member.at)
        return groups

    def enumerators(self) -> dict[str, int]:
        """Name → value, of every enumeration."""
        values: dict[str, int] = {}
        for place in self._places[1:]:
            _, info, _ = TYPE.unpack_from(self._data, place)
            if info >> 24 & 31 == ENUM:
                for name, value in self._entries(ENUMERATOR, place, info & 0xFFFF):
                    values.setdefault(self._name(name), value)
        return values

    def enumeration(self, member: str) -> dict[int, str]:
        """Value → name, of the enumeration that has this member; empty where none has it."""
        for place in self._places[1:]:
            _, info, _ = TYPE.unpack_from(self._data, place)
            if info >> 24 & 31 == ENUM:
                entries = self._entries(ENUMERATOR, place, info & 0xFFFF)
                names = {value: self._name(name) for name, value in entries}
                if member in names.values():
                    return names
        return {}

    def place(self, name: str) -> int:
        """Where a structure stands. Raises RunError."""
        if (place := self._structures.get(name)) is None:
            raise RunError(f"this kernel has no struct {name}.")
        return place

    def _entries(self, entry: struct.Struct, place: int, count: int) -> Iterator[Sequence[int]]:
        first = place + TYPE.size
        return entry.iter_unpack(self._data[first : first + count * entry.size])

    def _read_members(self, place: int) -> list[Member]:
        _, info, _ = TYPE.unpack_from(self._data, place)
        made = []
        for name, kind, offset in self._entries(MEMBER, place, info & 0xFFFF):
            bits = offset >> 24 if info & FLAGGED else 0
            offset = offset & 0xFFFFFF if info & FLAGGED else offset
            inner = self._resolve(kind)
            size = (offset % 8 + bits + 7) // 8 if bits else self.size_at(inner)
            made.append(Member(self._name(name), offset // 8, size, bits, inner))
        return made

    def _read_size(self, place: int) -> int:
        _, info, size = TYPE.unpack_from(self._data, place)
        kind = info >> 24 & 31
        if kind == ARRAY:
            element, count = self._array(place)
            return self.size_at(element) * count
        if kind == POINTER:
            return POINTER_SIZE
        return int(size) if kind in SIZED else 0

    def _array(self, place: int) -> tuple[int, int]:
        """Where the type of its elements stands, and their number."""
        element, _, count = ARRAY_OF.unpack_from(self._data, place + TYPE.size)
        return self._resolve(element), count

    def _kind(self, place: int) -> int:
        return int(TYPE.unpack_from(self._data, place)[1]) >> 24 & 31

    def _at(self, place: int, offset: int) -> Iterator[str]:
        kind = self._kind(place)
        if kind == ARRAY:
            element, _ = self._array(place)
            each = self.size_at(element) or 1
            yield f"[{offset // each}]"
            yield from self._at(element, offset % each)
        if kind not in (STRUCT, UNION):
            return
        here = [m for m in self._members(place) if m.at <= offset < m.at + m.size]
        if not here:
            yield PADDING
        elif here[0].bits:
            yield "|".join(member.name for member in here if member.bits)
        else:
            if here[0].name:
                yield here[0].name
            yield from self._at(here[0].place, offset - here[0].at)

    def _find(self, place: int, wanted: str) -> tuple[int, int] | None:
        """(offset, where the type stands) of a member, in members without a name too."""
        if self._kind(place) not in (STRUCT, UNION):
            return None
        for member in self._members(place):
            if member.name == wanted:
                return member.at, member.place
            if not member.name and (found := self._find(member.place, wanted)):
                return member.at + found[0], found[1]
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


def embedded(image: bytes) -> bytes:
    """What an image without sections has from its types on. Raises ValueError without them."""
    return image[image.index(HEAD) :]


def section(program: bytes, wanted: str) -> bytes:
    """A section of a 64-bit ELF file, such as `.BTF` of a kernel. Raises KeyError without it."""
    (table,) = struct.unpack_from("<Q", program, 0x28)
    size, count, names = struct.unpack_from("<HHH", program, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", program, table + n * size) for n in range(count)]
    strings = heads[names][4]
    for name, _, _, _, at, length in heads:
        start = strings + name
        if program[start : program.index(b"\0", start)] == wanted.encode():
            return program[at : at + length]
    raise KeyError(wanted)
