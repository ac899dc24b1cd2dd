# SPDX-License-Identifier: GPL-2.0-or-later
"""The atlas takes each figure from the best source that has it, and says where the answer turns."""

import pytest

from analysis.atlas import COLUMNS, Atlas, build_atlas, crossings
from analysis.choosing import choices, read_edges
from analysis.counts.ledger import Ledger, Line, Row
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.statistics import Estimate
from analysis.times.timing import Latency, Ratio, Times
from runners.cli import parse

NAMES = ("unix", "tcp", "pipe", "shm", "unix-seqpacket")
WHERE = "same-cpu"
MEASURES = [name for column in COLUMNS for name in column.measures]


def line(kernel: str, figures: dict[str, float], *, valid: bool = True) -> Line:
    entries = {
        (WHERE, name): Estimate(value, value, value, 1, valid) for name, value in figures.items()
    }
    return Line("exact", "exact-other", kernel, "function", probed=False, entries=entries)


def ledger(size: int, **lines: tuple[Line, ...]) -> Ledger:
    rows = tuple(Row(MEASURE_BY_ID[name], lines.get(name, ())) for name in MEASURES)
    return Ledger("pingpong", size, tuple((WHERE, name) for name in NAMES), rows)


def times(size: int, **medians: tuple[float, float]) -> Times:
    """Of each transport the median, and half the width of the interval of its ratio to unix."""
    latencies = {
        name: Latency(name, "9.9", Estimate(p50, None, None, 6), None, None, None, None, None)
        for name, (p50, _) in medians.items()
    }
    first = latencies["unix"]
    ratios = []
    for name, (p50, half) in medians.items():
        if name != "unix" and first.p50:
            ratio = p50 / first.p50.value
            around = Estimate(ratio, ratio - half, ratio + half, 6)
            ratios.append(Ratio(latencies[name], first, around, None))
    return Times("pingpong", size, WHERE, tuple(latencies.values()), tuple(ratios))


def two_sizes() -> tuple[Atlas, ...]:
    counted = (line("6.12", {"unix": 8000, "tcp": 14000, "pipe": 6000}),)
    return build_atlas(
        (ledger(64, instructions=counted), ledger(65536, instructions=counted)),
        (
            times(64, unix=(8000, 0), tcp=(13000, 0.1), pipe=(5000, 0.1), shm=(4000, 0.9)),
            times(65536, unix=(20000, 0), tcp=(30000, 0.1), pipe=(26000, 0.1), shm=(24000, 0.1)),
        ),
    )


def test_an_invalid_figure_makes_way_for_the_next_source() -> None:
    wrong = line("6.12", {"unix": 1, "tcp": 2}, valid=False)
    right = line("6.1", {"unix": 7000})
    (atlas,) = build_atlas((ledger(64, instructions=(wrong, right)),), ())
    assert [(entry.transport, entry.figures) for entry in atlas.entries] == [
        ("unix", {"instructions": 7000})
    ]
    assert atlas.kernels == {"6.12": {}, "6.1": {"unix": 7000}}


def test_a_few_transports_need_no_atlas() -> None:
    few = Ledger("pingpong", 64, tuple((WHERE, name) for name in NAMES[:4]), ())
    assert build_atlas((few,), ()) == ()


def test_only_what_the_intervals_tell_is_a_crossing() -> None:
    (found,) = crossings(two_sizes())
    assert (found.transport, found.than) == ("pipe", "unix")
    assert (found.faster, found.slower) == ((64,), (65536,))


def test_an_edge_has_the_figures_of_both_its_rows() -> None:
    found = {choice.edge.take: choice.reasons for choice in choices(two_sizes())}
    assert found["unix"][0] == (
        "64 B, on one CPU: a round trip takes 8.00 µs, 0.62 times TCP's 13.0 µs and a message "
        "executes 8,000 instructions, 0.57 times TCP's 14,000 instructions."
    )
    assert "unix-seqpacket" not in found  # nothing was measured of it


@pytest.mark.parametrize("edge", read_edges(), ids=lambda edge: edge.take)
def test_an_edge_leads_to_transports_that_there_are(edge: object) -> None:
    names = f"{edge.take},{edge.than}"  # type: ignore[attr-defined]
    assert parse(["--transports", names]).transports
