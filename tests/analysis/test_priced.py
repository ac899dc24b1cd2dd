# SPDX-License-Identifier: GPL-2.0-or-later
"""What the prices of events tell of a difference, and what is said where they tell nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.paths.cells import ExactCell, read_exact
from analysis.paths.changes import exact_pairs
from analysis.predict.upgrade import lines, priced_folder, upgrades
from analysis.raw.run import read_run
from analysis.report.priced import Priced, changed_times, difference
from probes.contract import BEYOND, PRICES, TOLD
from probes.messages import RunError, UsageError
from tests.analysis.test_events import TRUE, noisy, price_list
from tests.exact.test_analysis import BASE, TCP, write_run

EVENTS = {"executed": {"instructions": 1, "switches": 2}}
MORE = 1000
KNOB = {"name": "cgroup-memory", "what": "made up", "one": "", "number": None}
IN_A_GROUP = {"fingerprint": {"knob": KNOB["name"]}}
COUNTED: dict[str, Any] = {"events": EVENTS}


def test_a_gate_says_below_its_verdict_that_a_thousand_instructions_take_a_thousand_prices(
    tmp_path: Path,
) -> None:
    tree = {**TCP, f"{BASE};tcp_sendmsg": (2, 50 + MORE)}
    runs = [write_run(tmp_path / "a", **COUNTED), write_run(tmp_path / "b", tcp=tree, **COUNTED)]
    out = tmp_path / "gate"
    out.mkdir()
    (out / PRICES).write_text(json.dumps(price_list()))
    words = ["--diff", *map(str, runs), "--allowance=0", f"--out={out}", "--quiet"]
    assert main(words) == BEYOND
    said = (out / "gate.txt").read_text(encoding="utf-8").splitlines()
    below = said[next(n for n, line in enumerate(said) if line.startswith("FAIL")) + 1]
    assert below.startswith(f"About +{MORE * TRUE['instructions']:.0f} ns a round trip of tcp")
    assert not any("unix" in line for line in said if line.startswith("About"))


def test_a_gate_tells_what_was_counted_in_a_memory_control_group_where_the_prices_were(
    tmp_path: Path,
) -> None:
    cells = two_kernels(tmp_path)
    pairs = exact_pairs(cells[:2], cells[2:], lambda cell: cell.transport)
    (tmp_path / PRICES).write_text(json.dumps(price_list() | IN_A_GROUP))
    for name, more in (("against", 0), ("kernel", 2 * MORE)):
        tree = {**TCP, f"{BASE};tcp_sendmsg": (2, 50 + more)}
        write_run(tmp_path / TOLD / name, tcp=tree, knob=KNOB, **COUNTED)
    about, how = changed_times(tmp_path, pairs)
    assert about.startswith(f"About +{2 * MORE * TRUE['instructions']:.0f} ns")
    assert "Counted in a memory control group" in how
    uncharged = [cell.model_copy(update={"memory_groups": False}) for cell in cells]
    shutil.rmtree(tmp_path / TOLD)
    pairs = exact_pairs(uncharged[:2], uncharged[2:], lambda cell: cell.transport)
    about, how = changed_times(tmp_path, pairs)
    assert about.startswith(f"About +{MORE * TRUE['instructions']:.0f} ns")
    assert "built without them" in how


def two_kernels(folder: Path, **second: Any) -> tuple[ExactCell, ...]:
    """Exact cells of a kernel, and of one whose tcp_sendmsg takes MORE instructions more."""
    tree = {**TCP, f"{BASE};tcp_sendmsg": (2, 50 + MORE)}
    first = read_exact(read_run(write_run(folder / "first", **COUNTED)))
    other = read_exact(read_run(write_run(folder / "second", tcp=tree, **COUNTED | second)))
    return (*first, *(cell.model_copy(update={"kernel": "7.2.0"}) for cell in other))


def test_an_upgrade_takes_what_its_events_cost(tmp_path: Path) -> None:
    priced = made_up_prices(tmp_path)
    found = {each.pair.transport: each for each in upgrades(two_kernels(tmp_path), priced)}
    assert found["unix"].time.value == pytest.approx(0)
    assert found["tcp"].time.value == pytest.approx(MORE * TRUE["instructions"])
    text = "\n".join(lines([*found.values()], priced))
    assert "From Linux 6.12.0 to Linux 7.2.0" in text
    assert "about +400 ns" in text


def test_an_upgrade_without_counted_events_has_no_time(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no exact cell"):
        upgrades(two_kernels(tmp_path, events=None), made_up_prices(tmp_path))
    with pytest.raises(RunError, match="two kernels"):
        upgrades(two_kernels(tmp_path / "one")[:2], made_up_prices(tmp_path))


def made_up_prices(folder: Path) -> Priced:
    (folder / PRICES).write_text(json.dumps(price_list()))
    return priced_folder(folder)


@pytest.mark.parametrize(
    ("listed", "second", "said"),
    [
        (None, COUNTED, ""),
        (price_list() | {"kernel": None}, COUNTED, "no prices of events"),
        (price_list(events=None), COUNTED, "too few"),
        (price_list(), {"events": None}, "no exact cell"),
        (price_list() | IN_A_GROUP, COUNTED, "was not counted so"),
    ],
)
def test_a_gate_that_cannot_tell_a_time_says_so_in_one_sentence(
    listed: dict[str, Any] | None, second: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Without a list of prices it says nothing."""
    cells = two_kernels(tmp_path, **second)
    pairs = exact_pairs(cells[:2], cells[2:], lambda cell: cell.transport)
    if listed:
        (tmp_path / PRICES).write_text(json.dumps(listed))
    found = changed_times(tmp_path, pairs)
    assert len(found) == bool(listed)
    assert said in "".join(found)
    assert " ns" not in "".join(found)


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
