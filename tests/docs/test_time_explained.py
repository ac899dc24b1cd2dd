# SPDX-License-Identifier: GPL-2.0-or-later
"""The blind table's conditions, and the intervals that stored runs give."""

from analysis.times.events import BLIND, TOLD_TIMES
from tests.docs.time_explained import nearest, ratios


def test_intervals_are_of_the_stored_runs() -> None:
    assert BLIND.read_text(encoding="utf-8") == ratios().to_csv(sep="\t", index=False)


def test_counts_are_those_whose_switches_are_nearest_to_here() -> None:
    counted = [
        {"scheduler": name, "events": {"executed": {"switches": switches}}}
        for name, switches in (("other", 6), ("fifo", 2))
    ]
    told = TOLD_TIMES["one CPU"]
    assert [nearest(counted, told, here)[0] for here in (2.0, 5.5)] == ["fifo", "other"]
