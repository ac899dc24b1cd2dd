# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell's record is believed when a second run gives it too, where QEMU may skip too far."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.exact import count
from runners.exact.cells import ExactCell
from runners.guest import GuestError

CELL = ExactCell(1, "unix", 64, "fifo", messages=46, warmup=400)


def measured(monkeypatch: pytest.MonkeyPatch, digests: str, cpus: int) -> tuple[str, int]:
    """The digest that is believed when runs give these in turn, and how many runs it took."""
    given: Iterator[str] = iter(digests)
    taken: list[str] = []

    def record(_guest: Any, _cell: ExactCell, folder: Path, *_: Any) -> str:
        taken.append(next(given))
        (folder / "result.json").write_text(json.dumps({}))
        return taken[-1]

    monkeypatch.setattr(count, "_record", record)
    monkeypatch.setattr(count, "read_record", lambda folder: folder)
    monkeypatch.setattr(count, "replay", lambda *_: None)
    machine = SimpleNamespace(cpus=cpus, user=None)
    guest: Any = SimpleNamespace(machine=machine, stored=Path("stored"), symbols=None)
    digest = count.measure(guest, CELL)[2]
    return digest, len(taken)


def test_on_one_cpu_one_run_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, "ab", 1) == ("a", 1)


@pytest.mark.parametrize(
    ("digests", "believed"), [("aa", ("a", 2)), ("aba", ("a", 3)), ("abb", ("b", 3))]
)
def test_on_two_cpus_two_runs_agree(
    monkeypatch: pytest.MonkeyPatch, digests: str, believed: tuple[str, int]
) -> None:
    assert measured(monkeypatch, digests, 2) == believed


def test_runs_that_never_agree_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GuestError, match="no two of 6 runs"):
        measured(monkeypatch, "abcdef", 2)
