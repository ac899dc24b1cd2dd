# SPDX-License-Identifier: GPL-2.0-or-later
"""Means over repeats and their 95 % intervals, from the formulas in docs/audit.md.

Student's quantile is found by bisection of its distribution, which is the regularised incomplete
beta function (Abramowitz and Stegun, 26.7.1 and 26.5.8).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

LEAST_REPEATS = 6  # below that a figure has no interval
DRIFT = 0.6  # how much neighbouring repeats are taken to correlate
QUANTILE = 0.98
Columns = Sequence[Sequence[float]]


class Estimate(NamedTuple):
    """A figure with the ends of its interval; no ends where the repeats are too few."""

    value: float
    low: float | None
    high: float | None
    repeats: int

    def times(self, factor: float) -> Estimate:
        """The figure and its ends, times a positive number."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Estimate(factor * self.value, low, high, self.repeats)

    def negative(self) -> Estimate:
        """The figure with the other sign."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return Estimate(-self.value, low, high, self.repeats)


def beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    ) / a  # fmt: skip
    # From the innermost term out: 200 terms are far more than double precision asks for.
    fraction = 1.0
    for m in range(200, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        fraction = 1 + odd / (1 + even / fraction)
    return front / fraction


def student(quantile: float, freedom: int) -> float:
    """Where Student's distribution reaches `quantile`, which is above a half."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        below = 1 - beta(freedom / (freedom + middle**2), freedom / 2, 0.5) / 2
        low, high = (middle, high) if below < quantile else (low, middle)
    return (low + high) / 2


@cache
def reach(n: int) -> float:
    """Half an interval's width for n repeats whose standard deviation is 1."""
    g = 1 + 2 * sum((1 - k / n) * DRIFT**k for k in range(1, n))
    b = (n - g) / (n - 1)
    return student(QUANTILE, n - 1) * math.sqrt(g / (n * b))


def estimate(figure: Callable[[Sequence[float]], float], columns: Columns) -> Estimate:
    """A figure of the columns' means; a column has a value for each repeat.

    The half-width is reach(n) times the standard deviation of the jackknife's pseudo-values,
    n times R less n - 1 times R without one repeat. Of a mean these are the repeats themselves.
    """
    n = len(columns[0])
    value = figure([statistics.fmean(column) for column in columns])
    if n < LEAST_REPEATS:
        return Estimate(value, None, None, n)
    without = [
        figure([statistics.fmean([*column[:i], *column[i + 1 :]]) for column in columns])
        for i in range(n)
    ]
    half = reach(n) * statistics.stdev([n * value - (n - 1) * left for left in without])
    return Estimate(value, value - half, value + half, n)


def mean(values: Sequence[float]) -> Estimate:
    """The mean over repeats."""
    return estimate(lambda means: means[0], [values])


def quotient(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """The quotient of two means, whose repeats are pairs."""
    return estimate(lambda means: means[0] / means[1], [over, under])
