# SPDX-License-Identifier: GPL-2.0-or-later
"""A boot that hangs: two emulated CPUs are booted again with another word; one is told apart."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runners.exact.machine import guest
from runners.exact.machine.boot import READY, EmulatedMachine
from runners.exact.machine.guest import BOOTS, CONSOLE, FIRST_PROGRAM, ready_guest
from runners.exact.machine.snapshot import WORK
from runners.guest.cache import Cache
from runners.guest.errors import HangError

HUNG = "the guest's kernel printed nothing in 120 s"
LOUD = ["[    0.1] starting"]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernel options of each boot. The first two boots hang, unless they have time."""
    knobs: list[str] = []

    def boot(_cache: Cache, machine: EmulatedMachine, work: float | None = WORK) -> str:
        knobs.append(machine.knobs)
        if len(knobs) < len(BOOTS[:3]) and work:
            raise HangError(HUNG)
        return "ready"

    monkeypatch.setattr(guest, "_ready", boot)
    monkeypatch.setattr(EmulatedMachine, "recipe", lambda machine: {"knobs": machine.knobs})
    return knobs


def machine(cpus: int) -> EmulatedMachine:
    return EmulatedMachine(cast(Any, SimpleNamespace()), cast(Any, SimpleNamespace()), cpus=cpus)


def ready(folder: Path, monkeypatch: pytest.MonkeyPatch, loud: list[str], cpus: int = 1) -> Any:
    """Boot, where a boot with all messages prints the lines `loud`."""
    monkeypatch.setattr(guest, "last_words", lambda _machine: loud)
    with Cache(folder, lambda _: None) as cache:
        return ready_guest(cache, machine(cpus))


def test_two_cpus_that_hang_are_booted_with_the_next_word(
    tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ready(tmp_path, monkeypatch, LOUD, cpus=2) == "ready"
    assert tried == list(BOOTS[:3])


def test_one_cpu_that_hangs_is_not_booted_again(
    tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HangError, match="printed nothing in 120 s") as told:
        ready(tmp_path, monkeypatch, LOUD)
    assert tried == [""]
    assert told.value.console == tuple(LOUD)


def test_one_that_comes_to_its_first_program_is_slow_and_has_its_time(
    tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ready(tmp_path, monkeypatch, [*LOUD, READY]) == "ready"
    assert tried == ["", ""]


def test_one_without_a_console_lacks_an_option(
    tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud = ["[    0.1] printk: bootconsole [earlyser0] enabled", f"[    0.2] {FIRST_PROGRAM}"]
    with pytest.raises(HangError, match="CONFIG_SERIAL_8250_CONSOLE") as told:
        ready(tmp_path, monkeypatch, loud)
    assert told.value.console == tuple(loud)
    tried.clear()
    with pytest.raises(HangError, match="printed nothing"):
        ready(tmp_path, monkeypatch, [f"[    0.1] printk: {CONSOLE}", *loud])
