# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.tools.peers FILE: a table of ratios from what compare-peers.sh measured."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import RunError
from analysis.intervals import interval

CELL = ["placement", "transport", "peer", "size", "statistic"]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m analysis.tools.peers FILE", file=sys.stderr)
        return 2
    try:
        print(table(read(Path(arguments[0]))))
    except RunError as error:
        print(f"pathcost: {error}", file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> pd.DataFrame:
    """One row for each run: CELL, block, who (`ours` or `peer`), ns (of a round trip)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines[1:]]
        return pd.DataFrame(records)[[*CELL, "block", "who", "ns"]]
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{path} is not what compare-peers.sh writes: {error}") from error


@dataclass(frozen=True)
class Comparison:
    """Ours beside one peer: medians over blocks (ns), and our time over the peer's.

    The two runs of a block met the same machine, so `ratio` is the median over blocks of theirs;
    `low` and `high` are its 95 % bootstrap interval, None with too few blocks.
    """

    cell: tuple[object, ...]  # CELL
    ours: float
    theirs: float
    ratio: float
    low: float | None
    high: float | None


def compare(runs: pd.DataFrame) -> list[Comparison]:
    """One for each CELL."""
    found = []
    for cell, of_cell in runs.groupby(CELL, sort=True):
        pairs = of_cell.pivot_table(index="block", columns="who", values="ns").dropna()
        each = (pairs["ours"] / pairs["peer"]).to_numpy()
        low, high = interval(each)
        ours, theirs = float(pairs["ours"].median()), float(pairs["peer"].median())
        found.append(Comparison(tuple(cell), ours, theirs, float(np.median(each)), low, high))
    return found


def table(runs: pd.DataFrame) -> str:
    """Markdown."""
    lines = [
        "| placement | transport | peer | size | compared | ours, µs | peer, µs | ratio | 95 % |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- |",
    ]
    for one in compare(runs):
        known = one.low is not None and one.high is not None
        sure = f"{one.low:.2f}-{one.high:.2f}" if known else "too few blocks"
        times = f"{one.ours / 1000:.2f} | {one.theirs / 1000:.2f} | {one.ratio:.2f}"
        lines.append(f"| {' | '.join(map(str, one.cell))} | {times} | {sure} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
