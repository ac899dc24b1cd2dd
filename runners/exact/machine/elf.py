# SPDX-License-Identifier: GPL-2.0-or-later
"""A program as the guest gets it: without what depends on where it was built.

Debug information holds the path of the sources, and the build id a hash of it. Both would change
the guest's memory, the time at which its ticks fall, and so, in the end, its counts.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of an ELF file of 64 bits
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD, NOTE = 1, 4


def bare(program: bytes) -> bytes:
    """The part of an ELF program that is loaded, notes blanked, sections cut off."""
    fields = list(HEADER.unpack_from(program))
    start, size, count = fields[5], fields[9], fields[10]
    data = bytearray(program)
    end = 0
    for number in range(count):
        kind, _, offset, _, _, length, _, _ = SEGMENT.unpack_from(program, start + number * size)
        if kind == LOAD:
            end = max(end, offset + length)
        elif kind == NOTE:
            data[offset : offset + length] = bytes(length)
    fields[6] = fields[12] = fields[13] = 0  # the section table, its length and its names
    data[: HEADER.size] = HEADER.pack(*fields)
    return bytes(data[:end])
