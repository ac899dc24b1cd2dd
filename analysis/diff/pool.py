# SPDX-License-Identifier: GPL-2.0-or-later
"""Several runs together: what a run's interval cannot know is how runs differ.

Runs that lie hours apart met another machine each. Their ratios count alike, in logarithms: the
interval of their mean, and the one in which the next run's ratio lies (Student's prediction
interval), which is the one to use where a sentence says `on this machine`.

Each run is judged alone, then all together: what holds in one run and not in another is CONDITIONAL
on the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.analyse import Figures, judge_again
from analysis.claims.files import load_claims
from analysis.claims.verdict import NOT_MEASURED, tally
from analysis.raw.run import Run, read_run
from analysis.statistics import Estimate, Values, student
from analysis.wording import conditions_text, counted, extent, spanned
from probes.messages import UsageError, one_line

LEAST_RUNS = 2

# Conditions and kernel in words, and the two transports → the ratio of medians of each run.
Ratios = Mapping[tuple[str, str], Mapping[str, Estimate]]


def read_ratios(runs: list[Run]) -> Ratios:
    """The ratios of all runs, by what was compared on which kernel."""
    ratios: dict[tuple[str, str], dict[str, Estimate]] = {}
    for run in runs:
        for times in Figures(run).timings:
            if times.ratio:
                pair = f"{times.transport} / {times.than}"
                key = f"{conditions_text(times)}; {times.kernel}", pair
                ratios.setdefault(key, {})[run.name] = times.ratio
    return ratios


def between_runs(values: Values) -> tuple[Estimate, Estimate]:
    """Of one figure of several runs: its mean, and where the next run's lies, 95 % both."""
    runs, middle, deviation = len(values), values.mean(), values.std(ddof=1)
    reaches = student(runs - 1) * deviation * np.sqrt([1 / runs, 1 + 1 / runs])
    mean, next_run = (
        Estimate(float(middle), float(middle - reach), float(middle + reach), runs)
        for reach in reaches
    )
    return mean, next_run


def show_pool(folders: list[Path]) -> None:
    """Print each ratio of each run, their mean, and where another run's would lie; then the claims
    that not all runs judge alike. Raises RunError.
    """
    if len({folder.resolve() for folder in folders}) < max(LEAST_RUNS, len(folders)):
        raise UsageError("to pool runs takes two or more, each named once.")
    # Two runs may have one name, in two folders.
    runs = [replace(read_run(folder), name=str(folder)) for folder in folders]
    for (conditions, pair), ratios in read_ratios(runs).items():
        if len(ratios) < LEAST_RUNS:
            continue
        print(one_line(f"{conditions}: median of {pair}"))
        for name, ratio in ratios.items():
            print(one_line(f"  {spanned(ratio)}  {name}"))
        figures = between_runs(np.log([ratio.value for ratio in ratios.values()]))
        mean, next_run = (figure.mapped(np.exp) for figure in figures)
        print(f"  {spanned(mean)}  mean of the runs, 95 %")
        print(f"  {extent(*next_run.ends)}  another run, 95 %")
    print(*map(one_line, verdicts(runs)), sep="\n")


def verdicts(runs: list[Run]) -> Iterator[str]:
    """How many verdicts are the same in all runs, and the others."""
    claims = load_claims()
    alone, together = [judge_again([run], claims) for run in runs], judge_again(runs, claims)
    names = [*(run.name for run in runs), "together"]
    for name, judged in zip(names, [*alone, together], strict=True):
        yield f"{name}  {tally(judged)}"
    for words, timed in (("counts and answers", False), ("times", True)):
        rows = [
            (pooled, by_run)
            for pooled, *by_run in zip(together, *alone, strict=True)
            if pooled.settled and all(v.verdict != NOT_MEASURED for v in by_run)
            if pooled.claim.timed is timed
        ]
        differ = [(pooled, by_run) for pooled, by_run in rows if len({v.text for v in by_run}) > 1]
        same = len(rows) - len(differ)
        yield f"by {words}: {counted(len(rows), 'claim')}, {same} with one verdict"
        for pooled, by_run in differ:
            yield f"  {pooled.claim.id}: {pooled.text}, {pooled.condition}"
            for run, v in zip(runs, by_run, strict=True):
                yield f"    {run.name}  {v.text}{f', {v.condition}' if v.condition else ''}"
