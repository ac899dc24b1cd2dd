# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes cost, by the unprobed twin."""

import pytest

from analysis.analyse import Analysis
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp


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


def test_programs_have_times_on_the_host_only(analysed: Analyse) -> None:
    def ran(cell: Cell) -> None:
        if cell["repeat"] == 2:
            cell["instruments"], cell["scripts"] = ["bpftrace"], []
        if cell["instruments"] == ["bpftrace"]:
            cell["programs"] = {"bpftrace": {"runs": 40, "ns": 6000}, "bcc": {"runs": 0, "ns": 0}}

    costs = [cost for cost in analysed(MadeUp(change=ran)).costs if cost.probes != "ftrace"]
    assert {cost.lane for cost in costs} == {"host", "vm"}
    for cost in costs:
        (programs,) = cost.programs
        assert (programs.instrument, programs.runs) == ("bpftrace", 5)  # 8 messages
        assert programs.ns == (150 if cost.lane == "host" else None)


def test_probe_cost_in_a_guest_has_switches_only(plain: Analysis) -> None:
    guest = [cost for cost in plain.costs if cost.lane == "vm"]
    assert {cost.probes for cost in guest} == {"bpftrace (copies, others)", "ftrace"}
    assert {(cost.rtt_without, cost.rtt_with) for cost in guest} == {(None, None)}
    assert {(cost.switches_without, cost.switches_with) for cost in guest} == {(3.0, 3.0)}
