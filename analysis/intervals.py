# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure a median over repeats is.

Repeats are the independent unit: round trips of one repeat share its luck (which CPU was warm, who
else ran), and a thousand of them say little more about it than one does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import bootstrap

# The true median lies outside the range of n values with a chance of 2 in 2^n: five repeats cannot
# give 95 %, whatever is done with them. From six up a bootstrap of the median covers 93 %
# (normal, skewed and heavy-tailed values; tests/analysis/test_timing.py).
LEAST_REPEATS = 6
RESAMPLES = 9999
SEED = 0  # the same report for the same run

Values = npt.NDArray[Any]


def interval(values: Values) -> tuple[float | None, float | None]:
    """The 95 % interval of the median of one figure's repeats; None where they are too few."""
    found = joint_interval(lambda medians: medians[:1], values)
    return (None, None) if found is None else (float(found[0][0]), float(found[1][0]))


def median_with_ends(values: Values) -> tuple[float, float, float]:
    """The median and its interval; the range of the values where they are too few for one."""
    low, high = interval(values)
    ends = (values.min(), values.max()) if low is None or high is None else (low, high)
    return float(np.median(values)), float(ends[0]), float(ends[1])


def joint_interval(
    figures: Callable[[Values], Values], *columns: Values
) -> tuple[Values, Values] | None:
    """Lower and upper ends of the 95 % intervals of figures that are made of several medians.

    `columns` hold one value for each repeat; repeats are drawn whole, so what a repeat did to all
    columns alike cancels in a difference. `figures` turns the medians of the columns (first axis)
    into as many figures as it likes.
    """
    if len(columns[0]) < LEAST_REPEATS:
        return None

    def statistic(*drawn: Values, axis: int) -> Any:
        return figures(np.stack([np.median(column, axis=axis) for column in drawn]))

    found = bootstrap(
        columns, statistic, paired=True, vectorized=True, method="percentile",
        n_resamples=RESAMPLES, rng=np.random.default_rng(SEED),
    ).confidence_interval  # fmt: skip
    return found.low, found.high
