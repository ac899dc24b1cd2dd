# SPDX-License-Identifier: GPL-2.0-or-later
"""Payload followed through memory, byte by byte: who copied it, and who read it otherwise.

See probes/exact/README.md, "Payload".
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from runners.exact.decode.record import (
    COUNT_BITS,
    EVENT_BIT,
    KIND_MASK,
    KIND_SHIFT,
    PREFIXES,
    VALUE_MASK,
    Block,
    Event,
    Record,
)
from runners.exact.machine.symbols import USER_LIMIT, Symbols

ACCESS = struct.Struct("<QQIHBB")
STORE, USER = 1, 2
LEAST_SIZE = 16  # smaller stretches of user memory are read for other reasons, too
STRING = -1  # the "register" of a string move
OTHER = -2
LOADS, STORES, MOVES = {0x8A, 0x8B}, {0x88, 0x89}, {0xA4, 0xA5}
WIDE_LOADS = {0xB6, 0xB7, 0xBE, 0xBF}  # after 0f


class Access(NamedTuple):
    """One load or store; `position` counts the stretches of the trace from 1."""

    physical: int
    value: int
    position: int
    instruction: int
    size: int
    flags: int


@dataclass
class Loaded:
    """Payload bytes in a register."""

    size: int
    value: int
    user: bool
    function: str


@dataclass
class Payload:
    """Bytes of payload, over the window."""

    copied: Counter[str] = field(default_factory=Counter)  # in, out, kernel
    copiers: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)  # read and not copied
    # Of all memory, whoever's and whatever for, by function: bytes over the window.
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)


def register_of(code: bytes, store: bool) -> int:
    """The register that a plain move loads or stores; STRING for a string move; else OTHER."""
    rex, rest = 0, code
    while rest and rest[0] in PREFIXES:
        rex = rest[0] if 0x40 <= rest[0] < 0x50 else 0
        rest = rest[1:]
    if not rest:
        return OTHER
    if rest[0] in MOVES:
        return STRING
    if not store and rest[0] == 0x0F and len(rest) > 2 and rest[1] in WIDE_LOADS:
        rest = rest[1:]
    elif rest[0] not in (STORES if store else LOADS):
        return OTHER
    return (rest[1] >> 3 & 7) + (8 if rex & 4 else 0)


def follow(record: Record, accesses: Path, symbols: Symbols, size: int) -> Payload:
    """Follow the payload of messages of `size` bytes through the client's window."""
    numbers, begin, end = _positions(record)
    places = [symbols.place(block.address).function for block in record.blocks]
    window = [one for one in _read(accesses) if begin < one.position <= end]
    kernel = [block.address >= USER_LIMIT for block in record.blocks]
    tracker = _Tracker(_sources(window, numbers, kernel, size), record.blocks)
    for one in window:
        number = numbers[one.position]
        traffic = tracker.payload.stored if one.flags & STORE else tracker.payload.loaded
        traffic[places[number]] += one.size
        if kernel[number]:
            tracker.step(one, number, places[number])
        elif one.flags & STORE:
            tracker.forget(one)
    tracker.flush()
    return tracker.payload


def _read(path: Path) -> Iterator[Access]:
    return (Access(*fields) for fields in ACCESS.iter_unpack(path.read_bytes()))


def _positions(record: Record) -> tuple[array[int], int, int]:
    """Block number by position, and the positions between which the client's window lies."""
    numbers = array("I", [0])
    begin = end = 0
    for word in record.words:
        if not word & EVENT_BIT:
            numbers.append(word >> COUNT_BITS)
            continue
        kind, value = word >> KIND_SHIFT & KIND_MASK, word & VALUE_MASK
        if kind == Event.REPEAT:
            numbers.extend([numbers[-1]] * value)
        elif kind == Event.CLIENT_BEGIN:
            begin = len(numbers) - 1
        elif kind == Event.CLIENT_END:
            end = len(numbers) - 1
    return numbers, begin, end


def _sources(window: list[Access], numbers: array[int], kernel: list[bool], size: int) -> set[int]:
    """User bytes that the kernel reads in stretches of a message's size, or of the page's rest."""
    read: set[int] = set()
    for one in window:
        if one.flags == USER and kernel[numbers[one.position]]:
            read.update(range(one.physical, one.physical + one.size))
    found: set[int] = set()
    stretch: list[int] = []
    for byte in [*sorted(read), -1]:
        if stretch and byte != stretch[-1] + 1:
            if len(stretch) >= min(size, LEAST_SIZE):
                found.update(stretch)
            stretch = []
        stretch.append(byte)
    return found


class _Tracker:
    def __init__(self, sources: set[int], blocks: list[Block]) -> None:
        self.payload = Payload()
        self._here = set(sources)
        self._sources = sources
        self._registers: dict[int, Loaded] = {}
        self._used: set[int] = set()
        self._blocks = blocks
        self._decoded: dict[tuple[int, int, bool], int] = {}

    def step(self, one: Access, number: int, function: str) -> None:
        """A load or a store of the kernel."""
        store = bool(one.flags & STORE)
        key = (number, one.instruction, store)
        if key not in self._decoded:
            code = self._blocks[number].instruction(one.instruction)
            self._decoded[key] = register_of(code, store)
        if store:
            self._store(one, self._decoded[key])
        else:
            self._load(one, self._decoded[key], function)

    def _load(self, one: Access, register: int, function: str) -> None:
        self._drop(register)
        count = sum(byte in self._here for byte in range(one.physical, one.physical + one.size))
        if not count:
            return
        if register == OTHER:
            self.payload.readers[function] += count
        else:
            self._registers[register] = Loaded(count, one.value, bool(one.flags & USER), function)

    def _store(self, one: Access, register: int) -> None:
        loaded = self._registers.get(register)
        if loaded is None or not _same(loaded.value, one.value, one.size):
            self.forget(one)
            return
        count = min(loaded.size, one.size)
        to_user = bool(one.flags & USER)
        way = "in" if loaded.user else "out" if to_user else "kernel"
        self.payload.copied[way] += count
        self.payload.copiers[loaded.function] += count
        self._used.add(register)
        if not to_user:
            self._here.update(range(one.physical, one.physical + count))

    def _drop(self, register: int) -> None:
        loaded = self._registers.pop(register, None)
        if loaded is not None and register not in self._used:
            self.payload.readers[loaded.function] += loaded.size
        self._used.discard(register)

    def flush(self) -> None:
        """The end: what is still in a register was not copied."""
        for register in list(self._registers):
            self._drop(register)

    def forget(self, one: Access) -> None:
        """Something else is stored there; a user's buffer stays one."""
        for byte in range(one.physical, one.physical + one.size):
            if byte not in self._sources:
                self._here.discard(byte)


def _same(loaded: int, stored: int, size: int) -> bool:
    mask = (1 << 8 * min(size, 8)) - 1
    return loaded & mask == stored & mask
