# SPDX-License-Identifier: GPL-2.0-or-later
"""Are there two kinds of round trip? Modes of times, found by a test and said with their shares.

docs/how-to-read-the-report.md has the rule. The values of a clock that ticks every 10 ns are a
comb, which has many modes: each is moved by less than half a tick, and nothing narrower than a
tick is a peak. The dip test of thousands of values sees every ripple, so a mode must also matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.statistics import TRIM, Values
from analysis.wording import amount, extent, listed

try:
    import diptest
except ModuleNotFoundError:  # analysis/spare.tsv
    diptest = None

MOST_VALUES = 20_000  # drawn with a fixed seed: the dip test's table ends at 72,000
LEAST_VALUES = 6
LEAST_OF_A_MODE = 2  # values: a repeat that stands alone is an outlier
# Of the modified z-score, 0.6745 (x - median) / MAD (Iglewicz and Hoaglin, How to Detect and Handle
# Outliers, 1993). Half a percent of the median at least: a clock's ticks make a MAD of 0.
OUTLYING, LEAST_MAD = 3.5, 0.005
SEED = 0
SIGNIFICANT = 0.01
LEAST_SHARE, LEAST_FACTOR, DEEPEST_VALLEY = 0.05, 1.1, 0.8
LEAST_WIDTH = 0.03  # of the kernel, in logarithms: 3 %
# What lies further apart is no clock's tick: nanoseconds, or a share of the median.
LARGEST_TICK, LARGEST_TICK_SHARE = 100, 0.05
BINS_IN_A_WIDTH = 8
BLOCK = 256  # iterations: short against a second, long against an iteration
PURE = 0.9  # a block is of one kind when so many of its iterations are
ITERATIONS, REPEATS = "iterations", "medians of repeats"
BY_REPEAT = "from repeat to repeat"


@dataclass(frozen=True)
class Mode:
    """A peak, in nanoseconds, and the share of the values between the valleys beside it."""

    at: float
    share: float


@dataclass(frozen=True)
class Modes:
    """The modes of one set of values. `cuts`: the valleys between them."""

    modes: tuple[Mode, ...]
    cuts: tuple[float, ...]
    p: float  # of the dip test

    @property
    def several(self) -> bool:
        return len(self.modes) > 1

    def words(self) -> str:
        """`2 modes at 22.0 µs (61 %) and 41.0 µs (39 %)`, `one mode`."""
        places = listed([f"{amount(m.at, 'ns')} ({m.share * 100:.0f} %)" for m in self.modes])
        return f"{len(self.modes)} modes at {places}" if self.several else "one mode"


@dataclass(frozen=True)
class Modality:
    """Modes of a cell's iterations, of its blocks' medians and of its repeats' medians."""

    modes: dict[str, Modes | None]  # of iterations, of medians of blocks, of medians of repeats
    rhythm: str  # how iterations of different modes follow on each other
    outliers: tuple[str, ...] = ()  # repeats whose medians stand alone, in words

    def several(self) -> tuple[str, Modes] | None:
        """What has several modes: iterations, else medians of blocks, else of repeats."""
        several = ((level, modes) for level, modes in self.modes.items() if modes and modes.several)
        return next(several, None)

    @property
    def apart(self) -> str:
        """The modes, where repeats are of one or of another; empty where they are alike."""
        modes = self.modes[ITERATIONS if self.rhythm == BY_REPEAT else REPEATS]
        return modes.words() if modes and modes.several else ""

    def words(self) -> str:
        """A clause about what has several modes, and one about repeats that stand alone."""
        level, modes = self.several() or (ITERATIONS, None)
        words = modes.words() if modes else "one mode"
        if modes:
            words = f"{words}, {self.rhythm}" if level == ITERATIONS else f"{level} have {words}"
        return "; ".join((words, *self.outliers))


def modality(repeats: Sequence[Values]) -> Modality | None:
    """What the iterations of a cell's repeats say; None where there are too few."""
    iterations = find_modes(np.concatenate(repeats)) if repeats else None
    if iterations is None:
        return None
    # Parts of at least BLOCK iterations that follow on each other.
    counts = [(repeat, len(repeat) // BLOCK) for repeat in repeats]
    blocks = [part for times, n in counts if n for part in np.array_split(times, n)]
    rhythm = _rhythm(repeats, blocks, iterations.cuts) if iterations.several else ""
    modes: dict[str, Modes | None] = {ITERATIONS: iterations}
    for level, parts in (("medians of blocks", blocks), (REPEATS, repeats)):
        modes[level] = find_modes(np.array(list(map(np.median, parts))))
    return Modality(modes, rhythm, _outliers(repeats))


def _outliers(repeats: Sequence[Values]) -> tuple[str, ...]:
    """`outlier: repeat 4 of 6, 305 µs`, by the modified z-score.

    So many that the trimmed mean does not leave them out are none: `8 of 20 repeats lie apart`.
    """
    medians = np.array([np.median(times) for times in repeats])
    if len(medians) < LEAST_VALUES:
        return ()
    usual = np.median(medians)
    apart = np.abs(medians - usual)
    limit = OUTLYING / 0.6745 * max(np.median(apart), LEAST_MAD * usual)
    far = [
        (number, float(median))
        for number, median in enumerate(medians, 1)
        if abs(median - usual) > limit
    ]
    if len(far) > TRIM * len(medians):
        ends = [median for _, median in far]
        span = extent(min(ends), max(ends), "ns")
        return (f"{len(far)} of {len(medians)} repeats lie apart, at {span}",)
    return tuple(
        f"outlier: repeat {number} of {len(medians)}, {amount(median, 'ns')}"
        for number, median in far
    )


def find_modes(values: Values) -> Modes | None:
    """The modes by the rule above; None for too few values, and without the dip test."""
    if len(values) < LEAST_VALUES or diptest is None:
        return None
    chance = np.random.default_rng(SEED)
    if len(values) > MOST_VALUES:
        values = chance.choice(values, MOST_VALUES, replace=False)
    tick = _tick(values)
    off_the_comb = values + chance.uniform(-tick / 2, tick / 2, len(values))
    logs = np.log(np.maximum(off_the_comb, values.min() / 2 or 1))
    _, p = diptest.diptest(logs)
    density = _Density(logs, max(LEAST_WIDTH, tick / 2 / float(np.median(values))))
    peaks = density.peaks() if p < SIGNIFICANT else [int(density.heights.argmax())]
    cuts = density.valleys(peaks)
    modes = map(Mode, map(density.time, peaks), density.shares(cuts))
    return Modes(tuple(modes), tuple(map(density.time, cuts)), float(p))


def _tick(values: Values) -> float:
    gaps = np.diff(np.unique(values))
    largest = max(LARGEST_TICK, LARGEST_TICK_SHARE * float(np.median(values)))
    return min(float(np.median(gaps)), largest) if len(gaps) else 0.0


class _Density:
    """A density on a grid of logarithms, and its peaks by their index in it."""

    def __init__(self, logs: Values, least_width: float) -> None:
        quartiles = np.percentile(logs, [25, 75])
        spread = float(np.ptp(quartiles)) / 1.349 or float(logs.std())
        # Silverman's rule of thumb.
        width = max(least_width, 0.9 * min(float(logs.std()), spread) * len(logs) ** -0.2)
        # The slowest iterations are hiccups, far away and few: a grid that reached them would be
        # wasted.
        low, high = np.percentile(logs, [0.5, 99.5]) + np.array([-4, 4]) * width
        self._count, self._low, self._step = len(logs), low, width / BINS_IN_A_WIDTH
        bins = int(np.ceil((high - low) / self._step))
        self._bins, _ = np.histogram(logs, bins, (low, low + bins * self._step))
        reach = np.arange(-4 * BINS_IN_A_WIDTH, 4 * BINS_IN_A_WIDTH + 1)
        kernel = np.exp(-((reach / BINS_IN_A_WIDTH) ** 2) / 2)
        self.heights = np.convolve(self._bins, kernel / kernel.sum(), "same")

    def time(self, index: int) -> float:
        return float(np.exp(self._low + (index + 0.5) * self._step))

    def valleys(self, peaks: list[int]) -> list[int]:
        return [a + int(self.heights[a : b + 1].argmin()) for a, b in pairwise(peaks)]

    def shares(self, cuts: list[int]) -> list[float]:
        # Of the values on the grid: its ends leave out one in a hundred.
        return [float(part.sum() / self._bins.sum()) for part in np.split(self._bins, cuts)]

    def peaks(self) -> list[int]:
        """The peaks that matter; the smallest goes until each has values enough."""
        peaks = self.deep_peaks()
        while len(peaks) > 1:
            shares = self.shares(self.valleys(peaks))
            if min(shares) >= max(LEAST_SHARE, LEAST_OF_A_MODE / self._count):
                break
            peaks.pop(int(np.argmin(shares)))
        return peaks or [int(self.heights.argmax())]

    def deep_peaks(self) -> list[int]:
        """The peaks with a deep valley on either side; the higher of two that are close."""
        heights, apart = self.heights, np.log(LEAST_FACTOR) / self._step
        rising = np.diff(heights) > 0
        tops = np.flatnonzero(rising[:-1] & ~rising[1:]) + 1
        kept: list[int] = []
        for top in tops[np.argsort(heights[tops], kind="stable")][::-1]:
            if all(abs(top - other) >= apart for other in kept):
                kept.append(int(top))
        return [top for top in sorted(kept) if self._valley(top) < DEEPEST_VALLEY * heights[top]]

    def _valley(self, top: int) -> float:
        """How low it gets on the way to what is higher, on the side where that is less low."""
        higher = np.flatnonzero(self.heights > self.heights[top])
        before, after = np.split(higher, [np.searchsorted(higher, top)])
        low = self.heights[before[-1] if len(before) else 0 : top + 1].min()
        return float(max(low, self.heights[top : after[0] if len(after) else None].min()))


def _rhythm(repeats: Sequence[Values], blocks: Sequence[Values], cuts: tuple[float, ...]) -> str:
    """When the mode changes: with the repeat, from time to time, or with each iteration."""
    if all(_pure(repeat, cuts) for repeat in repeats):
        return BY_REPEAT
    if blocks and np.mean([_pure(block, cuts) for block in blocks]) >= PURE:
        return f"in blocks of {BLOCK} iterations or more"
    return "from iteration to iteration"


def _pure(iterations: Values, cuts: tuple[float, ...]) -> bool:
    counts = np.bincount(np.searchsorted(cuts, iterations), minlength=len(cuts) + 1)
    return bool(counts.max() >= PURE * len(iterations))
