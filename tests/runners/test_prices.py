# SPDX-License-Identifier: GPL-2.0-or-later
"""The prices of messages and events that the cache keeps, and those that a run times itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from probes.contract import PRICES
from runners.guest.store import read_json, write_json
from runners.programs import prices
from runners.programs.prices import Priced, empty_list, event_cells, for_report


def timed(cells: Sequence[Priced], us: float) -> list[dict[str, Any]]:
    return [cell.names | {"cold": cell.cold, "median_us": [us, us + 1]} for cell in cells]


def test_a_run_times_its_prices_itself_and_the_cache_keeps_the_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = list(event_cells())
    kept = timed(cells[:1], 5) + timed(cells[1:], 7)
    for number, cell in enumerate(kept):
        cell["events"] = {"executed": {"instructions": number}}
    write_json(tmp_path / PRICES, empty_list() | {"kernel": "6.12", "cells": kept})
    monkeypatch.setattr(prices, "measured", lambda cells: timed(cells, 6))
    found = for_report(tmp_path)
    assert {cell["median_us"][0] for cell in found["cells"]} == {6}
    counted = [cell["events"] for cell in found["cells"] if "events" in cell]
    assert (found["kernel"], counted) == ("6.12", [cell["events"] for cell in kept])
    after = read_json(tmp_path / PRICES)["cells"]
    assert [cell["median_us"][0] for cell in after] == [5, *(6 for _ in cells[1:])]
    assert [cell["events"] for cell in after] == counted


def test_without_counted_events_a_run_times_its_own_pair_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "measured", lambda cells: timed(cells, 6))
    found = for_report(tmp_path)
    assert "kernel" not in found
    assert {cell["transport"] for cell in found["cells"]} == {"unix", "tcp"}
