# SPDX-License-Identifier: GPL-2.0-or-later
"""A program's calls, in a made-up record, and compared; programs that cannot be counted."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis.paths.bench import BenchRun, callgrind
from analysis.paths.bench_diff import BenchDiff
from analysis.paths.tree import Span
from analysis.raw.bench import Bench, CallRow, Sums
from analysis.raw.exact import ExactEnvironment
from probes.contract import BEYOND, UNTOLD, WITHIN
from probes.isa import USUAL
from runners.exact.bench import explained
from runners.exact.bench_calls import BenchReplay
from runners.exact.bench_files import find_bench
from runners.exact.bench_sums import BenchSums
from runners.exact.elf import UserCode, UserPlace
from runners.exact.iterations import RecordError
from runners.exact.record import InstructionRecord, RecordEvent
from runners.exact.symbols import Symbols
from runners.process import REPOSITORY, RunError, UsageError
from tests.exact.test_replay import AT as KERNEL_AT
from tests.exact.test_replay import CALL, IRET, RETURN, SYSCALL, SYSRET, RecordWriter

NAMES = {
    **{address: name for name, address in KERNEL_AT.items()},
    KERNEL_AT["f"]: "__x64_sys_write",
    KERNEL_AT["g"]: "wake_up_new_task",
    KERNEL_AT["h"]: "ret_from_fork_asm",
    KERNEL_AT["asm_helper"]: "__x64_sys_exit_group",
}
ENTRY, WRITE, BEGINS, BORN, EXIT = "entry_SYSCALL_64", "f", "g", "h", "asm_helper"
TICK = "asm_sysvec_tick"


class Code(UserCode):
    """User space in which `main` calls write() at 256, and each block is a function of its own."""

    def __init__(self) -> None:
        self.begins = set()
        self.places = Places()

    def is_own(self, place: UserPlace) -> bool:
        return place.function == "main"


class Places(dict[int, UserPlace]):
    def __missing__(self, number: int) -> UserPlace:
        return UserPlace(0, "main" if number % 2 else "write", False, False)


def call(record: RecordWriter, inside: str, *more: str) -> None:
    """A call from user space that runs a function of the kernel, and others in it."""
    record.run("", CALL, 0)
    record.run("", SYSCALL, 256)
    record.run(ENTRY, inside)
    for number, function in enumerate(more):
        record.run(inside, function, 6 * number)
        record.run(function, RETURN)
    record.run(inside, RETURN, 6 * len(more))
    record.run(ENTRY, SYSRET, 6)


def replayed(record: RecordWriter, *, ends: bool = True) -> BenchReplay:
    """Between the launcher's two markers."""
    words = record.words
    record.words = type(words)("I")
    record.event(RecordEvent.SERVER_BEGIN, 0)
    record.words.extend(words)
    steps = sum(word & 1023 for word in words if word < 1 << 31)
    if ends:
        record.event(RecordEvent.SWITCH, 5)
        record.run("", "", 512)
        record.event(RecordEvent.SERVER_END, 5)
        steps += 2
    made = InstructionRecord(
        record.words,
        record.blocks,
        {0: "bench", 1: "bench", 5: "launch"},
        {RecordEvent.SERVER_END: steps} if ends else {},
        USUAL,
    )
    return BenchReplay(made, Symbols(USUAL, NAMES), Code())


def rows(made: BenchReplay) -> list[tuple[Any, ...]]:
    names = ("whose", "call", "site", "calls", "kernel", "usual", "user_before")
    return [tuple(row[name] for name in names) for row in BenchSums(made).rows()]


def test_calls_are_told_apart_by_what_they_do() -> None:
    """Four writes are alike and one does more; a tick within one is none of its cost."""
    record = RecordWriter()
    call(record, WRITE)
    call(record, WRITE)
    call(record, WRITE, "__x86_indirect_thunk_rax")  # how a call is made is no difference
    call(record, WRITE, "tick")
    record.run("", CALL, 0)
    record.run("", SYSCALL, 256)
    record.run(ENTRY, WRITE)
    record.run(WRITE)
    record.run(TICK)
    record.run(TICK, IRET, 16)
    record.run(WRITE, RETURN, 2)
    record.run(ENTRY, SYSRET, 6)
    made = replayed(record)
    assert [row[:5] for row in rows(made)] == [
        ("program", "write", "main", 4, 6 + 6 + 10 + 8),
        ("program", "write", "main", 1, 10),
    ]
    assert BenchSums(made).by_owner()["program"]["interrupts"] == 4


def test_a_window_is_all_that_is_counted() -> None:
    record = RecordWriter()
    call(record, WRITE)
    record.event(RecordEvent.CLIENT_BEGIN, 0)
    call(record, WRITE)
    record.event(RecordEvent.CLIENT_END, 0)
    call(record, WRITE)
    made = replayed(record)
    assert (made.windows, [row[3] for row in rows(made)]) == (1, [1])


def test_a_child_is_the_programs_even_in_the_task_struct_of_another() -> None:
    """The first child exits; the second has its task_struct, and its own calls."""
    record = RecordWriter()
    for _ in range(2):
        call(record, WRITE, BEGINS)
        record.run("", CALL, 0)
        record.run("", SYSCALL, 256)
        record.run(ENTRY, WRITE)
        record.event(RecordEvent.SWITCH, 1)
        record.run(BORN)
        record.run("", CALL, 0)
        record.run("", SYSCALL, 256)
        record.run(ENTRY, EXIT)
        record.run(EXIT)
        record.event(RecordEvent.SWITCH, 0)
        record.run(WRITE, RETURN, 16)
        record.run(ENTRY, SYSRET, 6)
    made = replayed(record)
    assert BenchSums(made).by_owner()["program"]["tasks"] == 3
    assert sum(row[3] for row in rows(made) if row[1] == "exit_group") == 2
    assert {row[0] for row in rows(made)} == {"program"}


def test_a_record_that_ends_too_early_is_refused() -> None:
    record = RecordWriter()
    call(record, WRITE)
    with pytest.raises(RecordError, match="too often"):
        replayed(record, ends=False)


def test_callgrind_keeps_the_calls_of_two_functions_apart() -> None:
    entry = ("entry_SYSCALL_64", "do_syscall_64")
    spans = (
        Span(("program", "get", *entry, "__x64_sys_read"), 7, 1),
        Span(("program", "put", *entry, "__x64_sys_write"), 5, 1),
    )
    lines = callgrind(BenchRun(Path(), BENCH, spans)).splitlines()
    at = lines.index("fn=do_syscall_64'get")
    assert lines[at + 1 : at + 5] == ["0 0", "cfi=kernel", "cfn=__x64_sys_read", "calls=1 0"]
    assert lines[at + 6] == ""


def test_callgrind_has_each_instruction_once_in_a_function_that_calls_itself() -> None:
    spans = (
        Span(("program", "main"), 5),
        Span(("program", "main", "entry_SYSCALL_64", "f"), 7, 1),
        Span(("program", "main", "entry_SYSCALL_64", "f", "g"), 1, 1),
        Span(("program", "main", "entry_SYSCALL_64", "f", "g", "f"), 11, 2),
        Span(("program", "main", "entry_SYSCALL_64", "f", "g", "f", "g"), 13, 2),
    )
    lines = callgrind(BenchRun(Path(), BENCH, spans)).splitlines()
    at = lines.index("fn=f")
    assert lines[at : at + 5] == ["fn=f", "0 18", "cfi=kernel", "cfn=g", "calls=3 0"]
    assert lines[at + 5] == "0 25"  # g's 14, and the 11 of the f that it calls
    assert lines[-1] == "totals: 37"


def a_row(**changes: object) -> CallRow:
    usual: dict[str, Any] = dict.fromkeys(("site", "shape"), "") | {
        "whose": "program", "phase": "run", "call": "write", "shape_id": "a", "calls": 1000,
        "kernel": 2_000_000, "usual": 2000, "identical": 1000,
        "least": 2000, "most": 2000, "user_before": 0,
        "interrupts": 0,
    }  # fmt: skip
    return CallRow(**usual | changes)


SUMS = Sums(tasks=1, user=1, calls=1, kernel=1, interrupts=0)
MACHINE = ExactEnvironment(
    kernel="6.12", version="", package=None, qemu="10", cpu="qemu64", machine=(), command_line="",
    sha256={},
)  # fmt: skip
BENCH = Bench(
    format=1, name="a", pathcost="0", command=[], started="now", seconds=0, program=["./bench"],
    server=[], warm=False, knob="", environment=MACHINE, files={}, record_sha256="0", windows=0,
    steps=37, sums={"program": SUMS}, rows=[a_row()],
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "machine", "status"),
    [
        ({}, {}, WITHIN),
        ({"calls": 999, "kernel": 1_998_000}, {}, WITHIN),
        ({"calls": 1001}, {}, BEYOND),
        ({"usual": 2001}, {}, BEYOND),
        ({"shape_id": "b", "usual": 2001}, {}, BEYOND),
        ({"usual": 2001, "identical": 300}, {}, WITHIN),  # its cost varies by itself
        ({"kernel": 2_020_001}, {}, BEYOND),
        ({"kernel": 2_019_999, "most": 21_999}, {}, WITHIN),  # a tick
        ({"call": "poll", "shape_id": "b", "usual": 1}, {}, BEYOND),
        ({}, {"cpu": "max"}, UNTOLD),
    ],
)
def test_what_is_called_often_is_compared_to_the_digit(
    change: dict[str, Any], machine: dict[str, Any], status: int
) -> None:
    environment = BENCH.environment.model_copy(update=machine)
    after = BENCH.model_copy(update={"rows": [a_row(**change)], "environment": environment})
    runs = [BenchRun(Path(), about, ()) for about in (BENCH, after)]
    assert BenchDiff(runs[0], runs[1], tolerance=1).status == status


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no file"),
        (b"#!/bin/sh\n", "-- /bin/sh"),
        (b"text", "no ELF file"),
        (b"\x7fELF\x02\x01\x01", "damaged"),
        (b"\x7fELF\x01\x01\x01" + bytes(60), "64 bits"),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xb7\0" + bytes(60), "another architecture"),
    ],
)
def test_what_is_no_program_is_refused_in_a_sentence(
    content: bytes | None, says: str, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(0o755)
    with pytest.raises(UsageError, match=says):
        find_bench([str(program)], None, [], USUAL)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("/launch: the program ended by signal 4 (Illegal instruction)", "--knob cpu="),
        ("the record has no room for more tasks", "too many processes"),
        ("the guest did not finish within 300 s", "give it less"),
    ],
)
def test_a_failure_says_what_to_do(said: str, means: str) -> None:
    assert means in str(explained(RunError(said)))


PROGRAM = """
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>
int main(void)
{
	char data[64] = {0};
	int ends[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	if (!fork()) {
		for (int i = 0; i < 30; i++)
			read(ends[1], data, sizeof(data));
		_exit(0);
	}
	for (int i = 0; i < 30; i++)
		write(ends[0], data, sizeof(data));
	return wait(NULL) < 0;
}
"""


@pytest.mark.emulated
def test_a_programs_calls_are_those_that_it_makes(exact_guest: object, tmp_path: Path) -> None:
    """Twice the same, and within no tolerance of itself."""
    program = tmp_path / "bench"
    words = ["gcc", "-O2", "-static", "-x", "c", "-", "-o", str(program)]
    subprocess.run(words, input=PROGRAM.encode(), check=True)
    exact = [str(REPOSITORY / "runners/run.sh"), "exact", "--no-install", "--out"]
    for out, more in (("one", []), ("two", ["--against", str(tmp_path / "one")])):
        subprocess.run([*exact, str(tmp_path / out), *more, "--", str(program)], check=True)
    one, two = (json.loads((tmp_path / out / "bench.json").read_text()) for out in ("one", "two"))
    assert one["record_sha256"] == two["record_sha256"]
    own = [row for row in one["rows"] if row["whose"] == "program"]
    calls = {name: sum(row["calls"] for row in own if row["call"] == name) for name in CALLS}
    assert calls == CALLS
    tree = (tmp_path / "one/tree.tsv").read_text().splitlines()[1:]
    total = sum(int(line.split("\t")[3]) for line in tree)
    assert f"totals: {total}" in (tmp_path / "one/bench.callgrind").read_text()


CALLS = {"read": 30, "write": 30, "socketpair": 1, "clone": 1, "wait4": 1, "exit_group": 2}
