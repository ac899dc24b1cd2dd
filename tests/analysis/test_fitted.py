# SPDX-License-Identifier: GPL-2.0-or-later
"""fitted.toml: its intervals hold what it says of docs/predictions.tsv."""

import re

import pandas as pd
import pytest

from analysis.predict.model import NORMAL_90, read_fitted
from runners.process import REPOSITORY

FITTED = read_fitted()


def every_case() -> pd.DataFrame:
    return pd.read_csv(REPOSITORY / "docs/predictions.tsv", sep="\t", dtype={"attempt": str})


@pytest.fixture
def cases() -> pd.DataFrame:
    return every_case().query("figure == 'time'")


def test_the_pages_tell_all_attempts() -> None:
    """Each row of predicting.md from the table, and none left out; the same figures in README."""
    pages = ("docs/predicting.md", "README.md")
    page, readme = ((REPOSITORY / name).read_text(encoding="utf-8") for name in pages)
    table, told = every_case().query("attempt != 'fit'"), set[str]()
    row = r"^- Attempts? (\d+)(?:\W(\d+))?, .*: (\d+ of \d+) \(CPU time: (\d+ of \d+)\)"
    for first, last, *figures in re.findall(row, page, re.MULTILINE):
        attempts = [str(number) for number in range(int(first), int(last or first) + 1)]
        told |= {*attempts}
        for figure, held in zip(("time", "cpu"), figures, strict=True):
            own = table[table["attempt"].isin(attempts) & (table["figure"] == figure)]["inside"]
            assert held == f"{(own == 'yes').sum()} of {len(own)}"
        assert len(own) < 10 or figures[0] in readme
    assert told == {*table["attempt"]}


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
