# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.tools.peers FILE: a table of ratios from what compare-peers.sh measured."""

import json
import sys
from pathlib import Path

import pandas as pd

from analysis.errors import RunError
from analysis.intervals import quotient
from analysis.tools import print_result

CELL = ["placement", "transport", "peer", "size", "statistic"]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m analysis.tools.peers FILE", file=sys.stderr)
        return 2
    return print_result(lambda: table(read(Path(arguments[0]))))


def read(path: Path) -> pd.DataFrame:
    """One row for each run: CELL, block, who (`ours` or `peer`), ns (of a round trip)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines[1:]]
        return pd.DataFrame(records)[[*CELL, "block", "who", "ns"]]
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{path} is not what compare-peers.sh writes: {error}") from error


def table(runs: pd.DataFrame) -> str:
    """Markdown: means over blocks (ns), and our time over the peer's.

    The two runs of a block met the same machine: the ratio's 95 % interval pairs them, where there
    are blocks enough.
    """
    lines = [
        "| placement | transport | peer | size | compared | ours, µs | peer, µs | ratio | 95 % |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | --- |",
    ]
    for cell, of_cell in runs.groupby(CELL, sort=True):
        pairs = of_cell.pivot_table(index="block", columns="who", values="ns").dropna()
        ratio = quotient(pairs["ours"].to_numpy(), pairs["peer"].to_numpy())
        sure = "too few blocks" if ratio.low is None else f"{ratio.low:.2f}-{ratio.high:.2f}"
        times = f"{pairs['ours'].mean() / 1000:.2f} | {pairs['peer'].mean() / 1000:.2f}"
        lines.append(f"| {' | '.join(map(str, cell))} | {times} | {ratio.value:.2f} | {sure} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
