# SPDX-License-Identifier: GPL-2.0-or-later
"""Two instruments on the same thing."""

from analysis.analyse import Analysis
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp


def test_all_agree(plain: Analysis) -> None:
    comparisons = plain.comparisons
    assert all(c.equal for c in comparisons)
    pairs = {(c.quantity, c.key, c.first, c.second) for c in comparisons}
    assert pairs == {
        ("switches", "voluntary", "kernel", "bpftrace"),
        ("switches", "involuntary", "kernel", "bpftrace"),
        ("softirqs", "NET_RX", "kernel", "bpftrace"),
        ("function_calls", "made_up_1", "bpftrace", "ftrace"),
    }


def test_disagreement_comes_first_with_both_figures(analysed: Analyse) -> None:
    # Cell 4 is tcp: the kernel's own count is 8 softirqs, /proc's included.
    analysis = analysed(MadeUp(maps={"@softirqs": {"4,NET_RX": 2, "4,NET_RX elsewhere": 2}}))
    first = analysis.comparisons[0]
    assert analysis.disagreements == (first,)
    assert (first.quantity, first.transport) == ("softirqs", "tcp")
    assert (first.first_value, first.second_value) == (1.0, 0.5)


def test_what_ran_elsewhere_counts_for_the_whole_machine(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(maps={"@softirqs": {"4,NET_RX": 6, "4,NET_RX elsewhere": 2}}))
    assert analysis.disagreements == ()


def test_bpftrace_against_ftrace(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(maps={"@function_calls": {"3,made_up_17": 8}}))
    (found,) = (c for c in analysis.disagreements if c.transport == "unix")
    assert (found.key, found.first_value, found.second_value) == ("made_up_17", 1.0, 3.0)
