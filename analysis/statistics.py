# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure a figure over repeats is, and what is computed from several columns of them.

Repeats are the independent unit. A few meet something else, so the figure is the trimmed mean: of
TRIM of the repeats at either end, by the first figure, no column counts. Its interval joins two:

- That of Tukey and McLaughlin (Sankhya A 25, 1963), for repeats that correlate from one to the next
  (the variance of a mean of such: Bayley and Hammersley, JRSS Supplement 8, 1946; the estimate's
  bias: Marriott and Pope, Biometrika 41, 1954). Of a quotient and the like it is that of the
  infinitesimal jackknife's pseudo-values (Jaeckel, 1972).
- The percentile bootstrap's, of whole repeats (Wilcox, Introduction to Robust Estimation, 4.4.4).
  The first one is too narrow where repeats have modes and the smaller one is trimmed; this one is
  too narrow where repeats are few. Of repeats that correlate it draws as many as are worth.

A quantile of all iterations has Woodruff's interval (JASA 47, 1952), repeats being the clusters.
Intervals are of this run; runs differ by more: analysis/diff's pool. How often they cover the
truth: python -m tests.analysis.coverage.
"""

import random
from collections.abc import Callable, Sequence
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
RESAMPLES, RESAMPLE_SEED = 1001, 20  # an odd number: the ends of the interval are two of them
LEAST_DRAWS = 5  # below that nothing would be trimmed

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
        """A time, or a ratio of times: Student's interval of a few far repeats would go below 0."""
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


def worth(values: Values) -> float:
    """How many independent repeats these are worth, which correlate from one to the next."""
    noise, repeats = values - values.mean(), len(values)
    power = np.sum(noise**2)
    if not power > 0:
        return float(repeats)
    # An estimate from few repeats is too small, most of all where they correlate.
    drift = (repeats * np.sum(noise[1:] * noise[:-1]) / power + 1) / (repeats - 4)
    drift = min(max(drift, 0.0), MOST_CORRELATED)
    lags = np.arange(1, repeats)
    inflation = 1 + 2 * np.sum((1 - lags / repeats) * drift**lags)
    # Repeats that correlate lie nearer to their own mean than to the truth.
    shrinkage = max((repeats - inflation) / (repeats - 1), LEAST_SHRINKAGE)
    return float(repeats / inflation * shrinkage)


def reach(values: Values, cut: int) -> float:
    """Half the interval's width of the mean of these, of which `cut` at either end are clipped."""
    kept = len(values) - 2 * cut
    deviation = np.sqrt(values.var(ddof=1) / worth(values)) * len(values) / kept
    return float(student(kept - 1) * deviation)


def clipped(pseudo: Values, order: Values, cut: int) -> Values:
    """Figures' pseudo-values, those that are left out set to the end of what is kept.

    That is an end of the first figure; another's is where its line by the first one has it. So
    parts of a figure have intervals of the same repeats as the whole.
    """
    first, values = pseudo[0], pseudo.copy()
    if not np.ptp(first) > 0:
        return values
    centred, ends = first - first.mean(), first[order[[cut, -cut - 1]]]
    slopes = pseudo @ centred / np.sum(centred**2)
    low, high = (pseudo.mean(axis=1) + slopes * (end - first.mean()) for end in ends)
    values[:, order[:cut]] = low[:, None]
    values[:, order[len(first) - cut :]] = high[:, None]
    return values


@cache
def resamples(repeats: int, draws: int) -> Values:
    """Which repeats each resample draws: the same in each analysis, and on each machine."""
    chance = random.Random(RESAMPLE_SEED)
    drawn = [int(repeats * chance.random()) for _ in range(RESAMPLES * draws)]
    return np.array(drawn).reshape(RESAMPLES, draws)


def resampled(figures: Callable[[Values], Values], values: Values, first: Values) -> Values:
    """The ends of the percentile bootstrap's interval: a row of low ends, and one of high ends.

    `figures` are of means of `values`, and `first` decides which repeats a resample leaves out.
    """
    drawn = resamples(len(first), max(LEAST_DRAWS, round(worth(first))))
    cut = int(TRIM * drawn.shape[1])
    order = np.argsort(first[drawn], axis=1, kind="stable")[:, cut : drawn.shape[1] - cut]
    chosen = np.take_along_axis(drawn, order, axis=1)
    made = np.sort(figures(values[:, chosen].mean(axis=2)), axis=1)
    beyond = round(RESAMPLES * (1 - CERTAINTY) / 2)
    return made[:, [beyond, RESAMPLES - 1 - beyond]].T


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
    about, apart = figures(middle), values - middle

    def made(means: Values) -> Values:
        return figures(middle + means)  # what is the same in all repeats stays exact

    pseudo = about + repeats * (made(apart / repeats) - about)
    cut = int(TRIM * repeats)
    order = np.argsort(pseudo[0], kind="stable")
    kept = order[cut : repeats - cut]
    means = made(apart[:, kept].mean(axis=1, keepdims=True))[:, 0]
    halves = np.array([reach(each, cut) for each in clipped(pseudo, order, cut)])
    low, high = resampled(made, apart, pseudo[0])
    ends = np.fmin(means - halves, low), np.fmax(means + halves, high)
    return [
        Estimate(float(value), float(low), float(high), repeats)
        for value, low, high in zip(means, *ends, strict=True)
    ]


def mean(values: Values) -> Estimate:
    """The trimmed mean over repeats."""
    return estimates(lambda means: means, values)[0]


def pooled(clusters: Sequence[Values], share: float) -> Estimate:
    """The value below which `share` of all iterations lie; `clusters` are those of each repeat.

    Woodruff's interval: that of the share below the value, in logits, taken back to values.
    """
    everything, repeats = np.sort(np.concatenate(clusters)), len(clusters)
    value = float(np.quantile(everything, share))
    if repeats < LEAST_REPEATS:
        return Estimate(value, None, None, repeats)
    beyond = np.array([np.sum(cluster >= value) for cluster in clusters], dtype=float)
    sizes = np.array([len(cluster) for cluster in clusters])
    noise = beyond - sizes * beyond.sum() / sizes.sum()
    half = reach(noise, 0) * repeats / sizes.sum() / (share * (1 - share))
    odds = share / (1 - share) * np.exp([-half, half])
    places = np.floor(len(everything) * odds / (1 + odds)).astype(int)
    low, high = everything[np.minimum(places, len(everything) - 1)]
    return Estimate(value, min(float(low), value), max(float(high), value), repeats)


def compared(first: Values, second: Values) -> Compared:
    """Two sides, paired by repeat. Their difference decides which repeats are left out.

    The interval of the ratio is that of its logarithm, so neither end can be below 0.
    """

    def figures(means: Values) -> Values:
        one, other = means
        return np.stack([other - one, one, other, np.log(other / one)])

    with np.errstate(divide="ignore", invalid="ignore"):  # a time that ticks did not see is 0
        added, one, other, logarithm = estimates(figures, first, second)
        ratio = logarithm.mapped(lambda figure: float(np.exp(figure)))
    return Compared(one, other, added, ratio, int((second > first).sum()))


def change(before: Values, after: Values) -> Estimate:
    """The difference of two means that are not paired, of two runs."""
    first, second = mean(before), mean(after)
    value, repeats = second.value - first.value, min(len(before), len(after))
    if first.high is None or second.high is None:
        return Estimate(value, None, None, repeats)
    half = float(np.hypot(first.high - first.value, second.high - second.value))
    return Estimate(value, value - half, value + half, repeats)
