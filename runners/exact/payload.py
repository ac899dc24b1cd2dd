# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows payload through memory, byte by byte: which functions copied it, and which only read it.

See probes/exact/README.md, "Payload".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from probes.isa import OTHER, Isa
from runners.exact.accesses import SECOND, STORE, USER_ADDRESS, Access, accesses
from runners.exact.record import InstructionRecord
from runners.exact.symbols import Symbols

LEAST_SIZE = 16  # the kernel also writes shorter ranges of user memory for other reasons
SEARCHED = 500_000  # accesses, or a third of the window: payload begins where it began before


@dataclass
class PayloadFlow:
    """Bytes over the window: of payload, and of all memory for any purpose (`loaded`, `stored`)."""

    copied: Counter[str] = field(default_factory=Counter)  # in, out, kernel
    copiers: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)  # read and not copied
    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)


def follow(
    record: InstructionRecord, file: Path, symbols: Symbols, size: int, *, one_way: bool = False
) -> PayloadFlow:
    """Follow the payload of messages of `size` bytes through the window's accesses in `file`."""
    window = list(accesses(record, file, one_way=one_way))
    # By number of the block.
    in_kernel = [block.address >= record.isa.user_limit for block in record.blocks]
    functions = [symbols.place(block.address).function for block in record.blocks]

    @cache
    def register(block: int, instruction: int, how: int) -> int:
        if functions[block] in record.isa.savers:
            return OTHER
        code = record.blocks[block].instruction(instruction)
        return record.isa.register_of(code, bool(how & STORE), bool(how & SECOND))

    def moved(access: Access) -> int:
        return register(access.block, access.instruction, access.flags & (STORE | SECOND))

    tracker = _Tracker(record.isa, _sources(record.isa, window, in_kernel, moved, size))
    for access in window:
        function = functions[access.block]
        traffic = tracker.flow.stored if access.flags & STORE else tracker.flow.loaded
        traffic[function] += access.size
        if in_kernel[access.block]:
            tracker.step(access, moved(access), function)
        elif access.flags & STORE:
            tracker.forget(access)
    tracker.flush()
    return tracker.flow


def _sources(
    isa: Isa,
    window: Sequence[Access],
    in_kernel: Sequence[bool],
    moved: Callable[[Access], int],
    size: int,
) -> set[int]:
    """Return the addresses of the bytes that messages are sent from.

    The window is searched in pieces, up to the first that has any: a sender whose messages go one
    way may be far ahead of the receiver.
    """
    origins, sources = _Origins(), set[int]()
    searched = max(SEARCHED, len(window) // 3)
    for start in range(0, len(window), searched):
        for access in window[start : start + searched]:
            if in_kernel[access.block]:
                origins.step(access, moved(access))
        if sources := spans(isa, origins.repeated(), size):
            break
    return sources


def spans(isa: Isa, repeated: Iterable[int], size: int) -> set[int]:
    """Bytes of spans that are as long as a message; where one goes on in another page, shorter.

    A move across the end of a page has one physical address, that of its first byte: the rest seems
    to lie in the physically next page, which need not be the buffer's next page.
    """
    accepted: set[int] = set()
    adjacent: list[int] = []
    for byte in [*sorted(repeated), -1]:
        if adjacent and byte != adjacent[-1] + 1:
            edges = adjacent[0] % isa.page, (adjacent[-1] + 1) % isa.page
            least = min(size, LEAST_SIZE) if min(edges) < isa.move_width else size
            if len(adjacent) >= least:
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
            if access.flags & USER_ADDRESS:
                self._handed[origin] += 1
            else:
                self._origin[byte] = origin

    def repeated(self) -> Iterator[int]:
        """Return the places from which bytes were handed to a user more than once."""
        return (byte for byte, times in self._handed.items() if times > 1)


class _Tracker:
    """Knows which bytes of memory and which registers hold payload now; adds to `flow`.

    `sources` are the addresses that messages are sent from.
    """

    def __init__(self, isa: Isa, sources: set[int]) -> None:
        self.flow = PayloadFlow()
        self._copy_back = isa.copy_back
        self._payload = set(sources)  # addresses that hold payload
        self._sources = sources
        # Register → the load that filled it, how many of its bytes are payload, who loaded.
        self._registers: dict[int, tuple[Access, int, str]] = {}
        self._stored: set[int] = set()  # registers whose payload has been stored since
        self._last = (0, 0, 0)  # the last copy: its source's begin and end, and how far it went

    def step(self, access: Access, register: int, function: str) -> None:
        """A load or a store of the kernel."""
        if access.flags & STORE:
            self._store(access, register)
            return
        if register in self._registers:
            self._drop(register)
        if count := len(self._payload.intersection(access.addresses)):
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
        direction = "kernel"
        if loaded.flags & USER_ADDRESS:
            direction = "in"
        elif access.flags & USER_ADDRESS:
            direction = "out"
        again = self._copied_again(loaded.physical, access.physical, count)
        self.flow.copied[direction] += count - again
        self.flow.copiers[function] += count - again
        self._stored.add(register)
        if not access.flags & USER_ADDRESS:
            self._payload.update(access.addresses[:count])

    def _copied_again(self, start: int, target: int, size: int) -> int:
        """Return how many of these bytes have just been copied from there to the same place.

        The kernel's memcpy() copies some bytes twice, where the target becomes aligned and at its
        end.
        """
        begin, end, distance = self._last
        if begin < start <= end < start + self._copy_back and target - start == distance:
            self._last = begin, max(end, start + size), distance
            return min(end - start, size)
        self._last = start, start + size, target - start
        return 0

    def _drop(self, register: int) -> None:
        _, size, function = self._registers.pop(register)
        if register not in self._stored:
            self.flow.readers[function] += size
        self._stored.discard(register)

    def flush(self) -> None:
        """The end of the window: what is still in a register was read and not copied."""
        for register in list(self._registers):
            self._drop(register)

    def forget(self, access: Access) -> None:
        """Other data overwrites these bytes; a user's send buffer stays a source of payload."""
        if not self._payload.isdisjoint(access.addresses):
            self._payload -= set(access.addresses) - self._sources
