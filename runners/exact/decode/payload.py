# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows payload through memory, byte by byte: which functions copied it, and which only read it.

See probes/exact/README.md, "Payload".
"""

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
    PREFIXES,
    REX,
    CodeBlock,
    InstructionRecord,
    RecordEvent,
    event_of,
)
from runners.exact.machine.symbols import USER_LIMIT, Symbols

ACCESS = struct.Struct("<QQIHBB")
STORE, USER = 1, 2
LEAST_SIZE = 16  # the kernel also reads shorter ranges of user memory for other reasons
STRING = -1  # the "register" of a string move
OTHER = -2
LOADS, STORES, MOVES = {0x8A, 0x8B}, {0x88, 0x89}, {0xA4, 0xA5}
WIDE_LOADS = {0xB6, 0xB7, 0xBE, 0xBF}  # after 0f


class Access(NamedTuple):
    """One load or store; `position` is that of the running block in the trace, from 1."""

    physical: int
    value: int
    position: int
    instruction: int
    size: int
    flags: int

    @property
    def addresses(self) -> range:
        """The physical addresses of its bytes."""
        return range(self.physical, self.physical + self.size)


class Loaded(NamedTuple):
    """Payload bytes in a register, and the function that loaded them."""

    size: int
    value: int
    user: bool
    function: str


@dataclass
class PayloadFlow:
    """Bytes over the window: of payload, and of all memory for any purpose (`loaded`, `stored`)."""

    copied: Counter[str] = field(default_factory=Counter)  # in, out, kernel
    copiers: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)  # read and not copied
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)


def register_of(code: bytes, store: bool) -> int:
    """The register that a plain move loads or stores; STRING for a string move; else OTHER."""
    rest = code.lstrip(PREFIXES)
    if not rest:
        return OTHER
    prefix = code[len(code) - len(rest) - 1] if len(rest) < len(code) else 0
    if rest[0] in MOVES:
        return STRING
    if not store and rest[0] == 0x0F and len(rest) > 2 and rest[1] in WIDE_LOADS:
        rest = rest[1:]
    elif rest[0] not in (STORES if store else LOADS):
        return OTHER
    return (rest[1] >> 3 & 7) + (8 if prefix in REX and prefix & 4 else 0)


def follow(record: InstructionRecord, accesses: Path, symbols: Symbols, size: int) -> PayloadFlow:
    """Follow the payload of messages of `size` bytes through the client's window."""
    numbers, begin, end = _positions(record)
    functions = [symbols.place(block.address).function for block in record.blocks]
    kernel = [block.address >= USER_LIMIT for block in record.blocks]
    read = map(Access._make, ACCESS.iter_unpack(accesses.read_bytes()))
    window = [access for access in read if begin < access.position <= end]
    from_user = (
        access for access in window if access.flags == USER and kernel[numbers[access.position]]
    )
    tracker = _Tracker(_sources(from_user, size), record.blocks)
    for access in window:
        number = numbers[access.position]
        traffic = tracker.flow.stored if access.flags & STORE else tracker.flow.loaded
        traffic[functions[number]] += access.size
        if kernel[number]:
            tracker.step(access, number, functions[number])
        elif access.flags & STORE:
            tracker.forget(access)
    tracker.flush()
    return tracker.flow


def _positions(record: InstructionRecord) -> tuple["array[int]", int, int]:
    """Block number by position, and the positions between which the client's window lies."""
    numbers = array("I", [0])
    ends = dict.fromkeys((RecordEvent.CLIENT_BEGIN, RecordEvent.CLIENT_END), 0)
    for word in record.words:
        if not word & EVENT_BIT:
            numbers.append(word >> COUNT_BITS)
            continue
        kind, value = event_of(word)
        if kind == RecordEvent.REPEAT:
            numbers.extend([numbers[-1]] * value)
        elif kind in ends:
            ends[RecordEvent(kind)] = len(numbers) - 1
    return numbers, ends[RecordEvent.CLIENT_BEGIN], ends[RecordEvent.CLIENT_END]


def _sources(from_user: Iterator[Access], size: int) -> set[int]:
    """The payload's user bytes, which the kernel reads in ranges as long as a message.

    A range may be shorter where the message goes on in another page.
    """
    read: set[int] = set()
    for access in from_user:
        read.update(access.addresses)
    found: set[int] = set()
    adjacent: list[int] = []
    for byte in [*sorted(read), -1]:
        if adjacent and byte != adjacent[-1] + 1:
            if len(adjacent) >= min(size, LEAST_SIZE):
                found.update(adjacent)
            adjacent = []
        adjacent.append(byte)
    return found


class _Tracker:
    def __init__(self, sources: set[int], blocks: list[CodeBlock]) -> None:
        self.flow = PayloadFlow()
        self._here = set(sources)
        self._sources = sources
        self._registers: dict[int, Loaded] = {}
        self._used: set[int] = set()
        self._blocks = blocks
        self._decoded: dict[tuple[int, int, bool], int] = {}

    def step(self, access: Access, number: int, function: str) -> None:
        """A load or a store of the kernel."""
        store = bool(access.flags & STORE)
        key = (number, access.instruction, store)
        if key not in self._decoded:
            code = self._blocks[number].instruction(access.instruction)
            self._decoded[key] = register_of(code, store)
        if store:
            self._store(access, self._decoded[key])
        else:
            self._load(access, self._decoded[key], function)

    def _load(self, access: Access, register: int, function: str) -> None:
        self._drop(register)
        count = len(self._here.intersection(access.addresses))
        if not count:
            return
        if register == OTHER:
            self.flow.readers[function] += count
        else:
            user = bool(access.flags & USER)
            self._registers[register] = Loaded(count, access.value, user, function)

    def _store(self, access: Access, register: int) -> None:
        loaded = self._registers.get(register)
        mask = (1 << 8 * min(access.size, 8)) - 1
        if loaded is None or loaded.value & mask != access.value & mask:
            self.forget(access)
            return
        count = min(loaded.size, access.size)
        to_user = bool(access.flags & USER)
        direction = "in" if loaded.user else "out" if to_user else "kernel"
        self.flow.copied[direction] += count
        self.flow.copiers[loaded.function] += count
        self._used.add(register)
        if not to_user:
            self._here.update(access.addresses[:count])

    def _drop(self, register: int) -> None:
        loaded = self._registers.pop(register, None)
        if loaded is not None and register not in self._used:
            self.flow.readers[loaded.function] += loaded.size
        self._used.discard(register)

    def flush(self) -> None:
        """The end of the window: what is still in a register was read and not copied."""
        for register in list(self._registers):
            self._drop(register)

    def forget(self, access: Access) -> None:
        """Other data overwrites these bytes; a user's send buffer stays a source of payload."""
        self._here -= set(access.addresses) - self._sources
