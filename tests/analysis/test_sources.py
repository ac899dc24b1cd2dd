# SPDX-License-Identifier: GPL-2.0-or-later
"""Which source speaks for a figure: what disturbs the scheduler least, or sees the most."""

from typing import Any

import pandas as pd
import pytest

from analysis.claims.judge import judge
from analysis.counts.ledger import best_first, build_ledgers
from tests.analysis.made_claims import PRESENT, claim

# Best first: target, whether probes were attached, who counted.
SOURCES = (
    ("host", False, "kernel"),
    ("host", True, "kernel"),
    ("host", True, "bpftrace"),
    ("guest", False, "kernel"),
    ("guest", True, "bpftrace"),
)


def figures(measure: str, sources: tuple[tuple[str, bool, str], ...]) -> pd.DataFrame:
    """A figure of each source for one cell: 1 of the first source, 2 of the second, …"""
    rows: list[dict[str, Any]] = []
    for place, (target, probed, instrument) in enumerate(sources, 1):
        for transport in ("unix", "tcp"):
            rows.append({
                "measure": measure, "transport": transport, "pattern": "pingpong", "size": 77,
                "conditions": "cross-cpu", "repeat": 0, "cell": len(rows), "target": target,
                "kernel": "9.9", "probed": probed, "instrument": instrument, "messages": 20,
                "probe_level": "function" if target == "guest" else "tracepoint",
                "valid": True, "value": float(place), "low": float(place), "high": float(place),
                "repeats": 1,
            })  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "measure",
    ["wakeups", "wakeups_readable", "spurious_wakeups", "migrations", "switches", "cpu_system"],
)
def test_what_depends_on_the_scheduler_comes_from_the_least_disturbed_source(measure: str) -> None:
    """However many sources there are, and whatever each probe can see."""
    for first in range(len(SOURCES)):
        rows = best_first(figures(measure, SOURCES[first:])).drop_duplicates("place")
        assert list(zip(rows["target"], rows["probed"], rows["instrument"], strict=True)) == list(
            SOURCES[first:]
        )


def test_what_does_not_comes_from_the_strongest_probe() -> None:
    best = build_ledgers(figures("skb_allocs", SOURCES), ())[0].row("skb_allocs")
    assert (best.target, best.instrument) == ("guest", "bpftrace")


@pytest.mark.parametrize("probed", [2.0, 3.93])
def test_a_row_of_cells_that_probes_make_switch_otherwise_says_so(probed: float) -> None:
    switches = figures("switches", SOURCES[:2])
    switches["value"] = switches["probed"].map({False: 2.0, True: probed})
    rows = pd.concat([switches, figures("wakeups", SOURCES[2:3])])
    ledger = build_ledgers(rows, ())[0]
    assert ("3.93 switches, 2.00 unprobed (unix" in ledger.row("wakeups").probed) == (probed > 2)
    assert ledger.row("switches").probed == ""


def test_the_least_disturbed_source_decides_a_verdict() -> None:
    """In guests TCP has no wake-up: that refutes nothing that the host has confirmed."""
    table = figures("wakeups", SOURCES[2:])
    table.loc[table["transport"] == "unix", "value"] = 0.0
    table.loc[table["target"] == "guest", "value"] = 0.0
    found = judge([claim(PRESENT, "wakeups")], table, [])[0]
    assert found.verdict == "CONFIRMED"
    assert {evidence.place["target"] for evidence in found.evidence} == {"host", "guest"}
    guests = judge([claim(PRESENT, "wakeups")], table[table["target"] == "guest"], [])[0]
    assert guests.verdict == "REFUTED"
