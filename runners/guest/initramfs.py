# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a guest's whole file system in memory, as a cpio archive in the `newc` format.

Every field that could vary (times, owners, inodes) is fixed, so equal files make equal bytes. What
depends on where a program was built is stripped.
"""

import struct
from collections.abc import Mapping
from pathlib import PurePosixPath

FOLDER, PROGRAM = 0o040755, 0o100755
DEVICE = 0o020600
CONSOLE = (5, 1)
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of a 64-bit ELF file
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD, NOTE = 1, 4


def archive(files: Mapping[str, bytes]) -> bytes:
    """`files` (path → contents) as an initramfs, with the console that a first process needs."""
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    folders = sorted(parents - {".", "dev"})  # a folder sorts before its contents
    entries = [
        _entry("dev", FOLDER, 1),
        _entry("dev/console", DEVICE, 2, device=CONSOLE),
        *(_entry(name, FOLDER, number) for number, name in enumerate(folders, start=3)),
        *(
            _entry(name, PROGRAM, number, data)
            for number, (name, data) in enumerate(files.items(), start=3 + len(folders))
        ),
        _entry("TRAILER!!!", 0, 0),
    ]
    return _padded(b"".join(entries), 512)


def _entry(
    name: str, mode: int, inode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    path = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(head + path, 4) + _padded(data, 4)


def _padded(data: bytes, to: int) -> bytes:
    return data + bytes(-len(data) % to)


def strip_elf(program: bytes) -> bytes:
    """The loaded part of an ELF program, with blank notes and without sections.

    Debug information holds the path of the sources, and the build id is a hash of it. Both would
    change the guest's memory, then the times of its ticks, and in the end its counts.
    """
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
