# SPDX-License-Identifier: GPL-2.0-or-later
"""Trimmed means, quantiles, and their 95 % intervals, from the formulas in docs/audit.md.

Student's quantile is found by bisection of its distribution, which is the regularised incomplete
beta function (Abramowitz and Stegun, 26.7.1 and 26.5.8).
"""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

LEAST_REPEATS = 6  # below that a figure has no interval
QUANTILE = 0.975
RESAMPLES, BEYOND = 1001, 25  # of the sorted resamples, the 26th at either end is the interval's
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


def dependence(values: Sequence[float]) -> tuple[float, float]:
    """g and b of docs/audit.md: what the correlation of neighbours makes of a mean's variance."""
    n = len(values)
    centre = statistics.fmean(values)
    noise = [value - centre for value in values]
    power = sum(value**2 for value in noise)
    if not power:
        return 1.0, 1.0
    r = (n * sum(a * b for a, b in pairwise(noise)) / power + 1) / (n - 4)
    r = min(max(r, 0.0), 0.8)
    g = 1 + 2 * sum((1 - lag / n) * r**lag for lag in range(1, n))
    return g, max((n - g) / (n - 1), 0.2)


def reach(values: Sequence[float], k: int) -> float:
    """Half the width of the interval of a mean, of values of which k at either end are clipped."""
    n = len(values)
    g, b = dependence(values)
    error = math.sqrt(statistics.variance(values) * g / (n * b)) * n / (n - 2 * k)
    return student(QUANTILE, n - 2 * k - 1) * error


def clipped(pseudo: Sequence[Sequence[float]], order: list[int], k: int) -> list[list[float]]:
    """Pseudo-values; what is left out lies on each figure's line by the first, at an end of it."""
    first = pseudo[0]
    centre = statistics.fmean(first)
    power = sum((value - centre) ** 2 for value in first)
    result = []
    for own in pseudo:
        product = sum((x - centre) * y for x, y in zip(first, own, strict=True))
        slope = product / power if power else 0.0
        values = list(own)
        for end, left_out in ((order[k], order[:k]), (order[-k - 1], order[len(first) - k :])):
            for i in left_out:
                values[i] = statistics.fmean(own) + slope * (first[end] - centre)
        result.append(values)
    return result


@cache
def draws(n: int, m: int) -> list[list[int]]:
    """Each resample's repeats."""
    chance = random.Random(20)
    return [[int(n * chance.random()) for _ in range(m)] for _ in range(RESAMPLES)]


def resampled(
    figures: Callable[[Sequence[float]], Sequence[float]], columns: Columns, first: Sequence[float]
) -> list[list[float]]:
    """Each figure of all resamples, sorted."""
    g, b = dependence(first)
    m = max(5, round(len(first) / g * b))
    rows = []
    for drawn in draws(len(first), m):
        kept = sorted(drawn, key=lambda i: first[i])[m // 5 : m - m // 5]
        rows.append(figures([statistics.fmean(column[i] for i in kept) for column in columns]))
    return [sorted(column) for column in zip(*rows, strict=True)]


def estimates(
    figures: Callable[[Sequence[float]], Sequence[float]], columns: Columns
) -> list[Estimate]:
    """Figures of the columns' means; a column has a value for each repeat.

    The repeats at either end, by the first figure, are left out of all. The interval joins that of
    the pseudo-values (n times what a step of 1/n from the medians towards a repeat changes) and
    that of the resamples.
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
    k = n // 5
    order = sorted(range(n), key=lambda i: pseudo[0][i])
    means = figures([statistics.fmean(column[i] for i in order[k : n - k]) for column in columns])
    halves = [reach(values, k) for values in clipped(pseudo, order, k)]
    again = resampled(figures, columns, pseudo[0])
    return [
        Estimate(value, min(value - half, made[BEYOND]), max(value + half, made[-BEYOND - 1]), n)
        for value, half, made in zip(means, halves, again, strict=True)
    ]


def pooled(clusters: Columns, share: float) -> Estimate:
    """A quantile of all values, and Woodruff's interval by the share from it on in each cluster."""
    ordered = sorted(value for cluster in clusters for value in cluster)
    n, total = len(clusters), len(ordered)
    place = share * (total - 1)
    low = int(place)
    value = ordered[low] + (place - low) * (ordered[min(low + 1, total - 1)] - ordered[low])
    if n < LEAST_REPEATS:
        return Estimate(value, None, None, n)
    beyond = [sum(each >= value for each in cluster) for cluster in clusters]
    part = sum(beyond) / total
    noise = [count - part * len(cluster) for count, cluster in zip(beyond, clusters, strict=True)]
    half = reach(noise, 0) * n / total / (share * (1 - share))
    ends = []
    for sign in (-1, 1):
        odds = share / (1 - share) * math.exp(sign * half)
        ends.append(ordered[min(math.floor(total * odds / (1 + odds)), total - 1)])
    return Estimate(value, min(ends[0], value), max(ends[1], value), n)


def mean(values: Sequence[float]) -> Estimate:
    """The trimmed mean over repeats."""
    return estimates(lambda means: means, [values])[0]


def compared(first: Sequence[float], second: Sequence[float]) -> list[Estimate]:
    """The difference of two columns, both, and the second through the first, by its logarithm."""

    def figures(m: Sequence[float]) -> list[float]:
        return [m[1] - m[0], m[0], m[1], _log(m[1] / m[0])]

    *others, log = estimates(figures, [first, second])
    low, high = (None if end is None else math.exp(end) for end in (log.low, log.high))
    return [*others, Estimate(math.exp(log.value), low, high, log.repeats)]


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf
