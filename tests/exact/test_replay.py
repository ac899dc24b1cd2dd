# SPDX-License-Identifier: GPL-2.0-or-later
"""The shadow stack, on records of a made-up kernel of a few functions."""

from array import array
from collections.abc import Mapping

import pytest

from probes.isa import USUAL, Jump
from runners.exact.digest import describe, iteration_lines, tree_lines
from runners.exact.iterations import RecordError, replay
from runners.exact.knobs import NOTHING
from runners.exact.record import (
    COUNT_BITS,
    EVENT_BIT,
    KIND_SHIFT,
    CodeBlock,
    InstructionRecord,
    RecordEvent,
)
from runners.exact.replay import Counts, NodeVisit, Replay, State
from runners.exact.symbols import Symbols
from tests.exact.conftest import cell_run

KERNEL = 0xFFFF_FFFF_8100_0000
NAMES = (
    *("entry_SYSCALL_64", "f", "g", "h", "__x86_indirect_thunk_rax"),
    *("asm_sysvec_tick", "tick", "asm_helper", "f.cold"),
)
AT = {name: KERNEL + number * 0x100 for number, name in enumerate(NAMES)}
SYMBOLS = Symbols(USUAL, {address: name for name, address in AT.items()})
CLIENT_RUNS = EVENT_BIT | RecordEvent.CLIENT_BEGIN << KIND_SHIFT
CALL, RETURN, SYSCALL, SYSRET, IRET = "call", "ret", "syscall", "sysret", "iret"
CODE = {
    CALL: b"\xff\xd0",
    RETURN: b"\xc3",
    SYSCALL: b"\x0f\x05",
    SYSRET: b"\x48\x0f\x07",
    IRET: b"\x48\xcf",
    "": b"\x90",
}


class RecordWriter:
    """Writes a record step by step."""

    def __init__(self) -> None:
        self.blocks = [CodeBlock(0, b"\x90", b"\x01")]
        self.words: array[int] = array("I")

    def run(self, function: str, end: str = "", offset: int = 0) -> None:
        """Run a block of one nop and what ends it; `offset` bytes into its function."""
        address = AT[function] + offset if function else 0x400000 + offset
        if end in AT:  # a direct call
            code = b"\xe8" + ((AT[end] - address - 6) % (1 << 32)).to_bytes(4, "little")
        else:
            code = CODE[end]
        block = CodeBlock(address, b"\x90" + code, bytes([1, len(code)]))
        if block not in self.blocks:
            self.blocks.append(block)
        self.words.append(self.blocks.index(block) << COUNT_BITS | 2)

    def event(self, event: RecordEvent, value: int = 0) -> None:
        self.words.append(EVENT_BIT | event << KIND_SHIFT | value)

    def record(self, marks: Mapping[int, int]) -> InstructionRecord:
        tasks = {0: "client", 1: "server"}
        return InstructionRecord(self.words, self.blocks, tasks, marks, USUAL)

    def replay(self) -> dict[str, tuple[int, int]]:
        """Path below the user's frame → (calls, steps): the same, wherever the words are cut."""
        machine = Replay(self.record({}), SYMBOLS)
        words = [CLIENT_RUNS, *self.words]
        _, counts = machine.run(State(), words)
        state, pieces = State(), Counts()
        for word in words:
            state, piece = machine.run(state, [word])
            pieces.add(piece)
        assert pieces == counts
        return by_path(machine, counts)


def by_path(machine: Replay, counts: Counts) -> dict[str, tuple[int, int]]:
    rows = [line.split("\t") for line in tree_lines(machine.tree, counts)[1:]]
    return {path.replace(";[user]", ""): (int(calls), int(steps)) for path, calls, steps, _ in rows}


@pytest.fixture
def machine() -> RecordWriter:
    """In the kernel, called from the entry point."""
    record = RecordWriter()
    record.run("", SYSCALL)
    record.run("entry_SYSCALL_64", CALL)
    return record


ENTRY = "client;entry_SYSCALL_64"
Step = tuple[str, str, int]  # function, what ends the block, where it begins
CALLED = [("f", CALL, 0), ("g", RETURN, 0), ("f", RETURN, 3), ("entry_SYSCALL_64", SYSRET, 3)]
TAIL_CALL = [("f", "", 0), ("h", RETURN, 0), ("entry_SYSCALL_64", "", 3)]
THUNK = "__x86_indirect_thunk_rax"
RETPOLINE = [("f", CALL, 0), (THUNK, CALL, 0), (THUNK, RETURN, 8), ("g", RETURN, 0), ("f", "", 3)]
TICK = "asm_sysvec_tick"
INTERRUPT = [("f", CALL, 0), (TICK, CALL, 0), ("tick", RETURN, 0), (TICK, IRET, 3),
             ("g", RETURN, 0), ("f", "", 3)]  # fmt: skip
MOVED_AWAY = [("f", "", 0), ("f.cold", "", 0)]
# No processor enters what a direct call leads to, whatever it is called.
HELPER = [("f", "asm_helper", 0), ("asm_helper", RETURN, 0), ("f", "", 6)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (CALLED, {"": (1, 4), ";f": (1, 4), ";f;g": (1, 2)}),
        (TAIL_CALL, {"": (1, 4), ";f": (1, 2), ";f;h": (1, 2)}),
        (RETPOLINE, {"": (1, 2), ";f": (1, 4), ";f;g": (1, 2)}),
        # It is under what it interrupted, and the call before the interrupt still counts.
        (INTERRUPT, {"": (1, 2), ";f": (1, 4), f";f;{TICK}": (1, 4), f";f;{TICK};tick": (1, 2),
                     ";f;g": (1, 2)}),
        (MOVED_AWAY, {"": (1, 2), ";f": (1, 4)}),
        (HELPER, {"": (1, 2), ";f": (1, 4), ";f;asm_helper": (1, 2)}),
    ],
    ids=["call", "tail call", "retpoline", "interrupt", "moved away", "helper"],
)  # fmt: skip
def test_who_called_whom(
    machine: RecordWriter, steps: list[Step], expected: dict[str, tuple[int, int]]
) -> None:
    for name, end, offset in steps:
        machine.run(name, end, offset)
    calls = machine.replay()
    calls.pop("client")
    thunk = {f"{ENTRY};f;{THUNK}": calls[f"{ENTRY};f;{THUNK}"]} if steps is RETPOLINE else {}
    assert calls == {f"{ENTRY}{path}": counts for path, counts in expected.items()} | thunk


def test_each_task_has_its_stack_and_a_sleeper_is_rooted_anew(machine: RecordWriter) -> None:
    machine.run("f", CALL)
    machine.run("g")
    machine.event(RecordEvent.SWITCH, 1)
    machine.run("h", RETURN)
    machine.run("f", RETURN, offset=3)
    machine.event(RecordEvent.SWITCH, 0)
    machine.run("g", RETURN, offset=2)
    machine.run("f", offset=3)
    result = machine.replay()
    assert result[f"{ENTRY};f;g"] == (1, 4)
    assert result[f"{ENTRY};f"] == (1, 4)
    assert result["server;f"] == (1, 2)


def test_a_block_in_two_parts_runs_once(machine: RecordWriter) -> None:
    machine.words.append(len(machine.blocks) << COUNT_BITS | 1)
    machine.blocks.append(CodeBlock(AT["f"], b"\x90\xc3", b"\x01\x01"))
    machine.event(RecordEvent.RESUME, 1)
    machine.words.append((len(machine.blocks) - 1) << COUNT_BITS | 1)
    machine.run("entry_SYSCALL_64", offset=3)
    result = machine.replay()
    assert result[f"{ENTRY};f"] == (1, 2)
    assert result[ENTRY] == (1, 4)


def test_repetitions_of_a_string_instruction_are_steps_of_one_instruction(
    machine: RecordWriter,
) -> None:
    machine.blocks.append(CodeBlock(AT["f"], b"\x90\xf3\xa4", b"\x01\x02"))
    machine.words.append((len(machine.blocks) - 1) << COUNT_BITS | 2)
    machine.blocks.append(CodeBlock(AT["f"] + 1, b"\xf3\xa4", b"\x02"))
    machine.words.append((len(machine.blocks) - 1) << COUNT_BITS | 1)
    machine.event(RecordEvent.REPEAT, 5)
    machine.replay()
    replayed = Replay(machine.record({}), SYMBOLS)
    order: list[NodeVisit] = []
    _, counts = replayed.run(State(), [CLIENT_RUNS, *machine.words], order)
    assert counts.steps.total() == 4 + 2 + 6
    assert counts.repeats.total() == 6
    assert [visit.instructions for visit in order] == [2, 2, 2, 0, 0]


def a_record(round_trips: int, extra_in: int, longer: tuple[int, ...] = ()) -> InstructionRecord:
    machine = RecordWriter()
    machine.event(RecordEvent.SERVER_BEGIN, 1)
    machine.event(RecordEvent.CLIENT_BEGIN, 0)
    machine.run("")
    for iteration in range(round_trips):
        machine.run("", SYSCALL, offset=16)
        machine.run("entry_SYSCALL_64", CALL)
        if iteration in longer:
            machine.run("f")
        machine.run("f", RETURN, offset=2 * (iteration in longer))
        if iteration == extra_in:
            machine.run("asm_sysvec_tick", IRET)
        machine.run("entry_SYSCALL_64", SYSRET, offset=3)
    machine.event(RecordEvent.CLIENT_END, 0)
    marks: dict[int, int] = {RecordEvent.CLIENT_END: 2 + round_trips * 8 + 2}
    return machine.record(marks)


def test_the_steady_iteration_is_the_most_frequent_and_the_tree_sums_to_the_window() -> None:
    window = replay(a_record(23, extra_in=7), SYMBOLS, 23)
    assert [(len(shape.iterations), shape.steps) for shape in window.shapes] == [(21, 8), (1, 10)]
    assert window.shapes[1].iterations == [7]
    assert window.total.steps.total() == window.counted


def test_a_windows_instructions_are_its_steps_without_repetitions() -> None:
    window = replay(a_record(23, extra_in=7), SYMBOLS, 23)
    window.total.repeats[0] = 5
    result = {"window_ns": 0, "clock_cost_ns": 0, "client": {}, "server": None}
    described = describe(cell_run("shm").cell, window, result, NOTHING)["window"]
    assert described == {"steps": window.counted, "instructions": window.counted - 5}


def after_the_servers_end(record: InstructionRecord, ends_last: bool) -> InstructionRecord:
    """The record, in which the server ends and then calls g, before or after the client's end."""
    words = record.words[:] if ends_last else record.words[:-1]
    machine = RecordWriter()
    machine.blocks, machine.words = record.blocks, words
    machine.event(RecordEvent.SWITCH, 1)
    machine.run("", SYSCALL)
    if ends_last:
        marks = {**record.marks, RecordEvent.SERVER_END: record.marks[RecordEvent.CLIENT_END] + 2}
        machine.event(RecordEvent.SERVER_END, 1)
        return machine.record(marks)
    machine.event(RecordEvent.SERVER_END, 1)
    machine.run("entry_SYSCALL_64", CALL)
    machine.run("g")
    machine.event(RecordEvent.SWITCH, 0)
    machine.event(RecordEvent.CLIENT_END, 0)
    marks = {RecordEvent.CLIENT_END: record.marks[RecordEvent.CLIENT_END] + 6}
    return machine.record(marks)


def test_what_the_server_calls_after_its_end_is_told_apart() -> None:
    window = replay(after_the_servers_end(a_record(23, 7), ends_last=False), SYMBOLS, 23)
    assert window.tree.by_function(window.total.calls)["g"] == 1
    assert window.tree.by_function(window.outside.calls)["g"] == 1
    assert window.tree.by_function(window.outside.calls)["f"] == 0
    assert window.total.steps.total() == window.counted


@pytest.mark.parametrize(("one_way", "later"), [(False, 0), (True, 2)])
def test_messages_that_go_one_way_belong_to_the_window_until_the_server_has_them(
    one_way: bool, later: int
) -> None:
    record = after_the_servers_end(a_record(23, 7), ends_last=True)
    window = replay(record, SYMBOLS, 23, one_way=one_way)
    assert window.counted == record.marks[RecordEvent.CLIENT_END] + later
    assert window.total.steps.total() == window.counted


def test_the_steady_iteration_is_kept_in_its_order() -> None:
    window = replay(a_record(23, extra_in=0), SYMBOLS, 23)
    paths = [line.split("\t")[0] for line in tree_lines(window.tree, window.steady.counts)]
    iteration = [line.split() for line in iteration_lines(window)[1:]]
    entry = "client;[user];entry_SYSCALL_64"
    assert [(paths[int(line)], int(steps)) for _, line, steps in iteration] == [
        ("client;[user]", 2),
        (entry, 2),
        (f"{entry};f", 2),
        (entry, 2),
    ]


def test_each_cpu_goes_on_with_its_own_task_and_its_own_call() -> None:
    machine = RecordWriter()
    machine.event(RecordEvent.CPU, 1)
    machine.event(RecordEvent.SWITCH, 1)
    machine.event(RecordEvent.CPU, 0)
    machine.run("", SYSCALL)
    machine.run("entry_SYSCALL_64", CALL)
    machine.event(RecordEvent.CPU, 1)
    machine.run("", SYSCALL)
    machine.run("entry_SYSCALL_64", CALL)
    machine.run("h")
    machine.event(RecordEvent.CPU, 0)
    machine.run("f")
    assert machine.replay() == {
        f"{task}{path}": counts
        for task, function in (("client", "f"), ("server", "h"))
        for path, counts in {
            "": (0, 2),
            ";entry_SYSCALL_64": (1, 2),
            f";entry_SYSCALL_64;{function}": (1, 2),
        }.items()
    }


def test_iterations_that_call_the_same_are_of_one_shape_whatever_their_branches_cost() -> None:
    (shape,) = replay(a_record(23, extra_in=-1, longer=(3, 5)), SYMBOLS, 23).shapes
    assert (len(shape.iterations), shape.identical) == (22, 20)
    assert (shape.least, shape.steps, shape.most) == (8, 8, 10)


def test_a_record_without_iterations_says_so() -> None:
    with pytest.raises(RecordError, match="once per iteration"):
        replay(a_record(23, extra_in=7), SYMBOLS, 29)


def test_an_instruction_is_classified_by_its_bytes() -> None:
    kinds = {
        Jump.CALL: ("e800000000", "ffd0", "41ffd3", "2ee800000000"),
        Jump.RETURN: ("c3", "f3c3"),
        Jump.IRET: ("48cf",),
        Jump.NONE: ("ffe0", "0f05", "480f07", "eb00", "ff", "90"),
    }
    for jump, codes in kinds.items():
        assert {USUAL.jump(bytes.fromhex(code)) for code in codes} == {jump}
