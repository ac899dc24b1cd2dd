# SPDX-License-Identifier: GPL-2.0-or-later
"""Times and their ratios: paired by repeat, with an interval and never without a timing."""

import pytest

from analysis.analyse import Analysis
from analysis.answer import build_answer
from analysis.report import frames
from analysis.times import waterfall as words
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import TRIPS, Cell, MadeUp


def test_ratio_pairs_the_repeats(analysed: Analyse) -> None:
    """Both take longer with each repeat, and tcp always twice as long: that is no noise."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return 1000 * (repeat + 1) * (2 if transport == "tcp" else 1)

    (ratio,) = analysed(MadeUp(rtt=rtt, repeats=7)).timings[0].ratios
    assert (ratio.than.transport, ratio.transport.transport) == ("unix", "tcp")
    found = ratio.median
    assert (found.value, found.low, found.high, found.repeats) == pytest.approx((2, 2, 2, 7))


def test_a_ratio_is_the_quotient_of_the_figures_beside_it(analysed: Analyse) -> None:
    """Where the two do not rise together, the mean of the repeats' ratios is another number."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return 1000 * (repeat + 1 if transport == "tcp" else 7 - repeat)

    (ratio,) = analysed(MadeUp(rtt=rtt, repeats=6)).timings[0].ratios
    than, transport = ratio.than, ratio.transport
    assert than.p50
    assert transport.p50
    assert ratio.median.value == transport.p50.value / than.p50.value


def test_slow_iterations_that_the_median_does_not_see_are_in_the_other_ratio(
    analysed: Analyse,
) -> None:
    def iterations(transport: str, _: str, __: int) -> list[int]:
        slow = 9_000 if transport == "tcp" else 1_000
        return [1_000] * (TRIPS - 1) + [slow]

    (ratio,) = analysed(MadeUp(iterations=iterations, repeats=6, guest=False)).timings[0].ratios
    assert ratio.median.value == 1
    assert ratio.all
    assert ratio.all.value == pytest.approx((TRIPS + 8) / TRIPS)


def test_a_stream_is_compared_by_its_throughput(analysed: Analyse) -> None:
    """Sends of a stream take as long as there is no room: what a message costs is window / n."""

    def stream(cell: Cell) -> None:
        cell["pattern"], cell["messages"] = "stream", TRIPS
        cell["result"]["intervals"] = []
        cell["result"]["window_ns"] = 1000 if cell["transport"] == "unix" else 3000
        silent = {"sent_messages": 0, "sent_bytes": 0}
        deaf = {"received_messages": 0, "received_bytes": 0}
        cell["result"]["client"] |= deaf
        cell["result"]["server"] |= silent

    (ratio,) = analysed(MadeUp(change=stream, guest=False)).timings[0].ratios
    assert ratio.median.value == pytest.approx(3.0)


def test_how_long_a_paced_window_takes_is_no_result(analysed: Analyse) -> None:
    """Its requests are compared, each from when it was due, and the conditions say the rate."""

    def paced(cell: Cell) -> None:
        cell |= {"pattern": "paced", "clients": 4, "rate": 50, "work": 300}
        cell["result"] |= {"window_ns": 10**9, "intervals": []}

    rtts = {"unix": 1000, "tcp": 3000}
    analysis = analysed(MadeUp(rtt=lambda name, *_: rtts[name], repeats=6, change=paced))
    (ratio,) = analysis.timings[0].ratios
    assert ratio.all
    assert (ratio.median.value, ratio.all.value) == (3, 3)
    assert analysis.timings[0].conditions.endswith("+50-per-s+300-us-work")
    assert "50 requests a second" in words.conditions_text(analysis.timings[0])
    answer = build_answer(analysis)
    assert answer
    assert not answer.times[0].reached


def test_no_ratio_without_its_timing(analysed: Analyse) -> None:
    """Beside each ratio stand its conditions, batching and modes."""
    rows = frames.times(analysed(MadeUp(repeats=6)).timings)
    tcp = rows[rows["transport"] == "tcp"]
    assert set(tcp["ratio of p50"]) == {"2.00"}
    assert list(tcp["conditions"]) == ["pingpong · 10 B · one CPU", "pingpong · 10 B · two CPUs"]
    assert set(tcp["modes"]) == {"one mode"}


def test_no_p99_of_four_round_trips(plain: Analysis) -> None:
    latency = plain.timings[0].latencies[0]
    assert latency.p50 is not None
    assert latency.p99 is None
