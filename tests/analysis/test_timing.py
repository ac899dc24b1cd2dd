# SPDX-License-Identifier: GPL-2.0-or-later
"""Times, ratios with their intervals, and what probes cost."""

import numpy as np
import pytest

from analysis.analyse import Analysis
from analysis.timing import interval
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp


def test_ratio_pairs_the_repeats(analysed: Analyse) -> None:
    """Repeat r: tcp takes r + 2 times as long as unix."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return 1000 * (repeat + 2 if transport == "tcp" else 1)

    regime = analysed(MadeUp(rtt=rtt)).regimes[0]
    (ratio,) = regime.ratios
    assert (ratio.slow, ratio.fast, ratio.value, ratio.repeats) == ("tcp", "unix", 3.0, 3)
    assert (ratio.low, ratio.high) == (2.0, 4.0)


def test_two_repeats_give_no_interval(analysed: Analyse) -> None:
    (ratio,) = analysed(MadeUp(repeats=2)).regimes[0].ratios
    assert (ratio.low, ratio.high) == (None, None)


def test_interval_holds_the_median_and_is_always_the_same() -> None:
    values = np.array([1.1, 1.2, 1.3, 1.4, 9.9])
    low, high = interval(values)
    assert low is not None
    assert high is not None
    assert low <= 1.3 <= high
    assert interval(values) == (low, high)


def test_no_p99_of_four_round_trips(plain: Analysis) -> None:
    latency = plain.regimes[0].latencies[0]
    assert latency.p50 is not None
    assert latency.p99 is None


def test_probe_cost_on_the_host_has_times(analysed: Analyse) -> None:
    def probe_last_repeat(cell: Cell) -> None:
        if cell["repeat"] == 2:
            cell["instruments"], cell["scripts"] = ["bpftrace"], []

    made = MadeUp(
        rtt=lambda _t, _p, repeat: 777_000 if repeat == 2 else 111_000,
        change=probe_last_repeat,
        guest=False,
    )
    costs = analysed(made).costs
    (cost,) = (c for c in costs if (c.transport, c.placement) == ("unix", "same-cpu"))
    assert cost.rtt_without == pytest.approx(111_000)
    assert cost.rtt_with == pytest.approx(777_000)
    assert (cost.switches_without, cost.switches_with) == (3.0, 3.0)


def test_probe_cost_in_a_guest_has_switches_only(plain: Analysis) -> None:
    guest = [cost for cost in plain.costs if cost.lane == "vm"]
    assert {cost.probes for cost in guest} == {"bpftrace (copies, others)", "ftrace"}
    assert {(cost.rtt_without, cost.rtt_with) for cost in guest} == {(None, None)}
    assert {(cost.switches_without, cost.switches_with) for cost in guest} == {(3.0, 3.0)}
