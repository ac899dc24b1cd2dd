# SPDX-License-Identifier: GPL-2.0-or-later
"""Without a boot: which cells are counted, when a record is believed or a machine used again."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from probes.cell import CellRun
from probes.isa import OTHER, STRING, USUAL
from runners.exact import count as counting
from runners.exact import machine as machines
from runners.exact.cells import impossible, plan
from runners.exact.digest import checks
from runners.exact.iterations import IterationShape, ReplayedWindow
from runners.exact.knobs import NOTHING, Knob
from runners.exact.machine import EmulatedMachine
from runners.exact.payload import spans
from runners.exact.replay import CallTree, Counts
from runners.exact.run import fast_cells
from runners.guest.kernels import Kernel
from runners.guest.qemu import Qemu
from runners.guest.store import Cache
from runners.process import RunError
from tests.exact.conftest import cell_run
from tests.options import run_options


def test_what_an_emulated_cpu_cannot_do_has_its_reason() -> None:
    runs = plan(["tcp", "tcp-ktls", "shm-spin"], [65536], schedulers=["fifo"])
    runs += plan(["unix"], [64], patterns=["paced", "clients"], schedulers=["fifo"])
    codes = [why.code if (why := impossible(run.cell)) else "" for run in runs]
    assert codes == ["", "emulator-aes", "emulator-slice", "emulator-clock", ""]


def test_beside_probes_large_messages_are_counted_once_and_those_between_never() -> None:
    runs = fast_cells(run_options(["--sizes", "64,4K,64K", "--transports", "tcp"]))
    assert sorted((run.cell.size, run.cell.sched) for run in runs) == [
        (64, "fifo"), (64, "other"), (65536, "other"),
    ]  # fmt: skip
    assert not fast_cells(run_options(["--patterns", "stream"]))


@pytest.mark.parametrize(
    ("counted", "nanoseconds", "agrees"),
    [
        (8_940_851, 8_940_751, True),  # with the two readings
        (8_940_851, 8_940_600, False),  # something else ran in between
        (8_940_751, 8_940_851, False),  # the clock went on, and nothing ran
        (210_995_962, 210_996_055, True),  # 6.12, whose clock is fast by a millionth
        (210_995_962, 210_996_955, False),
    ],
)
def test_a_window_agrees_with_the_guests_clock(
    counted: int, nanoseconds: int, agrees: bool
) -> None:
    steady = IterationShape(Counts(), [0], 1, 0, 0, ())
    window = ReplayedWindow(CallTree(), counted=counted, shapes=[steady])
    result = {"window_ns": nanoseconds, "clock_cost_ns": 72, "client": {}, "server": None}
    rows = checks(cell_run("shm").cell, window, result, NOTHING)
    holds = {name: ok for name, ok, _ in rows}
    assert holds["the window agrees with the guest's clock"] == agrees
    assert not holds["the tree's self counts sum to the window"], "it is empty"


@pytest.mark.parametrize(("pattern", "shown"), [("stream", True), ("pingpong", False)])
def test_a_knob_shows_in_the_window_of_a_pattern_whose_iteration_is_not_whole(
    pattern: str, shown: bool
) -> None:
    """The usual iteration of a stream fills a buffer; the functions of a knob empty it."""
    steady = IterationShape(Counts(), [0], 1, 0, 0, ())
    window = ReplayedWindow(CallTree(), shapes=[steady])
    window.total.calls[window.tree.child(0, "nft_do_chain")] = 3
    knob = Knob("loss", shows={"any": ["nft_do_chain"]})
    result = {"window_ns": 0, "clock_cost_ns": 0, "client": {"partial_sends": 0}, "server": None}
    rows = checks(cell_run("shm", pattern=pattern).cell, window, result, knob)
    assert [ok for name, ok, _ in rows if name.startswith("loss was in force")] == [shown]


def measured(monkeypatch: pytest.MonkeyPatch, records: str, cpus: int) -> tuple[str, ...]:
    """The records until one is believed. Those of one letter have the same steady iteration."""
    given: Iterator[str] = iter(records)

    def boot(_order: Any, folder: Path, *_: Any) -> None:
        record = next(given)
        (folder / "result.json").write_text(json.dumps({}))
        for name in counting.RECORD:
            (folder / name).write_text(record if name == "trace" else "")

    steady = SimpleNamespace(counts=None)

    def replayed(_guest: Any, _run: CellRun, folder: Path) -> Any:
        return SimpleNamespace(tree=(folder / "trace").read_text().lower(), steady=steady)

    monkeypatch.setattr(counting, "replay_record", replayed)
    monkeypatch.setattr(counting, "digest", lambda data: data.decode())
    monkeypatch.setattr(counting, "tree_lines", lambda tree, _: [tree])
    machine = SimpleNamespace(cpus=cpus)
    guest: Any = SimpleNamespace(machine=machine, stored=Path(), steps=(), boot=boot)
    return counting.measure(guest, cell_run())[2]


@pytest.mark.parametrize(
    ("cpus", "records", "taken"),
    [(1, "ab", 1), (2, "aa", 2), (2, "aba", 3), (2, "abb", 3), (2, "aA", 2), (2, "abA", 3)],
)
def test_on_two_cpus_two_runs_must_have_one_steady_iteration(
    monkeypatch: pytest.MonkeyPatch, cpus: int, records: str, taken: int
) -> None:
    assert measured(monkeypatch, records, cpus) == tuple(records[:taken])


def test_runs_that_never_agree_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="no two of 6 runs"):
        measured(monkeypatch, "abcdef", 2)


@pytest.mark.parametrize(
    ("code", "store", "register"),
    [
        ("f348a5", False, STRING),  # rep movsq
        ("f3a4", True, STRING),  # rep movsb
        ("4c8b06", False, 8),  # mov (%rsi),%r8
        ("4c8907", True, 8),  # mov %r8,(%rdi)
        ("8a06", False, 0),  # mov (%rsi),%al
        ("8807", True, 0),  # mov %al,(%rdi)
        ("0fb606", False, 0),  # movzbl (%rsi),%eax
        ("480306", False, OTHER),  # add (%rsi),%rax: a checksum's way to read
        ("4c8b06", True, OTHER),
        ("48ab", True, OTHER),  # stos
    ],
)
def test_who_carries_is_read_from_the_instruction(code: str, store: bool, register: int) -> None:
    assert USUAL.register_of(bytes.fromhex(code), store, False) == register


@pytest.mark.parametrize(
    ("ends", "is_message"),
    [
        ([(0x2871, 0x3000), (0x7000, 0x16871)], True),  # pages that are not neighbours
        ([(0x2871, 0x3001), (0x7001, 0x16871)], True),  # a move of 8 bytes began before their edge
        ([(0x2871, 0x12871)], True),
        ([(0x2871, 0x2971), (0x7010, 0x16F80)], False),  # neither a message nor a part of one
    ],
)
def test_a_message_may_lie_in_several_pages(ends: list[tuple[int, int]], is_message: bool) -> None:
    repeated = [byte for begin, end in ends for byte in range(begin, end)]
    assert spans(USUAL, repeated, 64 << 10) == (set(repeated) if is_message else set())


CHANGES: dict[str, Any] = {
    "qemu": Qemu(Path(), "10.1", "qemu-1"),
    "cpu": "EPYC",
    "cpus": 2,
    "knobs": "mitigations=off",
    "image": {"/tool": Path(__file__)},
}


@pytest.mark.parametrize("what", ["kernel", *CHANGES])
def test_no_stored_machine_is_used_again_once_its_inputs_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    file, cache = tmp_path / "kernel", Cache(tmp_path / "cache", lambda _: None)
    file.write_bytes(b"kernel")
    monkeypatch.setattr(machines, "programs", lambda _: {"init": b"1"})
    monkeypatch.setattr(machines, "_with_symbols", lambda *_: b"workload, with symbols")
    machine = EmulatedMachine(Qemu(tmp_path, "10.0", "qemu-1"), Kernel(file, "6.12", "1", "key"))
    cache.entry("snapshot", machine.recipe(), lambda _: {})
    assert cache.find("snapshot", machine.recipe())
    file.write_bytes(b"newer kernel" if what == "kernel" else b"kernel")
    changed = replace(machine, **{what: CHANGES[what]} if what in CHANGES else {})
    assert not cache.find("snapshot", changed.recipe())


def test_an_interrupt_ends_what_other_cells_are_in_the_middle_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their threads look at `stopping`; the interrupt would else wait for whole cells."""
    stopping = Event()
    monkeypatch.setattr(counting, "stopping", stopping)

    def count(_: Any, run: CellRun, *rest: Any) -> dict[str, Any]:
        if run.id == 1:
            raise KeyboardInterrupt
        assert stopping.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(counting, "count", count)
    guest: Any = SimpleNamespace(environment=dict, files=())
    work = [(guest, replace(cell_run("unix"), id=number)) for number in (1, 2)]
    with pytest.raises(KeyboardInterrupt):
        counting.count_cells(guest, work, tmp_path, lambda *_: None)
    assert stopping.is_set()
