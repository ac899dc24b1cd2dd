# SPDX-License-Identifier: GPL-2.0-or-later
"""A boot that hangs: two emulated CPUs are booted again with another word, one is not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runners.exact.machine import guest
from runners.exact.machine.boot import EmulatedMachine
from runners.exact.machine.guest import BOOTS, ready_guest
from runners.guest.cache import Cache
from runners.guest.errors import HangError, SilentError

HUNG = "the guest's kernel printed nothing in 120 s"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernel options of each boot. The first two boots hang."""
    knobs: list[str] = []

    def boot(_cache: Cache, machine: EmulatedMachine) -> str:
        knobs.append(machine.knobs)
        if len(knobs) < len(BOOTS[:3]):
            raise (SilentError, HangError)[len(knobs) - 1](HUNG)  # the second has printed a line
        return "ready"

    monkeypatch.setattr(guest, "_ready", boot)
    monkeypatch.setattr(guest, "last_words", lambda _machine: ["[    0.1] starting"])
    monkeypatch.setattr(EmulatedMachine, "recipe", lambda machine: {"knobs": machine.knobs})
    return knobs


def machine(cpus: int) -> EmulatedMachine:
    return EmulatedMachine(cast(Any, SimpleNamespace()), cast(Any, SimpleNamespace()), cpus=cpus)


def test_two_cpus_that_hang_are_booted_with_the_next_word(tried: list[str], tmp_path: Path) -> None:
    with Cache(tmp_path, lambda _: None) as cache:
        assert cast(Any, ready_guest(cache, machine(2))) == "ready"
    assert tried == list(BOOTS[:3])


def test_one_cpu_that_hangs_is_not_booted_again(tried: list[str], tmp_path: Path) -> None:
    with Cache(tmp_path, lambda _: None) as cache, pytest.raises(SilentError) as told:
        ready_guest(cache, machine(1))
    assert tried == [""]
    assert told.value.console == ("[    0.1] starting",)
