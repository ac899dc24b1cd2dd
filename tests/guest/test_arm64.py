# SPDX-License-Identifier: GPL-2.0-or-later
"""The exactness test in a guest of another architecture, with the function probes of one script."""

from pathlib import Path

import pytest

from probes.cell import CellRun, Pass, Plan
from runners.guest.kernels import DEFAULT
from tests.collected import Collected
from tests.guest import exactness
from tests.guest.conftest import run

pytestmark = [pytest.mark.guest, pytest.mark.matrix]


def test_arm64_counts_every_message_and_byte(tmp_path: Path) -> None:
    cells = exactness.chosen("--messages", str(exactness.FEW))
    runs = tuple(CellRun(number, cell, 0) for number, cell in enumerate(cells, 1))
    plan = Plan((Pass(("copies",), runs),), cell_timeout=300)
    collected = Collected(run(plan, f"{DEFAULT} arm64", ("unix", "tcp"), tmp_path))
    assert collected.missing == []
    assert len(collected.probed()) == len(cells)
    for cell in collected.probed():
        counts, payload = collected.counts(cell), cell["messages"] * cell["size"]
        assert counts["messages sent"] == counts["messages received"] == cell["messages"]
        assert counts["copy_bytes in"] == counts["copy_bytes out"] == payload
