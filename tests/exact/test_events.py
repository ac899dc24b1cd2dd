# SPDX-License-Identifier: GPL-2.0-or-later
"""What a round trip executes by what costs time, and its critical path on two CPUs."""

from array import array

import pytest

from probes.isa import USUAL
from runners.exact.count import measure
from runners.exact.events import HAND_OVERS, INSTRUCTIONS, STRING_BYTES, EventCounter
from runners.exact.guest import ExactGuest
from runners.exact.record import (
    COUNT_BITS,
    EVENT_BIT,
    KIND_SHIFT,
    CodeBlock,
    InstructionRecord,
    RecordEvent,
)
from runners.exact.replay import RunningTask, State
from runners.exact.symbols import Symbols
from tests.exact.conftest import cell_run

KERNEL = 0xFFFF_FFFF_8100_0000
SEND, WORK, FILL = "native_smp_send_reschedule", "work", "memset_orig"
AT = {name: KERNEL + number * 0x100 for number, name in enumerate((SEND, WORK, FILL))}
SYMBOLS = Symbols(USUAL, {address: name for name, address in AT.items()})
TASKS = {0: "client", 1: "server", 2: "swapper/0", 3: "swapper/1"}
NOP, LOCKED, MOVS = b"\x90", b"\xf0\x48\xff\x07", b"\xf3\x48\xa5"


def block(name: str, *codes: bytes) -> CodeBlock:
    return CodeBlock(AT[name], b"".join(codes), bytes(map(len, codes)))


BLOCKS = [
    CodeBlock(0, NOP, b"\x01"),
    block(SEND, NOP, NOP),
    block(WORK, NOP, LOCKED, NOP),
    block(FILL, b"\x48\x89\x07", b"\x48\x89\x47\x08", NOP),
    block(WORK, MOVS),
]
SENDS, WORKS, FILLS, COPIES = 1, 2, 3, 4


def runs(number: int) -> int:
    return number << COUNT_BITS | len(BLOCKS[number].lengths)


def event(kind: RecordEvent, value: int) -> int:
    return EVENT_BIT | kind << KIND_SHIFT | value


def counter(words: list[int]) -> EventCounter:
    record = InstructionRecord(array("I", words), BLOCKS, TASKS, {}, USUAL)
    return EventCounter(record, SYMBOLS)


@pytest.mark.parametrize(
    ("code", "kind", "size"),
    [
        ("f0480fb10f", "locked", 0),
        ("3e480fb10f", "locked", 0),  # as a kernel on one CPU has it
        ("488707", "locked", 0),  # xchg with memory
        ("4887c7", "", 0),  # of two registers
        ("24f0", "", 0),  # and $0xf0,%al
        ("0f05", "entries", 0),
        ("480f07", "returns", 0),
        ("48cf", "returns", 0),
        ("0f30", "msr_writes", 0),
        ("0f22df", "spaces", 0),
        ("0f22e0", "", 0),  # CR4
        ("f4", "halts", 0),
        ("f348a5", "", 8),
        ("f3a4", "", 1),
        ("f3aa", "", 1),
        ("4889a4", "", 0),
    ],
)
def test_class_of_instruction(code: str, kind: str, size: int) -> None:
    assert USUAL.class_of(bytes.fromhex(code)) == kind
    assert USUAL.string_bytes(bytes.fromhex(code)) == size


def test_string_instruction_counts_once_and_a_fill_counts_its_bytes() -> None:
    words = [runs(COPIES), runs(COPIES), event(RecordEvent.REPEAT, 5), runs(FILLS)]
    events = counter(words).steady(State(0, ((0, RunningTask(0, 0, 0)),)), words)
    assert events["executed"] == {INSTRUCTIONS: 1, STRING_BYTES: 7 * 8 + 16}


def test_critical_path_is_the_same_wherever_the_round_trip_is_cut() -> None:
    """Either CPU works once before it sends, and twice after it, which is not on the path."""
    on = [event(RecordEvent.CPU, cpu) for cpu in (0, 1)]
    task = [event(RecordEvent.SWITCH, number) for number in TASKS]
    before, after = [runs(WORKS), runs(SENDS)], [runs(WORKS), runs(WORKS)]
    first = [on[0], task[0], *before, *after, task[2]]
    second = [on[1], task[1], *before, *after, task[3]]
    words = [*first, *second]
    found = []
    for cut in range(1, len(words)):
        rotated = [*words[cut:], *words[:cut]]
        cpu = 0 if cut < len(first) else 1
        tasks = tuple((each, RunningTask(2 + each, 0, 0)) for each in (0, 1))
        found.append(counter(rotated).steady(State(cpu, tasks), rotated)["path"])
    assert found[0] == {
        INSTRUCTIONS: 2 * 3,
        "locked": 2,
        "switches": 2,
        HAND_OVERS: 2,
    }
    assert all(path == found[0] for path in found)


def test_events_of_a_cell_sum_to_its_round_trip(exact_guest: ExactGuest) -> None:
    window, _, _ = measure(exact_guest, cell_run("pipe"))
    calls = window.tree.by_function(window.steady.counts.calls)
    filled = window.tree.by_function(window.steady.counts.steps)[FILL]
    executed = window.events["executed"]
    assert executed[INSTRUCTIONS] == window.steady.counts.instructions - filled
    assert executed["entries"] == calls[USUAL.system_call] == 4
    assert executed["switches"] == calls[USUAL.switch]
