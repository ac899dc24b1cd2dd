# SPDX-License-Identifier: GPL-2.0-or-later
"""How often an interval covers the truth, and how often a verdict by it is wrong.

    python -m tests.analysis.coverage      # the tables of docs/how-to-read-the-report.md

Made-up runs have a fixed seed. `runs.csv` has default runs of one machine, spread over hours: the
median round trip of each repeat over either transport, in ns (columns: run, conditions, repeat,
unix, tcp).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.diff.pool import between_runs
from analysis.statistics import Estimate, change, compared, mean

SEED, RUNS = 20, 2_000
REPEATS = (6, 8, 12, 20, 40)
POOLED = 5  # runs, whose interval is tried on another one
LIMIT = 1.10
# Of a claim that the ratio is at least LIMIT: two that are below it, and one far below.
NEAR, FAR = (1.08, 1.095), 1.00
NOISE = (0.04, 0.08, 0.16)
RECORDED = Path(__file__).with_name("runs.csv")

Values = npt.NDArray[Any]
Series = Callable[[np.random.Generator, int], Values]


def correlated(drift: float) -> Series:
    """Standard normal values; each keeps `drift` of the one before."""

    def noise(chance: np.random.Generator, repeats: int) -> Values:
        values = chance.normal(size=repeats)
        for place in range(1, repeats):
            values[place] = drift * values[place - 1] + np.sqrt(1 - drift**2) * values[place]
        return values

    return noise


def trend(chance: np.random.Generator, repeats: int) -> Values:
    """A machine that slows down by two deviations from the first repeat to the last."""
    return chance.normal(size=repeats) + np.linspace(-1, 1, repeats)


def modes(chance: np.random.Generator, repeats: int) -> Values:
    """Each repeat is in one of two modes, fifteen deviations apart."""
    return chance.normal(size=repeats) / 5 + np.where(chance.random(repeats) < 0.5, -1.5, 1.5)


def outliers(chance: np.random.Generator, repeats: int) -> Values:
    """One repeat of ten is ten times as noisy."""
    values = chance.normal(size=repeats)
    return np.where(chance.random(repeats) < 0.1, 10 * values, values)


MADE_UP: dict[str, Series] = {
    "independent": correlated(0), "correlated 0.3": correlated(0.3),
    "correlated 0.6": correlated(0.6), "trend": trend, "two modes": modes, "outliers": outliers,
}  # fmt: skip


def coverage(series: Series, repeats: int, runs: int = RUNS) -> float:
    """The share of made-up runs whose interval holds the truth, which is 0."""
    chance = np.random.default_rng(SEED)
    return sum(mean(series(chance, repeats)).spans(0) for _ in range(runs)) / runs


def verdicts(ratio: float, spread: float, repeats: int, runs: int = RUNS) -> tuple[float, float]:
    """The shares of runs that confirm, and that refute, that a ratio is at least LIMIT."""
    chance = np.random.default_rng(SEED)
    confirmed = refuted = 0
    for _ in range(runs):
        over, under = np.exp(spread / np.sqrt(2) * chance.normal(size=(2, repeats)))
        figure = compared(under, ratio * over).ratio
        if not figure.spans(LIMIT):
            confirmed += figure.value > LIMIT
            refuted += figure.value < LIMIT
    return confirmed / runs, refuted / runs


def recorded() -> dict[str, list[Values]]:
    """Conditions → of each run, tcp less unix of each repeat."""
    rows = pd.read_csv(RECORDED)
    rows["added"] = rows["tcp"] - rows["unix"]
    return {
        str(conditions): [run["added"].to_numpy(float) for _, run in table.groupby("run")]
        for conditions, table in rows.groupby("conditions")
    }


def within(runs: list[Values]) -> tuple[int, int]:
    """Of halves of a run (every second repeat; the first ones): how many agree, of how many."""
    halves = [
        half
        for run in runs
        for half in ((run[::2], run[1::2]), (run[: len(run) // 2], run[len(run) // 2 :]))
    ]
    return sum(change(*half).spans(0) for half in halves), len(halves)


def between(runs: list[Values]) -> Iterator[tuple[str, float]]:
    """How often an interval holds another run's figure: a single run's, and one of POOLED runs."""
    figures = [mean(run) for run in runs]
    values = np.array([figure.value for figure in figures])
    hits = [
        not _outside(figure, other)
        for place, figure in enumerate(figures)
        for other in np.delete(values, place)
    ]
    yield "a run", float(np.mean(hits))
    chance = np.random.default_rng(SEED)
    hits = []
    for _ in range(RUNS):
        *chosen, other = chance.choice(values, POOLED + 1, replace=False)
        hits.append(not _outside(between_runs(np.array(chosen))[1], other))
    yield f"{POOLED} runs", float(np.mean(hits))


def _outside(figure: Estimate, value: float) -> bool:
    low, high = figure.ends
    return not low <= value <= high


def main() -> None:
    print(f"| repeats | {' | '.join(MADE_UP)} |\n|{' ---: |' * (len(MADE_UP) + 1)}")
    for repeats in REPEATS:
        shares = [coverage(series, repeats) for series in MADE_UP.values()]
        print(f"| {repeats} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    print("\n| recorded | runs | halves of a run agree | another run, by a run | by five runs |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for conditions, runs in recorded().items():
        hits, halves = within(runs)
        shares = [hits / halves, *(share for _, share in between(runs))]
        print(f"| {conditions} | {len(runs)} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    print("\n| noise | repeats | wrong at 1.08 | wrong at 1.095 | refuted at 1.00 |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for spread in NOISE:
        for repeats in REPEATS:
            ratios = (*((near, 0) for near in NEAR), (FAR, 1))
            shares = [verdicts(ratio, spread, repeats)[side] for ratio, side in ratios]
            print(f"| {spread:.0%} | {repeats} | {' | '.join(f'{s:.1%}' for s in shares)} |")


if __name__ == "__main__":
    main()
