# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows payload through memory, byte by byte: which functions copied it, and which only read it.

See probes/exact/README.md, "Payload".
"""

import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from runners.exact.record import (
    COUNT_BITS,
    EVENT_BIT,
    PREFIXES,
    REX,
    USER_LIMIT,
    InstructionRecord,
    RecordEvent,
    end_of_window,
    event_of,
)
from runners.exact.symbols import Symbols

ACCESS = struct.Struct("<QQIHBB")
STORE, USER = 1, 2
LEAST_SIZE = 16  # the kernel also writes shorter ranges of user memory for other reasons
PAGE = 4096
BACK = 32  # bytes that a memcpy() goes back at most
# A string move's width. A move across the end of a page has one physical address, that of its first
# byte: the rest seems to lie in the physically next page, which need not be the buffer's next page.
WIDTH = 8
SEARCHED = 500_000  # accesses, or a third of the window: payload begins where it began before
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
        return range(self.physical, self.physical + self.size)

    def stores(self, loaded: "Access") -> bool:
        """Return whether it writes the value of that load, as far as it is wide."""
        mask = (1 << 8 * min(self.size, 8)) - 1
        return loaded.value & mask == self.value & mask


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


def follow(
    record: InstructionRecord, accesses: Path, symbols: Symbols, size: int, *, one_way: bool = False
) -> PayloadFlow:
    """Follow the payload of messages of `size` bytes through the window."""
    numbers, begin, end = _positions(record, end_of_window(one_way))
    functions = [symbols.place(block.address).function for block in record.blocks]
    kernel = [block.address >= USER_LIMIT for block in record.blocks]
    read = map(Access._make, ACCESS.iter_unpack(accesses.read_bytes()))
    window = [access for access in read if begin < access.position <= end]
    origins, sources = _Origins(), set[int]()

    @cache
    def register(number: int, instruction: int, store: int) -> int:
        return register_of(record.blocks[number].instruction(instruction), bool(store))

    searched = max(SEARCHED, len(window) // 3)
    # A sender whose messages go one way may be far ahead: then look on until some are received.
    for begins in range(0, len(window), searched):
        for access in window[begins : begins + searched]:
            if kernel[number := numbers[access.position]]:
                moved = register(number, access.instruction, access.flags & STORE)
                origins.step(access, moved)
        if sources := spans(origins.repeated(), size):
            break
    tracker = _Tracker(sources)
    for access in window:
        number = numbers[access.position]
        traffic = tracker.flow.stored if access.flags & STORE else tracker.flow.loaded
        traffic[functions[number]] += access.size
        if kernel[number]:
            moved = register(number, access.instruction, access.flags & STORE)
            tracker.step(access, moved, functions[number])
        elif access.flags & STORE:
            tracker.forget(access)
    tracker.flush()
    return tracker.flow


def _positions(record: InstructionRecord, last: RecordEvent) -> tuple["array[int]", int, int]:
    """Block number by position, and the positions between which the window lies."""
    numbers = array("I", [0])
    ends = dict.fromkeys((RecordEvent.CLIENT_BEGIN, last), 0)
    for word in record.words:
        if not word & EVENT_BIT:
            numbers.append(word >> COUNT_BITS)
            continue
        kind, value = event_of(word)
        if kind == RecordEvent.REPEAT:
            numbers.extend([numbers[-1]] * value)
        elif kind in ends:
            ends[RecordEvent(kind)] = len(numbers) - 1
    return numbers, ends[RecordEvent.CLIENT_BEGIN], ends[last]


def spans(repeated: Iterable[int], size: int) -> set[int]:
    """Bytes of spans that are as long as a message; where one goes on in another page, shorter."""
    accepted: set[int] = set()
    adjacent: list[int] = []
    for byte in [*sorted(repeated), -1]:
        if adjacent and byte != adjacent[-1] + 1:
            in_part = adjacent[0] % PAGE < WIDTH or (adjacent[-1] + 1) % PAGE < WIDTH
            if len(adjacent) >= (min(size, LEAST_SIZE) if in_part else size):
                accepted.update(adjacent)
            adjacent = []
        adjacent.append(byte)
    return accepted


class _Origins:
    """Finds out where the bytes began that the kernel hands to a user's memory.

    Payload is what begins at the same place message after message. Where it begins need not be read
    through the user's addresses: pages that are referred to are read through the kernel's own.
    """

    def __init__(self) -> None:
        self._registers: dict[int, Access] = {}  # what loaded it
        self._origin: dict[int, int] = {}  # of each byte that was copied to where it is
        self._handed: Counter[int] = Counter()

    def step(self, access: Access, register: int) -> None:
        """A load or a store of the kernel."""
        if not access.flags & STORE:
            self._registers.pop(register, None)
            if register != OTHER:
                self._registers[register] = access
            return
        loaded = self._registers.get(register)
        if loaded is None or not access.stores(loaded):
            for byte in access.addresses:
                self._origin.pop(byte, None)
            return
        for source, byte in zip(loaded.addresses, access.addresses, strict=False):
            origin = self._origin.get(source, source)
            if access.flags & USER:
                self._handed[origin] += 1
            else:
                self._origin[byte] = origin

    def repeated(self) -> Iterator[int]:
        """Return the places from which bytes were handed to a user more than once."""
        return (byte for byte, times in self._handed.items() if times > 1)


class _Tracker:
    def __init__(self, sources: set[int]) -> None:
        self.flow = PayloadFlow()
        self._here = set(sources)
        self._sources = sources
        # What loaded it, how many bytes of that are payload, and the function.
        self._registers: dict[int, tuple[Access, int, str]] = {}
        self._used: set[int] = set()
        self._last = (0, 0, 0)  # the last copy: its source's begin and end, and how far it went

    def step(self, access: Access, register: int, function: str) -> None:
        """A load or a store of the kernel."""
        if access.flags & STORE:
            self._store(access, register)
            return
        if register in self._registers:
            self._drop(register)
        if count := len(self._here.intersection(access.addresses)):
            if register == OTHER:
                self.flow.readers[function] += count
            else:
                self._registers[register] = access, count, function

    def _store(self, access: Access, register: int) -> None:
        loaded, size, function = self._registers.get(register, (None, 0, ""))
        if loaded is None or not access.stores(loaded):
            self.forget(access)
            return
        count = min(size, access.size)
        to_user = bool(access.flags & USER)
        direction = "in" if loaded.flags & USER else "out" if to_user else "kernel"
        again = self._copied_again(loaded.physical, access.physical, count)
        self.flow.copied[direction] += count - again
        self.flow.copiers[function] += count - again
        self._used.add(register)
        if not to_user:
            self._here.update(access.addresses[:count])

    def _copied_again(self, start: int, target: int, size: int) -> int:
        """Return how many of these bytes have just been copied from there to the same place.

        The kernel's memcpy() copies some bytes twice, where the target becomes aligned and at its
        end.
        """
        begin, end, distance = self._last
        if begin < start <= end < start + BACK and target - start == distance:
            self._last = begin, max(end, start + size), distance
            return min(end - start, size)
        self._last = start, start + size, target - start
        return 0

    def _drop(self, register: int) -> None:
        _, size, function = self._registers.pop(register)
        if register not in self._used:
            self.flow.readers[function] += size
        self._used.discard(register)

    def flush(self) -> None:
        """The end of the window: what is still in a register was read and not copied."""
        for register in list(self._registers):
            self._drop(register)

    def forget(self, access: Access) -> None:
        """Other data overwrites these bytes; a user's send buffer stays a source of payload."""
        if not self._here.isdisjoint(access.addresses):
            self._here -= set(access.addresses) - self._sources
