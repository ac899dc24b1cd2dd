# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals over repeats cover what they say, in made-up runs with a fixed seed."""

import numpy as np
import pytest

from analysis.statistics import DRIFT, LEAST_REPEATS, change, mean, quotient
from tests.analysis.coverage import NEAR, REPEATS, coverage, verdicts


@pytest.mark.parametrize("repeats", REPEATS)
def test_the_interval_covers_independent_and_drifting_repeats(repeats: int) -> None:
    assert coverage(repeats, runs=1_000) >= 0.95
    assert coverage(repeats, DRIFT, runs=1_000) >= 0.93


@pytest.mark.parametrize("repeats", [repeats for repeats in REPEATS if repeats <= 12])
def test_few_repeats_cover_an_effect_of_the_run_too(repeats: int) -> None:
    """As large as half the repeats' spread."""
    assert coverage(repeats, run=0.5, runs=1_000) >= 0.90


@pytest.mark.parametrize("drift", [0, DRIFT])
@pytest.mark.parametrize("spread", [0.04, 0.16])
def test_a_ratio_just_below_the_limit_is_rarely_confirmed(spread: float, drift: float) -> None:
    for ratio in NEAR:
        assert verdicts(ratio, spread, LEAST_REPEATS, drift, runs=800)[0] <= 0.025


def test_below_six_repeats_there_is_no_interval() -> None:
    few = np.arange(1.0, LEAST_REPEATS)
    assert mean(few).low is None
    assert quotient(few, few).low is None
    assert change(np.ones(9), few).low is None


def test_a_change_of_two_runs_is_as_unsure_as_both_together() -> None:
    first, second = np.array([1.0, 2, 3, 4, 5, 6]), np.array([11.0, 12, 13, 14, 15, 16])
    found = change(first, second)
    assert found.value == 10
    assert found.high is not None
    assert found.high - 10 == pytest.approx(np.sqrt(2) * (mean(first).high or 0) - np.sqrt(2) * 3.5)
