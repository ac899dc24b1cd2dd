# SPDX-License-Identifier: GPL-2.0-or-later
"""What is used again: a stored machine and a finished cell, while nothing they hang on changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runners.exact.cells import ExactCell
from runners.exact.knobs import find
from runners.exact.machine import boot, checkpoints
from runners.exact.machine.boot import EmulatedMachine
from runners.exact.machine.checkpoints import Checkpoints, CountedCell
from runners.exact.machine.guest import ExactGuest
from runners.exact.machine.symbols import Symbols
from runners.guest.cache import Cache
from runners.guest.kernels import Kernel
from runners.guest.qemu import Qemu
from runners.process import RunError

CELL = ExactCell(1, "unix", 64, "fifo")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmulatedMachine:
    """A machine of made-up files."""
    (tmp_path / "kernel").write_bytes(b"kernel")
    (tmp_path / "recorder.so").write_bytes(b"recorder")
    monkeypatch.setattr(checkpoints, "PLUGIN", tmp_path / "recorder.so")
    monkeypatch.setattr(boot, "programs", lambda: {"init": b"1"})
    qemu = Qemu(tmp_path, "10.0", "qemu-1")
    return EmulatedMachine(qemu, Kernel(tmp_path / "kernel", "6.12", "1", "kernel-1"))


def _newer_kernel(machine: EmulatedMachine, _: pytest.MonkeyPatch) -> EmulatedMachine:
    machine.kernel.file.write_bytes(b"newer kernel")
    return machine


def _other_program(machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> EmulatedMachine:
    monkeypatch.setattr(boot, "programs", lambda: {"init": b"2"})
    return machine


def _other_option(machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> EmulatedMachine:
    monkeypatch.setattr(boot, "MACHINE", (*boot.MACHINE, "-m", "1024"))
    return machine


def _with_image(machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> EmulatedMachine:
    monkeypatch.setattr(boot, "_with_symbols", lambda _: b"workload, with symbols")
    return replace(machine, image={"/tool": Path(__file__)})


CHANGES: dict[str, Callable[[EmulatedMachine, pytest.MonkeyPatch], EmulatedMachine]] = {
    "kernel": _newer_kernel,
    "program": _other_program,
    "QEMU option": _other_option,
    "QEMU": lambda old, _: replace(old, qemu=replace(old.qemu, version="10.1")),
    "CPU": lambda old, _: replace(old, cpu="EPYC"),
    "kernel option": lambda old, _: replace(old, knobs="mitigations=off"),
    "image": _with_image,
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_stored_machine_is_not_found_once_its_inputs_changed(
    machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    with Cache(tmp_path / "cache", lambda _: None) as cache:
        cache.entry("snapshot", machine.recipe(), lambda _: {})
        assert cache.find("snapshot", machine.recipe())
        assert not cache.find("snapshot", CHANGES[what](machine, monkeypatch).recipe())


class Counting:
    """Counts cells, and how often it was called."""

    def __init__(self, error: str | None = None, size: int = 4) -> None:
        self.calls = 0
        self._error = error
        self._tree = "t" * size

    def __call__(self, _guest: ExactGuest, cell: ExactCell) -> CountedCell:
        self.calls += 1
        return CountedCell({"id": cell.id, "error": self._error}, "tree", "iteration")


def _guest(machine: EmulatedMachine) -> ExactGuest:
    return ExactGuest(machine, Symbols([], []), "", Path("state"), machine.recipe())


def test_a_finished_cell_is_kept_until_its_run_is_whole(
    machine: EmulatedMachine, tmp_path: Path
) -> None:
    count = Counting()
    interrupted = Checkpoints(tmp_path)
    first = interrupted.get_or_count(_guest(machine), CELL, count)
    resumed = Checkpoints(tmp_path)
    assert resumed.get_or_count(_guest(machine), CELL, count) == first
    assert count.calls == 1
    resumed.forget()
    Checkpoints(tmp_path).get_or_count(_guest(machine), CELL, count)
    assert count.calls == 2


def test_another_cell_or_guest_is_counted(machine: EmulatedMachine, tmp_path: Path) -> None:
    count = Counting()
    kept = Checkpoints(tmp_path)
    for cell in (CELL, replace(CELL, warmup=2), replace(CELL, knob=find("tcp_timestamps=0"))):
        kept.get_or_count(_guest(machine), cell, count)
    kept.get_or_count(_guest(replace(machine, knobs="quiet")), CELL, count)
    assert count.calls == 4


@pytest.mark.parametrize("what", CHANGES)
def test_a_kept_cell_is_not_found_once_its_machine_changed(
    machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    count = Counting()
    Checkpoints(tmp_path).get_or_count(_guest(machine), CELL, count)
    changed = CHANGES[what](machine, monkeypatch)
    Checkpoints(tmp_path).get_or_count(_guest(changed), CELL, count)
    assert count.calls == 2


def test_a_kept_cell_is_not_found_once_the_recorder_changed(
    machine: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = Counting()
    recorder = tmp_path / "recorder.so"
    monkeypatch.setattr(checkpoints, "PLUGIN", recorder)
    for code in (b"1", b"2", b"2"):
        recorder.write_bytes(code)
        Checkpoints(tmp_path / "kept").get_or_count(_guest(machine), CELL, count)
    assert count.calls == 2


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda kept: kept.write_bytes(b""),
    "half": lambda kept: os.truncate(kept, kept.stat().st_size // 2),
    "not UTF-8": lambda kept: kept.write_bytes(b"\xff"),
    "another shape": lambda kept: kept.write_text('{"id": 1}'),
    "three numbers": lambda kept: kept.write_text("[1, 2, 3]"),
    "deep": lambda kept: kept.write_text("[" * 200_000),
    "another figure": lambda kept: kept.write_text(kept.read_text().replace("tree", "free")),
    "folder": lambda kept: (_moved(kept) / "below").mkdir(parents=True),
    "link": lambda kept: _moved(kept).symlink_to(kept.parents[1] / kept.name),
    "pipe": lambda kept: os.mkfifo(_moved(kept)),
}


def _moved(kept: Path) -> Path:
    kept.rename(kept.parents[1] / kept.name)
    return kept


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint_is_counted_and_kept_again(
    machine: EmulatedMachine, tmp_path: Path, what: str
) -> None:
    count, folder = Counting(), tmp_path / "kept"
    first = Checkpoints(folder).get_or_count(_guest(machine), CELL, count)
    (kept,) = folder.iterdir()
    DAMAGES[what](kept)
    for _ in range(2):
        assert Checkpoints(folder).get_or_count(_guest(machine), CELL, count) == first
    assert count.calls == 2
    assert list(folder.iterdir()) == [kept]


def test_what_is_old_goes_whatever_it_is(machine: EmulatedMachine, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    Checkpoints(folder).get_or_count(_guest(machine), CELL, Counting())
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("nothing")
    for path in folder.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)
    Checkpoints(folder)
    assert not list(folder.iterdir())


@pytest.mark.root
def test_a_full_cache_is_a_sentence(machine: EmulatedMachine, small_disk: Path) -> None:
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
    with pytest.raises(RunError, match=r"cannot keep .*No space left on device; make room"):
        Checkpoints(small_disk).get_or_count(_guest(machine), CELL, Counting(size=1 << 20))
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_failed_cell_is_not_kept(machine: EmulatedMachine, tmp_path: Path) -> None:
    count = Counting("it broke")
    for _ in range(2):
        Checkpoints(tmp_path).get_or_count(_guest(machine), CELL, count)
    assert count.calls == 2
