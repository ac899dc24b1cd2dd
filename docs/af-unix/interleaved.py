# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs `pairs` over three transports in turns, and says how they differ, with 95 % intervals.

    gcc -O2 -static -pthread -o pairs docs/af-unix/pairs.c
    PYTHONPATH=$PWD python docs/af-unix/interleaved.py ./pairs REPEATS > runs.csv

runs.csv has a row for each run, and standard error the table: times in µs, and the difference of
TCP and of a socket for each direction from the Unix socket (above 0: the Unix socket is faster).
"""

import io
import subprocess
import sys

import pandas as pd

from analysis.statistics import Estimate, compared

TRANSPORTS = ("unix", "unix-two", "tcp")
CELLS = [
    (connections, server, trips, idle)
    for idle, trips in (("0", "12000"), ("500", "2000"))
    for server in ("threads", "epoll")
    for connections in ("1", "5")
]
CELL = ["connections", "server", "idle_us"]
HEADS = ["transport", "connections", "server", "trips", "idle_us", "p50", "p90", "mean",
         "voluntary", "involuntary", "together", "moved"]  # fmt: skip


def runs(program: str, repeats: int) -> pd.DataFrame:
    """A row for each run; repeats go forward and back through the transports in turns."""
    rows = []
    for repeat in range(repeats):
        for connections, server, trips, idle in CELLS:
            for transport in TRANSPORTS[:: 1 if repeat % 2 == 0 else -1]:
                argv = [program, transport, connections, server, trips, idle]
                done = subprocess.run(argv, capture_output=True, text=True, check=True)
                rows.append(f"{repeat},{done.stdout}")
    return pd.read_csv(io.StringIO("".join(rows)), names=["repeat", *HEADS])


def text(figure: Estimate) -> str:
    low, high = figure.ends
    return f"{figure.value:.1f} ({low:.1f} to {high:.1f})"


def table(found: pd.DataFrame) -> pd.DataFrame:
    """A line for each cell and statistic."""
    lines = []
    for cell, rows in found.groupby(CELL):
        for statistic in ("p50", "mean", "voluntary"):
            by = rows.pivot_table(index="repeat", columns="transport", values=statistic)
            unix = by["unix"].to_numpy()
            more = {name: compared(unix, by[name].to_numpy()).added for name in TRANSPORTS[1:]}
            medians = {name: by[name].median() for name in TRANSPORTS}
            lines.append({
                **dict(zip(CELL, cell, strict=True)), "statistic": statistic, **medians,
                **{f"{name} less unix": text(figure) for name, figure in more.items()},
                "tcp above unix": f"{(by['tcp'] > by['unix']).sum()} of {len(by)}",
            })  # fmt: skip
    return pd.DataFrame(lines)


if __name__ == "__main__":
    measured = runs(sys.argv[1], int(sys.argv[2]))
    measured.to_csv(sys.stdout, index=False)
    print(table(measured).to_string(index=False), file=sys.stderr)
