# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure a figure over repeats is, and what is computed from several columns of them.

Repeats are the independent unit. A few meet something else, so the figure is the trimmed mean: of
TRIM of the repeats at either end, by the figure itself, no column counts. Its interval is that of
Tukey and McLaughlin (Sankhya A 25, 1963), for repeats that correlate from one to the next (the
variance of a mean of such: Bayley and Hammersley, JRSS Supplement 8, 1946; the estimate's bias:
Marriott and Pope, Biometrika 41, 1954). Of a quotient and the like it is that of the infinitesimal
jackknife's pseudo-values (Jaeckel, 1972). It is of this run; runs differ by more: analysis/diff's
pool. How often it covers the truth: python -m tests.analysis.coverage.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import cos, pi, sin, sqrt, tan
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_REPEATS = 6  # below that an interval would say nothing
TRIM = 0.2
CERTAINTY = 0.95  # of an interval
MOST_CORRELATED = 0.8  # more cannot be told from a trend
LEAST_SHRINKAGE = 0.2

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

    @property
    def far(self) -> float:
        """How far from 0 the figure may lie."""
        return max(map(abs, self.ends))

    def spans(self, limit: float) -> bool:
        """Whether the interval leaves open on which side of `limit` the figure lies."""
        return self.low is None or self.high is None or self.low <= limit <= self.high

    def above_zero(self) -> "Estimate":
        """A time: where repeats lie far apart, Student's interval would go below zero."""
        return self if self.low is None else replace(self, low=max(0.0, self.low))

    def __neg__(self) -> "Estimate":
        return self * -1

    def __mul__(self, factor: float) -> "Estimate":
        """The figure in another unit."""
        return self.mapped(lambda figure: figure * factor)

    def mapped(self, to: Callable[[float], float]) -> "Estimate":
        """Another figure, which grows or falls with this one."""
        if self.low is None or self.high is None:
            return replace(self, value=to(self.value))
        low, high = sorted((to(self.low), to(self.high)))
        return replace(self, value=to(self.value), low=low, high=high)


@dataclass(frozen=True)
class Compared:
    """A figure of two sides, and what the second's is beside the first's, of the same repeats."""

    first: Estimate
    second: Estimate
    added: Estimate  # second less first
    ratio: Estimate  # second through first
    more: int  # of the repeats: those in which the second one's was more


@cache
def student(freedom: int) -> float:
    """Half the 95 % interval's width in deviations: Student's t for these degrees of freedom.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, solved by halving.
    """
    low, high = 0.0, pi / 2
    while low < (angle := (low + high) / 2) < high:
        odd = freedom % 2
        term = cos(angle) if odd else 1.0
        total = 0.0
        for power in range(1 + odd, freedom, 2):
            total += term
            term *= cos(angle) ** 2 * power / (power + 1)
        within = sin(angle) * total
        if odd:
            within = (angle + within) * 2 / pi
        low, high = (angle, high) if within < CERTAINTY else (low, angle)
    return tan(angle) * sqrt(freedom)


def reach(values: Values) -> float:
    """Half the interval's width of the trimmed mean of these."""
    repeats, cut = len(values), int(TRIM * len(values))
    ordered = np.sort(values)
    clipped = np.clip(values, ordered[cut], ordered[-cut - 1])
    noise = clipped - clipped.mean()
    power = np.sum(noise**2)
    if not power > 0:
        return 0.0
    # An estimate from few repeats is too small, most of all where they correlate.
    drift = (repeats * np.sum(noise[1:] * noise[:-1]) / power + 1) / (repeats - 4)
    drift = min(max(drift, 0.0), MOST_CORRELATED)
    lags = np.arange(1, repeats)
    inflation = 1 + 2 * np.sum((1 - lags / repeats) * drift**lags)
    # Repeats that correlate lie nearer to their own mean than to the truth.
    shrinkage = max((repeats - inflation) / (repeats - 1), LEAST_SHRINKAGE)
    kept = 1 - 2 * cut / repeats
    deviation = np.sqrt(power / (repeats - 1) * inflation / shrinkage / repeats) / kept
    return float(student(repeats - 2 * cut - 1) * deviation)


def estimates(figures: Callable[[Values], Values], *columns: Values) -> list[Estimate]:
    """The figures that `figures` makes of the means of `columns`.

    `columns` hold one value for each repeat, paired. `figures` takes the means along the first axis
    and gives as many figures as it likes along the first axis; it must work for several at once.
    The first figure decides which repeats are left out of all.
    """
    values = np.stack([np.asarray(column, dtype=float) for column in columns])
    repeats = values.shape[1]
    if repeats < LEAST_REPEATS:
        means = figures(values.mean(axis=1, keepdims=True))[:, 0]
        return [Estimate(float(value), None, None, repeats) for value in means]
    middle = np.median(values, axis=1, keepdims=True)
    about = figures(middle)
    pseudo = about + repeats * (figures(middle + (values - middle) / repeats) - about)
    cut = int(TRIM * repeats)
    kept = np.argsort(pseudo[0], kind="stable")[cut : repeats - cut]
    means = figures(values[:, kept].mean(axis=1, keepdims=True))[:, 0]
    return [
        Estimate(float(value), float(value - half), float(value + half), repeats)
        for value, half in zip(means, map(reach, pseudo), strict=True)
    ]


def mean(values: Values) -> Estimate:
    """The trimmed mean over repeats."""
    return estimates(lambda means: means, values)[0]


def compared(first: Values, second: Values) -> Compared:
    """Two sides, paired by repeat. Their difference decides which repeats are left out."""

    def figures(means: Values) -> Values:
        one, other = means
        return np.stack([other - one, one, other, other / one])

    with np.errstate(divide="ignore", invalid="ignore"):  # a time that ticks did not see is 0
        added, one, other, ratio = estimates(figures, first, second)
    return Compared(one, other, added, ratio, int((second > first).sum()))


def change(before: Values, after: Values) -> Estimate:
    """The difference of two means that are not paired, of two runs."""
    first, second = mean(before), mean(after)
    value, repeats = second.value - first.value, min(len(before), len(after))
    if first.high is None or second.high is None:
        return Estimate(value, None, None, repeats)
    half = float(np.hypot(first.high - first.value, second.high - second.value))
    return Estimate(value, value - half, value + half, repeats)
