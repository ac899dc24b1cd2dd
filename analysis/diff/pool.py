# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios of times over several runs: what a run's interval cannot know is how runs differ.

Runs that lie hours apart met another machine each. Their ratios count alike, in logarithms: the
interval of their mean, and the one in which the next run's ratio lies (Student's prediction
interval), which is the one to use where a sentence says `on this machine`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import t

from analysis.analyse import analyse
from analysis.raw.run import read_run
from analysis.statistics import Estimate, Values
from analysis.times.waterfall import conditions_text
from analysis.wording import number
from probes.messages import UsageError, one_line

LEAST_RUNS = 2

# Conditions and kernel in words, and the two transports → the ratio of medians of each run.
Ratios = Mapping[tuple[str, str], Mapping[str, Estimate]]


def read_ratios(folders: list[Path]) -> Ratios:
    """The ratios of all runs, by what was compared on which kernel. Raises RunError."""
    if len({folder.resolve() for folder in folders}) < max(LEAST_RUNS, len(folders)):
        raise UsageError("--pool needs two runs or more, each named once.")
    ratios: dict[tuple[str, str], dict[str, Estimate]] = {}
    for folder in folders:
        for times in analyse(read_run(folder)).timings:
            for ratio in times.ratios:
                pair = f"{ratio.transport.transport} / {ratio.than.transport}"
                key = f"{conditions_text(times)}; {ratio.transport.kernel}", pair
                ratios.setdefault(key, {})[str(folder)] = ratio.median
    return ratios


def between_runs(values: Values) -> tuple[Estimate, Estimate]:
    """Of one figure of several runs: its mean, and where the next run's lies, 95 % both."""
    runs, middle, deviation = len(values), values.mean(), values.std(ddof=1)
    reaches = t.ppf(0.975, runs - 1) * deviation * np.sqrt([1 / runs, 1 + 1 / runs])
    mean, next_run = (
        Estimate(float(middle), float(middle - reach), float(middle + reach), runs)
        for reach in reaches
    )
    return mean, next_run


def show_pool(folders: list[Path]) -> None:
    """Print each ratio of each run, their mean, and where another run's would lie."""
    ratios = {key: runs for key, runs in read_ratios(folders).items() if len(runs) >= LEAST_RUNS}
    if not ratios:
        raise UsageError("These runs timed nothing alike: --pool needs the same cells in each.")
    for (conditions, pair), runs in ratios.items():
        print(one_line(f"{conditions}: median of {pair}"))
        for folder, ratio in runs.items():
            print(one_line(f"  {_text(ratio)}  {folder}"))
        mean, next_run = between_runs(np.log([ratio.value for ratio in runs.values()]))
        low, high = (number(float(np.exp(end))) for end in next_run.ends)
        print(f"  {_text(mean, np.exp)}  mean of the runs, 95 %")
        print(f"  {low} to {high}  another run on this machine, 95 %")


def _text(ratio: Estimate, scale: "np.ufunc" = np.positive) -> str:
    if ratio.low is None:
        return number(float(scale(ratio.value)))
    value, low, high = (number(float(scale(end))) for end in (ratio.value, *ratio.ends))
    return f"{value} ({low} to {high})"
