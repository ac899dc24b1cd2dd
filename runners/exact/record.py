# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the recorder wrote (probes/exact/README.md)."""

import enum
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

EVENT_BIT = 1 << 31
KIND_SHIFT, KIND_MASK, VALUE_MASK = 24, 0x7F, 0xFFFFFF
COUNT_BITS, COUNT_MASK = 10, 0x3FF
BLOCK = struct.Struct("<QHH")
CALL, CALL_SIZE = 0xE8, 5  # a direct call
STRING_OPCODES = frozenset({0xA4, 0xA5, 0xA6, 0xA7, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF})
REX = range(0x40, 0x50)
PREFIXES = bytes([0x2E, 0x3E, 0x65, 0x66, 0xF2, 0xF3, *REX])
USER_LIMIT = 1 << 47


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


class Jump(enum.Enum):
    """How a block ends, as far as it matters to a call stack."""

    NONE = enum.auto()  # it falls through, jumps, branches, or begins or ends a system call
    CALL = enum.auto()
    RETURN = enum.auto()
    IRET = enum.auto()


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

    def jump(self) -> Jump:
        return classify(self.instruction(-1))

    def target(self) -> int:
        """Return where a direct call at the block's end leads; 0 where its bytes do not say."""
        code = self.instruction(-1)
        if len(code) == CALL_SIZE and code[0] == CALL:
            return (self.end + int.from_bytes(code[1:], "little", signed=True)) % (1 << 64)
        return 0

    def repeats(self) -> bool:
        """Return whether the block begins with a string instruction that has a repeat prefix."""
        first = self.instruction(0)
        return first[0] in (0xF2, 0xF3) and first[-1] in STRING_OPCODES and len(first) <= 3


def classify(code: bytes) -> Jump:
    """Return the kind of one instruction, from its bytes."""
    rest = code.lstrip(PREFIXES)
    if rest[:1] == b"\xe8" or (rest[:1] == b"\xff" and rest[1:] and rest[1] >> 3 & 7 == 2):
        return Jump.CALL
    if rest[:1] in (b"\xc3", b"\xc2"):
        return Jump.RETURN
    return Jump.IRET if rest[:1] == b"\xcf" else Jump.NONE


@dataclass(frozen=True)
class InstructionRecord:
    """What ran, in order. Block numbers begin at 1; `blocks[0]` is a placeholder.

    `marks` has the instructions that the recorder had counted at each marker; none: 0.
    """

    words: "array[int]"
    blocks: list[CodeBlock]
    tasks: dict[int, str]
    marks: Mapping[int, int]


def read_record(folder: Path, copy: str = "") -> InstructionRecord:
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
    blocks = [CodeBlock(0, b"\x90", b"\x01")]
    at = 0
    while at < len(data):
        address, count, size = BLOCK.unpack_from(data, at)
        code = at + BLOCK.size
        lengths = code + size
        blocks.append(CodeBlock(address, data[code:lengths], data[lengths : lengths + count]))
        at = lengths + count
    return InstructionRecord(words, blocks, tasks, marks)
