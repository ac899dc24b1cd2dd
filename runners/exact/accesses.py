# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads and stores of a record's window, one after the other: see probes/exact/README.md.

The recorder writes them with `memory=on`.
"""

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runners.exact.record import (
    COUNT_BITS,
    EVENT_BIT,
    InstructionRecord,
    RecordEvent,
    end_of_window,
    event_of,
)

ACCESS = struct.Struct("<QQQIHBB")
# Flags: else it is a load; by an address of user space; of an instruction that moves a pair of
# registers, the second; of a device's register, not of memory.
STORE, USER_ADDRESS, SECOND, DEVICE_REGISTER = 1, 2, 4, 8


class Access(NamedTuple):
    """One load or store; `position` is that of the running block in the trace, from 1.

    `instruction` is the number of the instruction in its block, whose number is `block`.
    """

    physical: int
    virtual: int
    value: int
    position: int
    instruction: int
    size: int
    flags: int
    block: int

    @property
    def addresses(self) -> range:
        return range(self.physical, self.physical + self.size)

    def stores(self, loaded: "Access") -> bool:
        """Return whether it writes the value of that load, as far as it is wide."""
        mask = (1 << 8 * min(self.size, 8)) - 1
        return loaded.value & mask == self.value & mask


def accesses(record: InstructionRecord, file: Path, *, one_way: bool = False) -> Iterator[Access]:
    """Yield the accesses of the window, in their order."""
    blocks, begin, end = _positions(record, end_of_window(one_way))
    for fields in ACCESS.iter_unpack(file.read_bytes()):
        position = fields[3]
        if begin < position <= end:
            yield Access._make((*fields, blocks[position]))


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
