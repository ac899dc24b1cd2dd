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
from runners.process import RunError

CELL = ExactCell(1, "unix", 64, "fifo", messages=46, warmup=400)


def measured(monkeypatch: pytest.MonkeyPatch, digests: str, cpus: int) -> count.Runs:
    """What is believed when runs give these records in turn.

    Records of one letter, small or large, have the same steady iteration.
    """
    given: Iterator[str] = iter(digests)

    def record(_guest: Any, _cell: ExactCell, folder: Path, *_: Any) -> str:
        digest = next(given)
        (folder / "result.json").write_text(json.dumps({}))
        (folder / "steady").write_text(digest.lower())
        return digest

    def replay(_guest: Any, _cell: ExactCell, folder: Path) -> Any:
        return SimpleNamespace(tree=(folder / "steady").read_text())

    monkeypatch.setattr(count, "_record", record)
    monkeypatch.setattr(count, "_replay", replay)
    monkeypatch.setattr(count, "steady_lines", lambda window: [window.tree])
    machine = SimpleNamespace(cpus=cpus, user=None)
    guest: Any = SimpleNamespace(machine=machine, stored=Path("stored"), symbols=None)
    return count.measure(guest, CELL)[2]


def test_on_one_cpu_one_run_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, "ab", 1).records == ("a",)


@pytest.mark.parametrize(
    ("digests", "taken", "differing"),
    [("aa", 2, 0), ("aba", 3, 1), ("abb", 3, 1), ("aA", 2, 1), ("abA", 3, 2)],
)
def test_on_two_cpus_two_runs_have_one_steady_iteration_and_differing_records_are_told(
    monkeypatch: pytest.MonkeyPatch, digests: str, taken: int, differing: int
) -> None:
    runs = measured(monkeypatch, digests, 2)
    assert runs.records == tuple(digests[:taken])
    assert runs.fields() == {"record_sha256": digests[-1], "records": [taken, differing]}


def test_runs_that_never_agree_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="no two of 6 runs"):
        measured(monkeypatch, "abcdef", 2)
