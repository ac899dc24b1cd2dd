# SPDX-License-Identifier: GPL-2.0-or-later
"""What the prices of events tell of a difference, and what is said where they tell nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.report.priced import difference
from probes.contract import BEYOND, PRICES
from tests.analysis.test_events import TRUE, noisy, price_list
from tests.exact.test_analysis import BASE, TCP, write_run

EVENTS = {"executed": {"instructions": 1, "switches": 2}}
MORE = 1000
COUNTED = {"events": EVENTS}


def gate(folder: Path, listed: dict[str, Any] | None, first: Any, second: Any) -> list[str]:
    """What the gate says of two runs; in the second tcp_sendmsg takes MORE instructions more."""
    tree = {**TCP, f"{BASE};tcp_sendmsg": (2, 50 + MORE)}
    runs = [write_run(folder / "first", **first), write_run(folder / "second", tcp=tree, **second)]
    out = folder / "gate"
    out.mkdir()
    if listed:
        (out / PRICES).write_text(json.dumps(listed))
    words = ["--diff", *map(str, runs), "--allowance=0", f"--out={out}", "--quiet"]
    assert main(words) == BEYOND
    return (out / "gate.txt").read_text(encoding="utf-8").splitlines()


def test_a_thousand_instructions_more_take_a_thousand_prices(tmp_path: Path) -> None:
    lines = gate(tmp_path, price_list(), COUNTED, COUNTED)
    below = lines[next(n for n, line in enumerate(lines) if line.startswith("FAIL")) + 1]
    assert below.startswith(f"About +{MORE * TRUE['instructions']:.0f} ns a round trip of tcp")
    assert not any("unix" in line for line in lines if line.startswith("About"))


@pytest.mark.parametrize(
    ("listed", "second", "said"),
    [
        (None, COUNTED, ""),
        (price_list() | {"kernel": None}, COUNTED, "no prices of events"),
        (price_list(events=None), COUNTED, "too few"),
        (price_list(), {}, "no exact cell"),
    ],
)
def test_a_gate_that_cannot_tell_a_time_says_so_once_and_judges_as_before(
    listed: dict[str, Any] | None, second: Any, said: str, tmp_path: Path
) -> None:
    text = "\n".join(gate(tmp_path, listed, COUNTED, second))
    assert "About" not in text
    assert text.count("is not told") == bool(listed)
    assert said in text


def test_an_interval_of_a_difference_holds_it() -> None:
    """Of 200 machines, whose price cells are off by 5 %: what is alike in both adds nothing."""
    before = {"instructions": 90_000, "string_bytes": 5_000, "switches": 2}
    after = before | {"instructions": 91_000}
    true = 1_000 * TRUE["instructions"]
    found = [difference(noisy(seed), before, after) for seed in range(200)]
    held = sum(time.spans(true) for time in found)
    assert held >= 180
    assert np.median([time.ends[1] - time.ends[0] for time in found]) < true / 2
    assert [difference(noisy(0), after, before).value] == [-found[0].value]
