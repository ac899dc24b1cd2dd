# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and libraries: where their code is, and what their functions are called.

A record has addresses and code, and no file. The kernel maps a page of a file at a page of memory,
so code lies as far into the one as into the other: where it has the file's bytes, it is the file's.
"""

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from probes.isa import Isa
from runners.exact.record import CodeBlock

MAGIC, CLASS_64 = b"\x7fELF", 2
EXECUTABLE, SHARED = 2, 3  # types of file
LOADED, DYNAMIC, INTERPRETER = 1, 2, 3  # segments
LIBRARY_NAME, STRINGS = 1, 5  # of what is dynamic
SYMBOLS, DYNAMIC_SYMBOLS = 2, 11  # sections
FUNCTION, GNU_INDIRECT = 2, 10  # types of symbols
IS_CODE = 1  # a segment's flag
NO_FILE = "[no file]"  # the vDSO, and what a program has compiled itself
LEAST_CODE = 12  # bytes by which a file is found
TRIED_BLOCKS = 3  # blocks of a page of memory that are looked for in all files


class NotElfError(Exception):
    """A file is no ELF of 64 bits; the text goes on after its name."""


class Segment(NamedTuple):
    offset: int
    address: int
    size: int


@dataclass(frozen=True)
class Elf:
    """An ELF file. `loader` is empty where it is static, or a library."""

    name: str
    data: bytes
    machine: int
    kind: int
    entry: int
    loader: str
    code: tuple[Segment, ...]
    needed: tuple[str, ...] = ()  # names of libraries

    @property
    def is_program(self) -> bool:
        return self.kind in (EXECUTABLE, SHARED) and bool(self.code)

    @cached_property
    def functions(self) -> dict[int, tuple[int, str]]:
        """Return the functions: address → size, name."""
        found: dict[int, tuple[int, str]] = {}
        with suppress(struct.error, IndexError):  # a table that is damaged names no more
            self._read_symbols(found)
        return found

    def _read_symbols(self, found: dict[int, tuple[int, str]]) -> None:
        (start,), (size, count) = _at("<Q", self.data, 40), _at("<HH", self.data, 58)
        sections = [_at("<IIQQQQIIQQ", self.data, start + n * size) for n in range(count)]
        for _, kind, _, _, offset, length, link, *_ in sections:
            if kind not in (SYMBOLS, DYNAMIC_SYMBOLS):
                continue
            names = sections[link][4]
            table = self.data[offset : offset + length - length % 24]
            for name, info, _, section, value, its_size in struct.iter_unpack("<IBBHQQ", table):
                if section == 0 or info & 15 not in (FUNCTION, GNU_INDIRECT):
                    continue
                end = self.data.find(b"\0", names + name)
                word = self.data[names + name : end].decode(errors="replace")
                if value not in found or word < found[value][1]:
                    found[value] = its_size, re.sub(r"[;\s]", ":", word) or "?"

    @cached_property
    def _starts(self) -> list[int]:
        return sorted(self.functions)

    def function(self, address: int) -> str:
        """Return the name of the function at an address of the file's, or the file's."""
        if at := bisect_right(self._starts, address):
            size, name = self.functions[self._starts[at - 1]]
            if address < self._starts[at - 1] + (size or 1 << 12):
                return name
        return f"[{self.name}]"

    def has(self, address: int, code: bytes) -> bool:
        """Return whether the file has this code at this address of its own."""
        for offset, start, size in self.code:
            if start <= address < start + size:
                at = address - start + offset
                return self.data[at : at + len(code)] == code
        return False

    def base(self, block: CodeBlock, page: int) -> int | None:
        """Return where a file that has the block's code lies in memory; None without it."""
        if self.kind == EXECUTABLE:
            return 0 if self.has(block.address, block.code) else None
        for offset, start, size in self.code:
            first = offset + (block.address - start) % page
            for at in range(first, offset + size, page):
                if self.data.startswith(block.code, at):
                    return block.address - (at - offset + start)
        return None


def read_elf(path: Path) -> Elf:
    """Read a program or a library. Raises NotElfError, OSError."""
    data = path.read_bytes()
    if data[:2] == b"#!":
        words = data[2:100].split(b"\n")[0].decode(errors="replace").strip()
        raise NotElfError(f"is a script: write -- {words} {path}, and --file {path}.")
    if data[:4] != MAGIC:
        raise NotElfError("is no ELF file: name a program that this kernel could execute.")
    try:
        if data[4] != CLASS_64 or data[5] != 1:
            raise NotElfError("is no ELF file of 64 bits, little-endian: build it for this one.")
        kind, machine = _at("<HH", data, 16)
        entry, start = _at("<QQ", data, 24)
        size, count = _at("<HH", data, 54)
        code, loader, loads, dynamic = [], "", list[Segment](), b""
        for number in range(count):
            what, flags, offset, address, _, length = _at("<IIQQQQ", data, start + number * size)
            if what == LOADED:
                loads.append(Segment(offset, address, length))
                if flags & IS_CODE:
                    code.append(loads[-1])
            elif what == DYNAMIC:
                dynamic = data[offset : offset + length - length % 16]
            elif what == INTERPRETER:
                loader = data[offset : offset + length].rstrip(b"\0").decode()
        needed = tuple(_needed(data, loads, dynamic))
    except (struct.error, IndexError, ValueError):
        raise NotElfError("is a damaged ELF file: build it again.") from None
    return Elf(path.name, data, machine, kind, entry, loader, tuple(code), needed)


def _needed(data: bytes, loads: Sequence[Segment], dynamic: bytes) -> Iterator[str]:
    """Yield the names of the libraries that an ELF's dynamic segment needs."""
    rows = list(struct.iter_unpack("<QQ", dynamic))
    strings = next((value for tag, value in rows if tag == STRINGS), 0)
    table = [strings - at + offset for offset, at, size in loads if at <= strings < at + size]
    for tag, value in rows:
        if tag == LIBRARY_NAME and table:
            start = table[0] + value
            yield data[start : data.index(b"\0", start)].decode(errors="replace")


def _at(form: str, data: bytes, offset: int) -> tuple[int, ...]:
    return struct.unpack_from(form, data, offset)


class UserPlace(NamedTuple):
    """A function of user space: the number of its file (-1: none), its name."""

    file: int
    function: str
    entry: bool  # whether the file begins to run here
    main: bool


class UserCode:
    """Names the blocks of a record that are not the kernel's, by the files that may have run."""

    def __init__(self, blocks: Sequence[CodeBlock], files: Sequence[Elf], isa: Isa) -> None:
        self._files, self._page = files, isa.page
        self._own = [".so" not in elf.name for elf in files]
        self._bases: list[tuple[int, int]] = []  # number of the file, and where it lies
        self._tried: Counter[int] = Counter()
        self.places: dict[int, UserPlace] = {}
        # Long ones first: they are in one file alone.
        users = [n for n, block in enumerate(blocks) if 0 < block.address < isa.user_limit]
        for number in sorted(users, key=lambda n: -len(blocks[n].code)):
            self.places[number] = self._place(blocks[number])
        own = {number: place for number, place in self.places.items() if self.is_own(place)}
        # The blocks with which a program itself begins, after its loader.
        self.begins = {number for number, place in own.items() if place.main}
        self.begins = self.begins or {number for number, place in own.items() if place.entry}

    def is_own(self, place: UserPlace) -> bool:
        """Return whether a function is a program's, and no library's."""
        return place.file >= 0 and self._own[place.file]

    def _place(self, block: CodeBlock) -> UserPlace:
        for number, base in self._bases:
            elf, address = self._files[number], block.address - base
            if elf.has(address, block.code):
                name = elf.function(address)
                return UserPlace(number, name, address == elf.entry, name == "main")
        page = block.address // self._page
        if len(block.code) >= LEAST_CODE and self._tried[page] < TRIED_BLOCKS:
            self._tried[page] += 1
            for number, elf in enumerate(self._files):
                found = elf.base(block, self._page)
                if found is not None and (number, found) not in self._bases:
                    self._bases.append((number, found))
                    return self._place(block)
        return UserPlace(-1, NO_FILE, False, False)
