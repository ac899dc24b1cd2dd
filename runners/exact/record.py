# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the recorder wrote (probes/exact/README.md)."""

import enum
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.isa import Isa

EVENT_BIT = 1 << 31
KIND_SHIFT, KIND_MASK, VALUE_MASK = 24, 0x7F, 0xFFFFFF
COUNT_BITS, COUNT_MASK = 10, 0x3FF
BLOCK_HEAD = struct.Struct("<QHH")


class RecordEvent(enum.IntEnum):
    """The kind of a word with the event bit; its value is a count, a task, an offset, or a CPU."""

    REPEAT = 0
    SWITCH = 1
    SERVER_BEGIN = 2
    CLIENT_BEGIN = 3
    CLIENT_END = 4
    RESUME = 5
    CPU = 6
    SERVER_END = 7


def end_of_window(one_way: bool) -> RecordEvent:
    """The marker at which it ends: where messages go one way, the server has the last one."""
    return RecordEvent.SERVER_END if one_way else RecordEvent.CLIENT_END


def event_of(word: int) -> tuple[int, int]:
    """Kind and value of a word with the event bit."""
    return word >> KIND_SHIFT & KIND_MASK, word & VALUE_MASK


@dataclass(frozen=True)
class CodeBlock:
    """Code that QEMU translated as one unit. `lengths` has the size of each instruction."""

    address: int
    code: bytes
    lengths: bytes

    @property
    def end(self) -> int:
        """Return the address behind the block: where a call at its end returns to."""
        return self.address + len(self.code)

    def instruction(self, index: int) -> bytes:
        start = sum(self.lengths[:index])
        return self.code[start : start + self.lengths[index]]


@dataclass(frozen=True)
class InstructionRecord:
    """What ran, in order, on a machine of this architecture.

    Block numbers begin at 1; `blocks[0]` is a placeholder. `marks` has the instructions that the
    recorder had counted at each marker; none: 0.
    """

    words: "array[int]"
    blocks: list[CodeBlock]
    tasks: dict[int, str]
    marks: Mapping[int, int]
    isa: Isa


def read_record(folder: Path, isa: Isa, copy: str = "") -> InstructionRecord:
    """Return the record in `folder`, or what a copy of the machine added to it."""
    words: array[int] = array("I")
    words.frombytes((folder / f"trace{copy}").read_bytes())
    tasks: dict[int, str] = {}
    marks: dict[int, int] = {}
    text = (folder / f"tasks{copy}").read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        kind, number, name = line.split("\t")
        if kind == "task":
            tasks[int(number)] = name
        else:
            marks[int(number)] = int(name)
    data = (folder / f"blocks{copy}").read_bytes()
    blocks = [CodeBlock(0, b"\0", b"\x01")]
    at = 0
    while at < len(data):
        address, count, size = BLOCK_HEAD.unpack_from(data, at)
        code = at + BLOCK_HEAD.size
        lengths = code + size
        blocks.append(CodeBlock(address, data[code:lengths], data[lengths : lengths + count]))
        at = lengths + count
    return InstructionRecord(words, blocks, tasks, marks, isa)
