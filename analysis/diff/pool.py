# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios of times over several runs: what a run's interval cannot know is how runs differ.

Each run gives a ratio with an interval that holds for that run. Runs that lie hours apart met
another machine each, and their true ratios differ: a random-effects estimate says what the mean of
these is (logarithms of ratios; the iterated estimator of Paule and Mandel, and the interval of
Hartung and Knapp, Statistics in Medicine 20, 2001; `statsmodels.stats.meta_analysis`).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from analysis.analyse import analyse
from analysis.raw.run import read_run
from analysis.statistics import Estimate
from analysis.times.waterfall import conditions_text
from analysis.wording import number
from probes.messages import UsageError, one_line

LEAST_RUNS = 2
NORMAL = 1.96  # standard errors to either end of a 95 % interval

# Conditions and kernel in words, and the two transports → the ratio of medians of each run.
Ratios = Mapping[tuple[str, str], Mapping[str, Estimate]]


def read_ratios(folders: list[Path]) -> Ratios:
    """The ratios of all runs, by what was compared on which kernel. Raises RunError."""
    if len({folder.resolve() for folder in folders}) < max(LEAST_RUNS, len(folders)):
        raise UsageError("--pool needs two runs or more, each named once.")
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for folder in folders:
        for times in analyse(read_run(folder)).timings:
            for ratio in times.ratios:
                pair = f"{ratio.transport.transport} / {ratio.than.transport}"
                key = f"{conditions_text(times)}; {ratio.transport.kernel}", pair
                found.setdefault(key, {})[str(folder)] = ratio.median
    return found


def between_runs(ratios: list[Estimate]) -> Estimate | None:
    """The mean of the runs' true ratios, 95 %; None where fewer than two have an interval."""
    from statsmodels.stats.meta_analysis import combine_effects  # half a second, for this alone

    known = [ratio for ratio in ratios if ratio.high is not None and ratio.value > 0]
    if len(known) < LEAST_RUNS:
        return None
    values = np.array([ratio.value for ratio in known])
    deviations = np.array([(r.high or 0) - r.value for r in known]) / NORMAL / values
    found = combine_effects(
        np.log(values), np.maximum(deviations, 1e-9) ** 2, method_re="iterated", use_t=True
    )
    _, _, _, (low, high) = found.conf_int()
    middle, low, high = np.exp([found.mean_effect_re, low, high])
    return Estimate(float(middle), float(low), float(high), len(known))


def show_pool(folders: list[Path]) -> None:
    """Print each ratio of each run, and the one between runs."""
    ratios = {key: runs for key, runs in read_ratios(folders).items() if len(runs) >= LEAST_RUNS}
    if not ratios:
        raise UsageError("These runs timed nothing alike: --pool needs the same cells in each.")
    for (conditions, pair), runs in ratios.items():
        print(one_line(f"{conditions}: median of {pair}"))
        for folder, ratio in runs.items():
            print(one_line(f"  {_text(ratio)}  {folder}"))
        if between := between_runs(list(runs.values())):
            print(f"  {_text(between)}  between runs, 95 %")


def _text(ratio: Estimate) -> str:
    if ratio.low is None or ratio.high is None:
        return number(ratio.value)
    return f"{number(ratio.value)} ({number(ratio.low)} to {number(ratio.high)})"
