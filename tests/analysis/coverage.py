# SPDX-License-Identifier: GPL-2.0-or-later
"""How often an interval covers the truth, and how often a verdict by it is wrong: made-up runs.

python -m tests.analysis.coverage     # the tables of docs/how-to-read-the-report.md
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.statistics import DRIFT, mean, quotient

SEED = 20
RUNS = 2_000
REPEATS = (6, 8, 12, 20, 40)
LIMIT = 1.10
# Of a claim that the ratio is at least LIMIT: two that are below it, and one far below.
NEAR, FAR = (1.08, 1.095), 1.00
NOISE = (0.04, 0.08, 0.16)

Values = npt.NDArray[Any]


def noise(chance: np.random.Generator, repeats: int, drift: float) -> Values:
    """Standard normal values; each keeps `drift` of the one before."""
    values = chance.normal(size=repeats)
    for place in range(1, repeats):
        values[place] = drift * values[place - 1] + np.sqrt(1 - drift**2) * values[place]
    return values


def coverage(repeats: int, drift: float = 0, run: float = 0, runs: int = RUNS) -> float:
    """The share of runs whose interval holds 0. `run`: deviation of an effect of the whole run."""
    chance = np.random.default_rng(SEED)
    found = (mean(noise(chance, repeats, drift) + run * chance.normal()) for _ in range(runs))
    return sum(figure.spans(0) for figure in found) / runs


def verdicts(
    ratio: float, spread: float, repeats: int, drift: float = 0, runs: int = RUNS
) -> tuple[float, float]:
    """The shares of runs that confirm, and that refute, that a ratio is at least LIMIT."""
    chance = np.random.default_rng(SEED)
    confirmed = refuted = 0
    for _ in range(runs):
        over, under = (np.exp(spread / np.sqrt(2) * noise(chance, repeats, drift)) for _ in "ab")
        found = quotient(ratio * over, under)
        if not found.spans(LIMIT):
            confirmed += found.value > LIMIT
            refuted += found.value < LIMIT
    return confirmed / runs, refuted / runs


def main() -> None:
    print("| repeats | independent | drift 0.6 | effect of the run |")
    print("| ---: | ---: | ---: | ---: |")
    for repeats in REPEATS:
        shares = coverage(repeats), coverage(repeats, DRIFT), coverage(repeats, run=0.5)
        print(f"| {repeats} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    print("\n| noise | repeats | wrong at 1.08 | wrong at 1.095 | refuted at 1.00 |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for spread in NOISE:
        for repeats in REPEATS:
            found = [
                " / ".join(f"{verdicts(ratio, spread, repeats, d)[side]:.1%}" for d in (0, DRIFT))
                for ratio, side in (*((near, 0) for near in NEAR), (FAR, 1))
            ]
            print(f"| {spread:.0%} | {repeats} | {' | '.join(found)} |")


if __name__ == "__main__":
    main()
