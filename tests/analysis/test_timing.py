# SPDX-License-Identifier: GPL-2.0-or-later
"""Times and their ratios: paired by repeat, with an interval and never without a timing."""

import pytest

from analysis.analyse import Analysis
from analysis.report.answer import build_answer
from analysis.report.frames import placed_freely
from analysis.times.timing import Times
from analysis.wording import ABSENT
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import TRIPS, Cell, MadeUp


def of_first(analysis: Analysis) -> tuple[Times, Times]:
    """Times of both transports under the first conditions."""
    unix, tcp = analysis.timings[:2]
    assert (unix.transport, unix.ratio) == ("unix", None)
    assert (tcp.transport, tcp.than) == ("tcp", "unix")
    return unix, tcp


def test_ratio_pairs_the_repeats(analysed: Analyse) -> None:
    """Both take longer with each repeat, and tcp always twice as long: that is no noise."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return 1000 * (repeat + 1) * (2 if transport == "tcp" else 1)

    ratio = of_first(analysed(MadeUp(rtt=rtt, repeats=7)))[1].ratio
    assert ratio
    assert (ratio.value, ratio.low, ratio.high, ratio.repeats) == pytest.approx((2, 2, 2, 7))


def test_slow_iterations_that_the_median_does_not_see_are_in_the_other_ratio(
    analysed: Analyse,
) -> None:
    def iterations(transport: str, _: str, __: int) -> list[int]:
        slow = 9_000 if transport == "tcp" else 1_000
        return [1_000] * (TRIPS - 1) + [slow]

    tcp = of_first(analysed(MadeUp(iterations=iterations, repeats=6, guest=False)))[1]
    assert tcp.ratio and tcp.ratio_all
    assert tcp.ratio.value == 1
    assert tcp.ratio_all.value == pytest.approx((TRIPS + 8) / TRIPS)


def test_a_stream_is_compared_by_its_throughput(analysed: Analyse) -> None:
    """Sends of a stream take as long as there is no room: what a message costs is window / n."""

    def stream(cell: Cell) -> None:
        cell["pattern"], cell["messages"] = "stream", TRIPS
        cell["result"]["intervals"] = []
        cell["result"]["window_ns"] = 1000 if cell["transport"] == "unix" else 3000
        cell["result"]["client"] |= {"received_messages": 0, "received_bytes": 0}
        cell["result"]["server"] |= {"sent_messages": 0, "sent_bytes": 0}

    ratio = of_first(analysed(MadeUp(change=stream, guest=False)))[1].ratio
    assert ratio
    assert ratio.value == pytest.approx(3.0)


def test_how_long_a_paced_window_takes_is_no_result(analysed: Analyse) -> None:
    """Its requests are compared, each from when it was due, and the conditions say the rate."""

    def paced(cell: Cell) -> None:
        cell |= {"pattern": "paced", "clients": 4, "rate": 50, "work": 300}
        cell["result"] |= {"window_ns": 10**9, "intervals": []}

    rtts = {"unix": 1000, "tcp": 3000}
    analysis = analysed(MadeUp(rtt=lambda name, *_: rtts[name], repeats=6, change=paced))
    tcp = of_first(analysis)[1]
    assert tcp.ratio and tcp.ratio_all
    assert (tcp.ratio.value, tcp.ratio_all.value) == pytest.approx((3, 3))
    assert tcp.conditions.endswith("+50-per-s+300-us-work")
    answer = build_answer(analysis)
    assert answer
    assert not answer.times[0].reached


def test_no_p99_of_four_round_trips(plain: Analysis) -> None:
    unix, _ = of_first(plain)
    assert unix.p50 is not None
    assert unix.p99 is None


def test_user_mode_and_the_kernel_add_up_to_cpu_time(analysed: Analyse) -> None:
    """They are of the repeats that count in the difference of the whole, not each of its own."""

    def usage(cell: Cell) -> None:
        steps = [3, 1, 4, 1, 5, 9, 2, 6]
        used = cell["result"]["client"]["rusage"]
        used["user_us"] = 100 * steps[cell["repeat"]]
        used["system_us"] = 2000 // steps[cell["repeat"] - 3] + (cell["transport"] == "tcp") * 50

    analysis = analysed(MadeUp(repeats=8, guest=False, change=usage))
    answer = build_answer(analysis)
    assert answer and answer.times[0].cpu_ns
    rows = analysis.figures.query("conditions == 'same-cpu' and transport == 'tcp'")
    parts = rows[rows["measure"].isin(["cpu_user", "cpu_system"])]["value"]
    assert parts.sum() == pytest.approx(answer.times[0].cpu_ns.second.value)
    assert parts.notna().sum() == 2


def test_what_nobody_bound_has_a_table_of_its_own(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(repeats=6, extra=(("pingpong", "free", "block"),)))
    unix, tcp = placed_freely(analysis.timings).to_numpy().tolist()
    assert (unix[1], unix[3], tcp[1]) == ("unix", ABSENT, "tcp")
    assert [ratio.partition(" ")[0] for ratio in tcp[3:]] == ["2.00", "2.00"]
