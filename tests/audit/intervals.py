# SPDX-License-Identifier: GPL-2.0-or-later
"""Trimmed means over repeats and their 95 % intervals, from the formulas in docs/audit.md.

Student's quantile is found by bisection of its distribution, which is the regularised incomplete
beta function (Abramowitz and Stegun, 26.7.1 and 26.5.8).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

LEAST_REPEATS = 6  # below that a figure has no interval
QUANTILE = 0.975
Columns = Sequence[Sequence[float]]


class Estimate(NamedTuple):
    """A figure with the ends of its interval; no ends where the repeats are too few."""

    value: float
    low: float | None
    high: float | None
    repeats: int


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


def reach(values: Sequence[float]) -> float:
    """Half the width of the interval of the trimmed mean: a fifth is left out at either end."""
    n = len(values)
    k = n // 5
    ordered = sorted(values)
    clipped = [min(max(value, ordered[k]), ordered[n - 1 - k]) for value in values]
    centre = statistics.fmean(clipped)
    noise = [value - centre for value in clipped]
    power = sum(value**2 for value in noise)
    if not power:
        return 0.0
    r = (n * sum(a * b for a, b in pairwise(noise)) / power + 1) / (n - 4)
    r = min(max(r, 0.0), 0.8)
    g = 1 + 2 * sum((1 - lag / n) * r**lag for lag in range(1, n))
    b = max((n - g) / (n - 1), 0.2)
    error = math.sqrt(power / (n - 1) * g / (n * b)) * n / (n - 2 * k)
    return student(QUANTILE, n - 2 * k - 1) * error


def estimates(
    figures: Callable[[Sequence[float]], Sequence[float]], columns: Columns
) -> list[Estimate]:
    """Figures of the columns' means; a column has a value for each repeat.

    The repeats at either end, by the first figure, are left out of all. The half-width is reach of
    the pseudo-values: n times what a step of 1/n from the medians towards a repeat changes.
    """
    n = len(columns[0])
    if n < LEAST_REPEATS:
        plain = figures([statistics.fmean(column) for column in columns])
        return [Estimate(value, None, None, n) for value in plain]
    medians = [statistics.median(column) for column in columns]
    about = figures(medians)
    steps = [
        figures([m + (column[i] - m) / n for m, column in zip(medians, columns, strict=True)])
        for i in range(n)
    ]
    pseudo = [[a + n * (step[f] - a) for step in steps] for f, a in enumerate(about)]
    order = sorted(range(n), key=lambda i: pseudo[0][i])[n // 5 : n - n // 5]
    means = figures([statistics.fmean(column[i] for i in order) for column in columns])
    return [
        Estimate(value, value - half, value + half, n)
        for value, half in zip(means, map(reach, pseudo), strict=True)
    ]


def mean(values: Sequence[float]) -> Estimate:
    """The trimmed mean over repeats."""
    return estimates(lambda means: means, [values])[0]


def compared(first: Sequence[float], second: Sequence[float]) -> list[Estimate]:
    """The difference of two columns, both, and the second through the first."""
    return estimates(lambda m: [m[1] - m[0], m[0], m[1], m[1] / m[0]], [first, second])
