# SPDX-License-Identifier: GPL-2.0-or-later
"""Times and their ratios: paired by repeat, with an interval and never without a timing."""

from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.analyse import Analysis
from analysis.intervals import LEAST_REPEATS, interval
from analysis.times import words
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import TRIPS, Cell, MadeUp, make_run


def test_ratio_pairs_the_repeats(analysed: Analyse) -> None:
    """Repeat r: tcp takes r + 2 times as long as unix."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return 1000 * (repeat + 2 if transport == "tcp" else 1)

    (ratio,) = analysed(MadeUp(rtt=rtt, repeats=7)).timings[0].ratios
    assert [one.transport for one in ratio.both] == ["unix", "tcp"]
    assert (ratio.value, ratio.repeats) == (5.0, 7)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 2.0 <= ratio.low < 5.0 < ratio.high <= 8.0


def test_too_few_repeats_give_no_interval(analysed: Analyse) -> None:
    (ratio,) = analysed(MadeUp(repeats=LEAST_REPEATS - 1)).timings[0].ratios
    assert (ratio.low, ratio.high) == (None, None)
    assert words.interval_text(ratio) == "5 repeats, too few for an interval"


@pytest.mark.parametrize("spread", ["normal", "skewed"])
def test_interval_covers_the_truth(spread: str) -> None:
    """Of 200 made-up runs of eight repeats, nine in ten intervals hold the true median."""
    chance = np.random.default_rng(17)
    held = 0
    for _ in range(200):
        noise = chance.normal(0, 1, 8) if spread == "normal" else chance.exponential(1, 8)
        truth = 0 if spread == "normal" else np.log(2)
        low, high = interval(1.6 * np.exp(0.05 * noise))
        assert low is not None
        assert high is not None
        held += low <= 1.6 * np.exp(0.05 * truth) <= high
    assert 180 <= held < 200


def test_the_same_interval_again() -> None:
    values = np.array([1.1, 1.2, 1.3, 1.4, 9.9, 1.0])
    assert interval(values) == interval(values)


def test_a_stream_is_compared_by_its_throughput(analysed: Analyse) -> None:
    """Sends of a stream take as long as there is no room: what a message costs is window / n."""

    def stream(cell: Cell) -> None:
        cell["pattern"], cell["messages"] = "stream", TRIPS
        cell["result"]["window_ns"] = 1000 if cell["transport"] == "unix" else 3000
        silent = {"sent_messages": 0, "sent_bytes": 0}
        deaf = {"received_messages": 0, "received_bytes": 0}
        cell["result"]["client"] |= deaf
        cell["result"]["server"] |= silent

    (ratio,) = analysed(MadeUp(change=stream, guest=False)).timings[0].ratios
    assert ratio.value == pytest.approx(3.0)


def test_no_ratio_without_its_timing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the page, in Markdown and in the terminal: each ratio, and beside it how it was taken."""
    run = make_run(tmp_path, MadeUp(repeats=6))
    assert main([str(run)]) == 0
    page, markdown = (
        (run / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")
    )
    for text in (page, markdown, capsys.readouterr().out):
        flat = " ".join(text.split())
        assert "2.00 times as long, 95 % interval 2.00 to 2.00, 6 repeats" in flat
        assert "default scheduler, one connection" in flat
        assert "no batching: one message per read" in flat
        assert "one mode (tcp, unix)" in flat or "one mode (unix, tcp)" in flat


def test_no_p99_of_four_round_trips(plain: Analysis) -> None:
    latency = plain.timings[0].latencies[0]
    assert latency.p50 is not None
    assert latency.p99 is None
