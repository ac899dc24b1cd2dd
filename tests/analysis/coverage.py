# SPDX-License-Identifier: GPL-2.0-or-later
"""How often an interval covers the truth, and how often a verdict by it is wrong.

    python -m tests.analysis.coverage      # the tables of docs/intervals.md

Made-up runs have a fixed seed. `runs.csv` has default runs of one machine, spread over hours: the
median round trip of each repeat over either transport, in ns (columns: run, conditions, repeat,
unix, tcp).
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.diff.pool import between_runs
from analysis.statistics import Compared, Estimate, change, compared, mean, pooled

SEED, RUNS = 20, 1_000
REPEATS = (6, 8, 12, 20, 40)
POOLED = 5  # runs, whose interval is tried on another one
LIMIT = 1.10
# Of a claim that the ratio is at least LIMIT: two that are below it, and one far below.
NEAR, FAR = (1.08, 1.095), 1.00
NOISE = (0.04, 0.08, 0.16)
RECORDED = Path(__file__).with_name("runs.csv")

FIGURES = ("added", "first", "second", "ratio")  # a share of a CPU is `added`, times a rate
FIRST, MORE = 20.0, 5.0  # deviations: what the first transport takes, and the second more
MANY = 200_000  # repeats that are the truth
ITERATIONS = 500  # of a repeat, for its slowest
FEW, USUAL = 6, 20  # repeats

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


def modes(smaller: float, stays: float = 0.0) -> Series:
    """Each repeat is in one of two modes, fifteen deviations apart; `stays` keep the last one's."""

    def values(chance: np.random.Generator, repeats: int) -> Values:
        inside = chance.random(repeats) < smaller
        for place in np.flatnonzero(chance.random(repeats) < stays):
            inside[place] = inside[max(int(place) - 1, 0)]
        return chance.normal(size=repeats) / 5 + np.where(inside, 3.0, 0.0)

    return values


def heavy(chance: np.random.Generator, repeats: int) -> Values:
    """Student's t with two degrees of freedom: no variance."""
    return chance.standard_t(2, size=repeats)


def outliers(chance: np.random.Generator, repeats: int) -> Values:
    """One repeat of ten is ten times as noisy."""
    values = chance.normal(size=repeats)
    return np.where(chance.random(repeats) < 0.1, 10 * values, values)


MADE_UP: dict[str, Series] = {
    "independent": correlated(0),
    "correlated 0.3": correlated(0.3),
    "correlated 0.6": correlated(0.6),
    "trend": trend,
    "outliers": outliers,
    "heavy tails": heavy,
    "modes 50/50": modes(0.5),
    "modes 75/25": modes(0.25),
    "modes 90/10": modes(0.1),
    "75/25, half stay": modes(0.25, 0.5),
    "75/25, 4 of 5 stay": modes(0.25, 0.8),
}


def figures(both: Compared) -> list[Estimate]:
    return [getattr(both, name) for name in FIGURES]


def truth(series: Series) -> list[float]:
    """The figures of very many repeats. Modes that stay last longer; their shares are the same."""
    chance = np.random.default_rng(SEED)
    more = MORE + series(chance, MANY)
    first = FIRST + chance.normal(size=MANY) / 5
    kept = np.argsort(more)[MANY // 5 : -MANY // 5]
    one, other = first[kept].mean(), (first + more)[kept].mean()
    return [other - one, one, other, other / one]


def coverage(series: Series, repeats: int, runs: int = RUNS) -> Values:
    """Of each of FIGURES, the share of made-up runs whose interval holds the truth."""
    true, chance = truth(series), np.random.default_rng(SEED)
    hits = np.zeros(len(FIGURES))
    for _ in range(runs):
        first = FIRST + chance.normal(size=repeats) / 5
        found = figures(compared(first, first + MORE + series(chance, repeats)))
        hits += [figure.spans(value) for figure, value in zip(found, true, strict=True)]
    return hits / runs


# What share of a repeat's iterations are slow.
SLOW: dict[str, Callable[[np.random.Generator], float]] = {
    "alike in all repeats": lambda _: 0.02,
    "differs, log-normal": lambda chance: 0.02 * np.exp(chance.normal() - 0.5),
    "a fifth, in one repeat of ten": lambda chance: 0.2 if chance.random() < 0.1 else 0.002,
}


def slowest(kind: str, repeats: int, runs: int = RUNS) -> float:
    """The share of made-up runs whose interval holds the p99 of very many repeats."""
    chance = np.random.default_rng(SEED)

    def run(count: int) -> list[Values]:
        shares = np.array([[SLOW[kind](chance)] for _ in range(count)])
        slow = chance.random((count, ITERATIONS)) < shares
        usual, later = np.exp(chance.normal(size=(2, count, ITERATIONS)) * [[[0.1]], [[0.7]]])
        return list(np.where(slow, 4.5 * usual * later, usual))

    true = pooled(run(4_000), 0.99).value
    return sum(pooled(run(repeats), 0.99).spans(true) for _ in range(runs)) / runs


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
    """Conditions → of each run unix and tcp of each repeat."""
    return {
        str(conditions): [run[["unix", "tcp"]].to_numpy(float).T for _, run in table.groupby("run")]
        for conditions, table in pd.read_csv(RECORDED).groupby("conditions")
    }


def identical(runs: int) -> list[Values]:
    """Runs that differ by chance alone: the yardstick for one that holds another's figure."""
    chance = np.random.default_rng(SEED)
    return [np.stack([np.zeros(USUAL), chance.normal(size=USUAL)]) for _ in range(runs)]


def drawn_again(runs: list[Values], times: int) -> Values:
    """Of each of FIGURES, how often repeats drawn from a run's own hold the run's: by run."""
    chance = np.random.default_rng(SEED)
    shares = []
    for run in runs:
        true = [figure.value for figure in figures(compared(*run))]
        again = [compared(*run[:, chance.integers(0, USUAL, USUAL)]) for _ in range(times)]
        held = [[f.spans(v) for f, v in zip(figures(each), true, strict=True)] for each in again]
        shares.append(np.mean(held, axis=0))
    return np.array(shares)


def widths(runs: list[Values]) -> Values:
    """How many times as wide the first FEW repeats' interval of the difference is as all's."""
    pairs = [[compared(*run[:, :count]).added for count in (FEW, USUAL)] for run in runs]
    return np.array([np.divide(*(np.ptp(figure.ends) for figure in pair)) for pair in pairs])


def within(runs: list[Values]) -> tuple[int, int]:
    """Of halves of a run (every second repeat; the first ones): how many agree, of how many."""
    halves = [
        half
        for run in (tcp - unix for unix, tcp in runs)
        for half in ((run[::2], run[1::2]), (run[: len(run) // 2], run[len(run) // 2 :]))
    ]
    return sum(change(*half).spans(0) for half in halves), len(halves)


def between(runs: list[Values]) -> Iterator[tuple[str, float]]:
    """How often an interval holds another run's figure: a single run's, and one of POOLED runs."""
    added = [mean(tcp - unix) for unix, tcp in runs]
    values = np.array([figure.value for figure in added])
    hits = [
        not _outside(figure, other)
        for place, figure in enumerate(added)
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


def row(name: object, shares: Iterable[float]) -> str:
    return f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |"


def main() -> None:
    print(f"| repeats differ | {' | '.join(map(str, REPEATS))} | unix | tcp | ratio |")
    for name, series in MADE_UP.items():
        by_repeats = {repeats: coverage(series, repeats) for repeats in REPEATS}
        print(row(name, [*(shares[0] for shares in by_repeats.values()), *by_repeats[USUAL][1:]]))
    print(f"\n| slow iterations | {FEW} repeats | {USUAL} repeats |")
    for kind in SLOW:
        print(row(kind, (slowest(kind, repeats) for repeats in (FEW, USUAL))))
    print("\n| recorded | difference | unix | tcp | ratio | lowest run, difference |")
    for conditions, runs in recorded().items():
        held = drawn_again(runs, 200)
        print(row(conditions, [*held.mean(axis=0), held[:, 0].min()]))
    print("\n| recorded | halves of a run agree | another run, by a run | by five runs |")
    known = recorded()
    for conditions, runs in {**known, "identical": identical(len(known["same-cpu"]))}.items():
        hits, halves = within(runs)
        print(row(conditions, [hits / halves, *(share for _, share in between(runs))]))
    for name, runs in {**known, "independent": identical(RUNS)}.items():
        wider = widths(runs)
        print(
            f"{name}: six repeats' {wider.mean():.1f} times as wide, median {np.median(wider):.1f}"
        )
    print("\n| noise | repeats | wrong at 1.08 | wrong at 1.095 | refuted at 1.00 |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for spread in NOISE:
        for repeats in REPEATS:
            ratios = (*((near, 0) for near in NEAR), (FAR, 1))
            shares = [verdicts(ratio, spread, repeats)[side] for ratio, side in ratios]
            print(f"| {spread:.0%} | {repeats} | {' | '.join(f'{s:.1%}' for s in shares)} |")


if __name__ == "__main__":
    main()
