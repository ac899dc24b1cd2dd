# SPDX-License-Identifier: GPL-2.0-or-later
"""Strips programs for the guest of everything that depends on where they were built.

Debug information holds the path of the sources, and the build id is a hash of it. Both would change
the guest's memory, then the times of its ticks, and in the end its counts.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of a 64-bit ELF file
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD, NOTE = 1, 4


def strip_elf(program: bytes) -> bytes:
    """The loaded part of an ELF program, with blank notes and without sections."""
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
    fields[6] = fields[12] = fields[13] = 0  # the section table: its place, length and names
    data[: HEADER.size] = HEADER.pack(*fields)
    return bytes(data[:end])
