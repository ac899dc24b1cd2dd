# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes cost, by the unprobed control."""

import pytest

from analysis.counts.measures import rows_of
from analysis.report.frames import probe_costs, probe_summary
from analysis.statistics import Estimate
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp


def test_probe_cost_on_the_host_has_times(analysed: Analyse) -> None:
    def probe_last_repeat(cell: Cell) -> None:
        if cell["repeat"] == 2:
            cell["instruments"], cell["scripts"] = ["bpftrace"], []

    made = MadeUp(
        rtt=lambda _t, _p, repeat: 777_000 if repeat == 2 else 111_000 + repeat,
        change=probe_last_repeat,
        guest=False,
    )
    costs = analysed(made).costs
    (cost,) = (c for c in rows_of(costs) if (c.transport, c.conditions) == ("unix", "same-cpu"))
    assert (cost.instruments, cost.scripts) == ("bpftrace", "")
    assert cost.rtt_without == Estimate(111_000.5, None, None, 2)
    assert cost.rtt_with == Estimate(777_000, 777_000, 777_000, 1)
    assert cost.added == pytest.approx((777_000 - 111_000.5) / 2)
    assert cost.switches_without == Estimate(3.0, 3.0, 3.0, 2)
    assert cost.switches_with == Estimate(3.0, 3.0, 3.0, 1)


def test_several_instruments_are_told_from_each_alone(analysed: Analyse) -> None:
    attached = {1: ["bpftrace", "perf"], 2: ["bpftrace"], 3: ["perf"]}

    def watch(cell: Cell) -> None:
        cell["instruments"] = attached.get(cell["repeat"], [])
        cell["scripts"] = []
        cell["bpf_programs"] = {name: {"runs": 40, "ns": 6000} for name in cell["instruments"][:1]}
        if cell["instruments"] == ["perf"]:
            cell["bpf_programs"] = {}

    made = MadeUp(
        rtt=lambda _t, _p, repeat: (100_000, 180_000, 140_000, 90_000)[repeat],
        repeats=4,
        change=watch,
        guest=False,
    )
    costs = list(rows_of(analysed(made).costs))
    cells = len({(cost.transport, cost.conditions) for cost in costs})
    assert [cost.instruments for cost in costs[::cells]] == ["bpftrace", "perf", "bpftrace, perf"]
    assert [cost.added for cost in costs[::cells]] == [20_000, -5_000, 40_000]
    # 5 events a message; and where nothing was added nothing is an event's.
    assert [cost.added_per_event for cost in costs[::cells]] == [4_000, None, 8_000]


@pytest.mark.parametrize(("took", "resolved"), [(100_004, False), (140_000, True)])
def test_an_addition_within_the_controls_interval_is_not_resolved(
    analysed: Analyse, took: int, resolved: bool
) -> None:
    """The controls take 100,000 to 100,007 ns. Probes also make the pair switch more often."""

    def probe_last_repeat(cell: Cell) -> None:
        if cell["repeat"] == 8:
            cell["instruments"], cell["scripts"] = ["bpftrace"], []

    made = MadeUp(
        rtt=lambda _t, _p, repeat: took if repeat == 8 else 100_000 + repeat,
        switches=lambda _t, _p, repeat: (4 if repeat == 8 else 3, 0),
        repeats=9,
        change=probe_last_repeat,
        guest=False,
    )
    costs = analysed(made).costs
    assert set(costs["resolved"]) == {resolved}
    assert set(probe_costs(costs)["added a message"].str.contains("not resolved")) == {not resolved}
    assert ("20.0 µs" in probe_summary(costs)) == resolved
