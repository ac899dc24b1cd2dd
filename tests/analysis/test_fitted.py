# SPDX-License-Identifier: GPL-2.0-or-later
"""fitted.toml: its intervals hold what it says of docs/predictions.tsv."""

import pandas as pd
import pytest

from analysis.predict.model import NORMAL_90, read_fitted
from runners.process import REPOSITORY

FITTED = read_fitted()


@pytest.fixture
def cases() -> pd.DataFrame:
    table = pd.read_csv(REPOSITORY / "docs/predictions.tsv", sep="\t", dtype={"attempt": str})
    return table[table["figure"] == "time"]


def inside(cases: pd.DataFrame, low: pd.Series, high: pd.Series, apart: pd.Series) -> pd.Series:
    """Whether a gain lies in the interval, which is at least so wide to either side."""
    least = low.clip(upper=cases["predicted_us"] - apart)
    most = high.clip(lower=cases["predicted_us"] + apart)
    return cases["measured_us"].between(least, most)


@pytest.mark.parametrize("kind", FITTED.ratios)
def test_ratios_hold_nine_in_ten_bound_gains(cases: pd.DataFrame, kind: str) -> None:
    own = cases[(cases["attempt"] == "fit") & (cases["kind"] == kind)]
    low, high = (own["predicted_us"] * ratio for ratio in FITTED.ratios[kind])
    held = inside(own, low, high, NORMAL_90 * FITTED.noise * own["of_us"])
    assert held.mean() >= 0.9, own[~held]


def test_the_unbound_interval_held_as_many_gains_as_it_says(cases: pd.DataFrame) -> None:
    own = cases[cases["attempt"] == "10"]
    held = own["measured_us"].between(own["low_us"], own["high_us"])
    assert (held.sum(), len(held)) == tuple(FITTED.unbound_inside)


def test_the_unbound_interval_is_fitted_to_an_attempt_before(cases: pd.DataFrame) -> None:
    own = cases[cases["attempt"] == "8"]
    apart = (FITTED.unbound * own["of_us"]).clip(upper=FITTED.unbound_us)
    held = inside(own, own["low_us"], own["high_us"], apart)
    assert (held.sum(), len(held)) == (21, 24)
