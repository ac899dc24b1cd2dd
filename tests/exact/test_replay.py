# SPDX-License-Identifier: GPL-2.0-or-later
"""The shadow stack, on records of a made-up kernel of a few functions."""

from __future__ import annotations

from array import array

import pytest

from runners.exact.digest import iteration_lines, tree_lines
from runners.exact.iterations import RecordError, replay
from runners.exact.record import (
    COUNT_BITS,
    EVENT_BIT,
    KIND_SHIFT,
    CodeBlock,
    InstructionRecord,
    Jump,
    RecordEvent,
    Symbols,
    classify,
)
from runners.exact.replay import Counts, NodeVisit, Replay, State

KERNEL = 0xFFFF_FFFF_8100_0000
NAMES = (
    *("entry_SYSCALL_64", "f", "g", "h", "__x86_indirect_thunk_rax"),
    *("asm_sysvec_tick", "tick", "asm_helper", "f.cold"),
)
AT = {name: KERNEL + number * 0x100 for number, name in enumerate(NAMES)}
SYMBOLS = Symbols(list(AT.values()), list(AT))
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

    def run(self, where: str, end: str = "", offset: int = 0) -> None:
        """Run a block of one nop and what ends it; `offset` bytes into its function."""
        code = CODE[end]
        address = AT[where] + offset if where else 0x400000 + offset
        block = CodeBlock(address, b"\x90" + code, bytes([1, len(code)]))
        if block not in self.blocks:
            self.blocks.append(block)
        self.words.append(self.blocks.index(block) << COUNT_BITS | 2)

    def call_direct(self, where: str, target: str, offset: int = 0) -> None:
        address = AT[where] + offset
        relative = (AT[target] - address - 6) % (1 << 32)
        code = b"\x90\xe8" + relative.to_bytes(4, "little")
        self.blocks.append(CodeBlock(address, code, b"\x01\x05"))
        self.words.append((len(self.blocks) - 1) << COUNT_BITS | 2)

    def event(self, event: RecordEvent, value: int = 0) -> None:
        self.words.append(EVENT_BIT | event << KIND_SHIFT | value)

    def replay(self) -> dict[str, tuple[int, int]]:
        """Path below the user's frame → (calls, steps): the same, wherever the words are cut."""
        machine = Replay(self.blocks, {0: "client", 1: "server"}, SYMBOLS)
        words = [CLIENT_RUNS, *self.words]
        _, whole = machine.run(State(), words)
        state, pieces = State(), Counts()
        for word in words:
            state, counts = machine.run(state, [word])
            pieces.add(counts)
        assert pieces == whole
        return found(machine, whole)


def found(machine: Replay, counts: Counts) -> dict[str, tuple[int, int]]:
    rows = [line.split("\t") for line in tree_lines(machine.tree, counts)[1:]]
    return {path.replace(";[user]", ""): (int(calls), int(steps)) for path, calls, steps, _ in rows}


@pytest.fixture
def machine() -> RecordWriter:
    """In the kernel, in `f`, called from the entry point."""
    record = RecordWriter()
    record.run("", SYSCALL)
    record.run("entry_SYSCALL_64", CALL)
    return record


ENTRY = "client;entry_SYSCALL_64"


def test_a_call_returns_to_its_caller(machine: RecordWriter) -> None:
    machine.run("f", CALL)
    machine.run("g", RETURN)
    machine.run("f", RETURN, offset=3)
    machine.run("entry_SYSCALL_64", SYSRET, offset=3)
    machine.run("", offset=8)
    assert machine.replay() == {
        "client": (0, 4),
        ENTRY: (1, 4),
        f"{ENTRY};f": (1, 4),
        f"{ENTRY};f;g": (1, 2),
    }


def test_a_tail_call_ends_with_its_caller(machine: RecordWriter) -> None:
    machine.run("f")
    machine.run("h", RETURN)
    machine.run("entry_SYSCALL_64", offset=3)
    assert machine.replay()[f"{ENTRY};f;h"] == (1, 2)
    assert machine.replay()[ENTRY] == (1, 4)


def test_a_retpoline_leaves_no_frame(machine: RecordWriter) -> None:
    machine.run("f", CALL)
    machine.run("__x86_indirect_thunk_rax", CALL)
    machine.run("__x86_indirect_thunk_rax", RETURN, offset=8)
    machine.run("g", RETURN)
    machine.run("f", offset=3)
    result = machine.replay()
    assert result[f"{ENTRY};f;g"] == (1, 2)
    assert result[f"{ENTRY};f"] == (1, 4)


def test_an_interrupt_is_under_what_it_interrupted_and_resumes_it(machine: RecordWriter) -> None:
    machine.run("f", CALL)
    machine.run("asm_sysvec_tick", CALL)
    machine.run("tick", RETURN)
    machine.run("asm_sysvec_tick", IRET, offset=3)
    machine.run("g", RETURN)
    machine.run("f", offset=3)
    result = machine.replay()
    assert result[f"{ENTRY};f;asm_sysvec_tick;tick"] == (1, 2)
    assert result[f"{ENTRY};f;g"] == (1, 2)  # the call before the interrupt still counts
    assert result[f"{ENTRY};f"] == (1, 4)


def test_a_helper_called_asm_is_no_interrupt(machine: RecordWriter) -> None:
    machine.call_direct("f", "asm_helper")
    machine.run("asm_helper", RETURN)
    machine.run("f", offset=6)
    result = machine.replay()
    assert result[f"{ENTRY};f;asm_helper"] == (1, 2)
    assert result[f"{ENTRY};f"] == (1, 4)


def test_the_part_that_the_compiler_moved_away_is_the_function(machine: RecordWriter) -> None:
    machine.run("f")
    machine.run("f.cold")
    assert machine.replay()[f"{ENTRY};f"] == (1, 4)


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


def test_repetitions_of_a_string_instruction_are_steps_of_one_instruction() -> None:
    machine = RecordWriter()
    machine.run("", SYSCALL)
    machine.run("entry_SYSCALL_64", CALL)
    machine.blocks.append(CodeBlock(AT["f"], b"\x90\xf3\xa4", b"\x01\x02"))
    machine.words.append((len(machine.blocks) - 1) << COUNT_BITS | 2)
    machine.blocks.append(CodeBlock(AT["f"] + 1, b"\xf3\xa4", b"\x02"))
    machine.words.append((len(machine.blocks) - 1) << COUNT_BITS | 1)
    machine.event(RecordEvent.REPEAT, 5)
    machine.replay()
    replayed = Replay(machine.blocks, {0: "client"}, SYMBOLS)
    order: list[NodeVisit] = []
    _, counts = replayed.run(State(), [CLIENT_RUNS, *machine.words], order)
    assert counts.steps.total() == 4 + 2 + 6
    assert counts.repeats.total() == 6
    assert [visit.instructions for visit in order] == [2, 2, 2]


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
    return InstructionRecord(machine.words, machine.blocks, {0: "client", 1: "server"}, marks)


def test_the_steady_iteration_is_the_most_frequent_and_the_tree_sums_to_the_window() -> None:
    window = replay(a_record(23, extra_in=7), SYMBOLS, 23)
    assert [(len(shape.iterations), shape.steps) for shape in window.shapes] == [(21, 8), (1, 10)]
    assert window.shapes[1].iterations == [7]
    assert window.total.steps.total() == window.counted


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
        return InstructionRecord(words, machine.blocks, record.tasks, marks)
    machine.event(RecordEvent.SERVER_END, 1)
    machine.run("entry_SYSCALL_64", CALL)
    machine.run("g")
    machine.event(RecordEvent.SWITCH, 0)
    machine.event(RecordEvent.CLIENT_END, 0)
    marks = {RecordEvent.CLIENT_END: record.marks[RecordEvent.CLIENT_END] + 6}
    return InstructionRecord(words, machine.blocks, record.tasks, marks)


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


@pytest.mark.parametrize(
    ("code", "jump"),
    [
        ("e800000000", Jump.CALL),
        ("ffd0", Jump.CALL),
        ("41ffd3", Jump.CALL),
        ("2ee800000000", Jump.CALL),
        ("ffe0", Jump.NONE),
        ("c3", Jump.RETURN),
        ("f3c3", Jump.RETURN),
        ("0f05", Jump.NONE),
        ("480f07", Jump.NONE),
        ("48cf", Jump.IRET),
        ("eb00", Jump.NONE),
        ("ff", Jump.NONE),
        ("90", Jump.NONE),
    ],
)
def test_an_instruction_is_classified_by_its_bytes(code: str, jump: Jump) -> None:
    assert classify(bytes.fromhex(code)) is jump
