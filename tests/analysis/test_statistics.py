# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals over repeats cover what they say: made-up runs with a fixed seed, and real ones."""

import numpy as np
import pytest
from scipy.stats import t

from analysis.statistics import LEAST_REPEATS, change, compared, mean, pooled, student
from tests.analysis import coverage
from tests.analysis.coverage import MADE_UP, NEAR, recorded, verdicts, within

# Of 95 %: what correlates, or has modes that stay for some repeats, is covered less often.
LEAST = {
    "correlated 0.3": 0.90,
    "correlated 0.6": 0.85,
    "modes 75/25": 0.92,
    "75/25, half stay": 0.80,
    "75/25, 4 of 5 stay": 0.50,
}


def test_students_distribution_is_scipys() -> None:
    freedoms = [*range(1, 40), 99, 1000]
    assert [student(freedom) for freedom in freedoms] == pytest.approx(t.ppf(0.975, freedoms))


@pytest.mark.parametrize("series", MADE_UP)
def test_the_intervals_cover_made_up_runs(series: str) -> None:
    """The difference and what is made of it, each transport's own time, and their ratio."""
    assert min(coverage.coverage(MADE_UP[series], 20, runs=250)) >= LEAST.get(series, 0.93)


def test_the_intervals_cover_recorded_runs() -> None:
    for runs in recorded().values():
        assert min(coverage.drawn_again(runs, 20).mean(axis=0)) >= 0.93
        agree, halves = within(runs)
        assert agree / halves >= 0.94


@pytest.mark.parametrize("kind", [kind for kind in coverage.SLOW if "one repeat" not in kind])
def test_the_interval_of_a_p99_counts_repeats_and_not_iterations(kind: str) -> None:
    assert coverage.slowest(kind, 20, runs=200) >= 0.90


def test_a_p99_is_of_all_iterations_together() -> None:
    """Two repeats of six hold all slow ones: no repeat's own p99 says what one in a hundred is."""
    clusters = [np.full(100, 10)] * 4 + [
        np.r_[np.full(90, 10), np.full(10, 500 + k)] for k in (0, 1)
    ]
    found = pooled(clusters, 0.99)
    assert found.value == np.percentile(np.concatenate(clusters), 99) == 501
    assert found.low is not None and found.low <= 500
    assert pooled(clusters[:5], 0.99).low is None


@pytest.mark.parametrize("spread", [0.04, 0.16])
def test_a_ratio_just_below_the_limit_is_rarely_confirmed(spread: float) -> None:
    for ratio in NEAR:
        assert verdicts(ratio, spread, LEAST_REPEATS, runs=800)[0] <= 0.025


def test_one_repeat_that_met_something_else_moves_nothing() -> None:
    values = np.random.default_rng(1).normal(size=20)
    usual, disturbed = mean(values), mean(np.where(values == values.max(), 1e6, values))
    assert disturbed.value == usual.value
    assert disturbed.ends == pytest.approx(usual.ends, abs=0.3 * np.ptp(usual.ends))


def test_figures_of_two_sides_are_of_the_same_repeats() -> None:
    under, over = np.random.default_rng(1).uniform(50, 150, (2, 12))
    both = compared(under, over)
    assert both.ratio.value == pytest.approx(both.second.value / both.first.value)
    assert both.added.value == pytest.approx(both.second.value - both.first.value)
    assert both.more == sum(over > under)
    halves = [np.ptp(figure.ends) / 2 for figure in (both.first, both.second, both.added)]
    assert halves[2] <= halves[0] + halves[1]


def test_below_six_repeats_there_is_no_interval() -> None:
    few = np.arange(1.0, LEAST_REPEATS)
    assert mean(few).low is None
    assert compared(few, few).ratio.low is None
    assert change(np.ones(9), few).low is None


def test_no_ratio_of_times_is_below_zero() -> None:
    first = np.array([10.0, 11, 9, 10, 12, 10])
    ratio = compared(first, np.array([1.0, 90, 2, 1, 60, 3])).ratio
    low, high = ratio.ends
    assert 0 < low < ratio.value < high


def test_a_change_of_two_runs_is_as_unsure_as_both_together() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5, 6]), np.array([11.0, 12, 13, 14, 15, 16])
    figure = change(first, second)
    assert figure.value == 10
    assert figure.high is not None
    assert figure.high - 10 == pytest.approx(
        np.sqrt(2) * (mean(first).high or 0) - np.sqrt(2) * 3.5
    )
