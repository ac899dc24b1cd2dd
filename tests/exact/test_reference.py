# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact counts of the reference run are made again: the record is equal, word for word.

They hold for the versions in its environment.json; with others the test says which differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runners.exact.cells import plan
from runners.exact.count import measure
from runners.exact.machine.guest import ExactGuest


@pytest.fixture(scope="session")
def counted(reference_exact: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Transport and scheduling → line of cells.jsonl."""
    lines = (reference_exact / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    return {(cell["transport"], cell["scheduling"]): cell for cell in map(json.loads, lines)}


@pytest.mark.emulated
@pytest.mark.parametrize("cell", plan(("unix", "tcp"), (64,)), ids=str)
def test_the_reference_is_reproduced(
    exact_guest: ExactGuest,
    reference_exact: Path,
    counted: dict[tuple[str, str], dict[str, Any]],
    cell: Any,
) -> None:
    stored = json.loads((reference_exact / "environment.json").read_text(encoding="utf-8"))
    now = exact_guest.environment()
    if other := [key for key in now if stored.get(key) != now[key]]:
        pytest.skip(f"the reference was counted with another {', '.join(other)}")
    assert (
        measure(exact_guest, cell)[2].records[-1]
        == counted[cell.transport, cell.scheduling]["record_sha256"]
    )
