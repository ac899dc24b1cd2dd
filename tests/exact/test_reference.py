# SPDX-License-Identifier: GPL-2.0-or-later
"""The reference results are reproduced to the last instruction, or it is said what differs."""

from __future__ import annotations

import json
import warnings

import pytest

from runners.exact import reference
from runners.exact.cells import ExactCell
from runners.exact.count import measure
from runners.exact.machine.guest import ExactGuest
from tests.exact.conftest import REPOSITORY

FOLDER = REPOSITORY / "reports/reference/exact"


@pytest.mark.emulated
@pytest.mark.parametrize("cell", reference.cells(), ids=str)
def test_the_reference_is_reproduced(exact_guest: ExactGuest, cell: ExactCell) -> None:
    stored = json.loads((FOLDER / "environment.json").read_text(encoding="utf-8"))
    changes = reference.differing(stored, exact_guest.environment())
    expected = reference.read_table(FOLDER / f"{cell.transport}.tsv")
    now = reference.table(measure(exact_guest, cell)[0])
    apart = reference.difference(expected, now)
    if not changes:
        assert not apart
        return
    again = reference.table(measure(exact_guest, cell)[0])
    assert not reference.difference(now, again)
    total = sum(steps for _, steps in now.values()) - sum(steps for _, steps in expected.values())
    warnings.warn(
        f"{cell}: {total:+d} steps to the reference ({'; '.join(apart[:5]) or 'no function'}), "
        f"counted with other versions: {'; '.join(changes)}",
        stacklevel=1,
    )


def test_a_difference_is_told_by_function_the_largest_first() -> None:
    before = {"a": (1, 10), "b": (2, 20), "c": (1, 5)}
    after = {"a": (1, 10), "b": (4, 40), "d": (1, 1)}
    assert reference.difference(before, after) == [
        "b: calls 2 -> 4, steps 20 -> 40",
        "c: calls 1 -> 0, steps 5 -> 0",
        "d: calls 0 -> 1, steps 0 -> 1",
    ]


def test_other_versions_are_named() -> None:
    now = dict.fromkeys(reference.VERSIONS, "x") | {"sha256": {"init": "1", "workload": "2"}}
    assert reference.differing(now, now) == []
    old = now | {"qemu": "10", "sha256": {"init": "1", "workload": "3"}}
    assert reference.differing(old, now) == ["qemu: 10 -> x", "workload is a different build"]
