# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals over repeats cover what they say: made-up runs with a fixed seed, and real ones."""

import numpy as np
import pytest
from scipy.stats import t

from analysis.statistics import LEAST_REPEATS, change, compared, mean, student
from tests.analysis.coverage import MADE_UP, NEAR, coverage, recorded, verdicts, within

# Of 95 %: what correlates, or has two modes and few repeats, is covered less often.
LEAST = {"correlated 0.3": 0.90, "correlated 0.6": 0.85}


def test_students_distribution_is_scipys() -> None:
    freedoms = [*range(1, 40), 99, 1000]
    assert [student(freedom) for freedom in freedoms] == pytest.approx(t.ppf(0.975, freedoms))


@pytest.mark.parametrize("series", MADE_UP)
@pytest.mark.parametrize("repeats", [12, 20])
def test_the_interval_covers_made_up_runs(series: str, repeats: int) -> None:
    assert coverage(MADE_UP[series], repeats, runs=500) >= LEAST.get(series, 0.94)


def test_the_halves_of_recorded_runs_agree() -> None:
    agree, halves = np.sum([within(runs) for runs in recorded().values()], axis=0)
    assert agree / halves >= 0.94


@pytest.mark.parametrize("spread", [0.04, 0.16])
def test_a_ratio_just_below_the_limit_is_rarely_confirmed(spread: float) -> None:
    for ratio in NEAR:
        assert verdicts(ratio, spread, LEAST_REPEATS, runs=800)[0] <= 0.025


def test_one_repeat_that_met_something_else_moves_nothing() -> None:
    values = np.arange(20.0)
    disturbed = np.where(values == 19, 1e6, values)
    assert mean(disturbed) == mean(values)


def test_figures_of_two_sides_are_of_the_same_repeats() -> None:
    under, over = np.random.default_rng(1).uniform(50, 150, (2, 12))
    both = compared(under, over)
    assert both.ratio.value == pytest.approx(both.second.value / both.first.value)
    assert both.added.value == pytest.approx(both.second.value - both.first.value)
    assert both.more == sum(over > under)


def test_below_six_repeats_there_is_no_interval() -> None:
    few = np.arange(1.0, LEAST_REPEATS)
    assert mean(few).low is None
    assert compared(few, few).ratio.low is None
    assert change(np.ones(9), few).low is None


def test_a_change_of_two_runs_is_as_unsure_as_both_together() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5, 6]), np.array([11.0, 12, 13, 14, 15, 16])
    figure = change(first, second)
    assert figure.value == 10
    assert figure.high is not None
    assert figure.high - 10 == pytest.approx(
        np.sqrt(2) * (mean(first).high or 0) - np.sqrt(2) * 3.5
    )
