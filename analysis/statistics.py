# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure a mean over repeats is, and what is computed from several of them.

Repeats are the independent unit: round trips of one repeat share its luck (which CPU was warm, who
else ran), and a thousand of them say little more about it than one does. Neighbouring repeats share
some of it as well, since a machine drifts. So the interval is Student's, made wider for repeats
whose noise correlates by DRIFT from one to the next (a first-order autoregression; the variance of
its mean: Bayley and Hammersley, JRSS Supplement 8, 1946).

What several means make together (a ratio, a part of a difference) has its interval from the
jackknife's pseudo-values (Tukey, Annals of Mathematical Statistics 29, 1958): repeats are left out
whole, so what a repeat did to all columns alike cancels in a difference.

tests/analysis/test_statistics.py simulates how often the interval covers the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import t

# Below six repeats no rule covers drifting repeats without intervals that say nothing.
LEAST_REPEATS = 6
# Above twenty the interval is narrower than what runs differ by (docs/how-to-read-the-report.md).
MOST_REPEATS = 20
DRIFT = 0.6
# Of Student's distribution, upper end. More than the 0.975 of independent repeats: what a variance
# under drift is wrong by in few repeats is paid for here.
QUANTILE = 0.98

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Estimate:
    """A figure, and from where to where it lies.

    Of times and ratios the ends are the 95 % interval, None below LEAST_REPEATS; of a figure of the
    ledger the lowest and the highest repeat.
    """

    value: float
    low: float | None
    high: float | None
    repeats: int = 1
    valid: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; the value itself where there is no interval."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high

    def spans(self, limit: float) -> bool:
        """Whether the interval leaves open on which side of `limit` the figure lies."""
        return self.low is None or self.high is None or self.low <= limit <= self.high

    def __neg__(self) -> "Estimate":
        return self * -1

    def __mul__(self, factor: float) -> "Estimate":
        """The figure in another unit."""
        if self.low is None or self.high is None:
            return replace(self, value=self.value * factor)
        low, high = sorted((self.low * factor, self.high * factor))
        return replace(self, value=self.value * factor, low=low, high=high)


def reach(repeats: int) -> float:
    """Half the interval's width for a standard deviation of 1 over so many repeats."""
    lags = np.arange(1, repeats)
    inflation = 1 + 2 * np.sum((1 - lags / repeats) * DRIFT**lags)
    # Drifting repeats lie nearer to their own mean than to the truth.
    shrinkage = (repeats - inflation) / (repeats - 1)
    return float(t.ppf(QUANTILE, repeats - 1) * np.sqrt(inflation / (repeats * shrinkage)))


def estimates(figures: Callable[[Values], Values], *columns: Values) -> list[Estimate]:
    """The figures that `figures` makes of the means of `columns`.

    `columns` hold one value for each repeat, paired. `figures` takes the means along the first axis
    and gives as many figures as it likes along the first axis; it must work for several at once.
    """
    values = np.stack([np.asarray(column, dtype=float) for column in columns])
    repeats = values.shape[1]
    found = figures(values.mean(axis=1, keepdims=True))[:, 0]
    if repeats < LEAST_REPEATS:
        return [Estimate(float(value), None, None, repeats) for value in found]
    without = figures((values.sum(axis=1, keepdims=True) - values) / (repeats - 1))
    pseudo = repeats * found[:, np.newaxis] - (repeats - 1) * without
    half = reach(repeats) * pseudo.std(axis=1, ddof=1)
    return [
        Estimate(float(value), float(value - h), float(value + h), repeats)
        for value, h in zip(found, half, strict=True)
    ]


def mean(values: Values) -> Estimate:
    """The mean over repeats."""
    return estimates(lambda means: means, values)[0]


def quotient(over: Values, under: Values) -> Estimate:
    """The quotient of the two means, paired by repeat: what the two figures beside it give."""
    return estimates(lambda means: means[:1] / means[1:], over, under)[0]


def change(before: Values, after: Values) -> Estimate:
    """The difference of two means that are not paired, of two runs."""
    first, second = mean(before), mean(after)
    value, repeats = second.value - first.value, min(len(before), len(after))
    if first.high is None or second.high is None:
        return Estimate(value, None, None, repeats)
    half = float(np.hypot(first.high - first.value, second.high - second.value))
    return Estimate(value, value - half, value + half, repeats)
