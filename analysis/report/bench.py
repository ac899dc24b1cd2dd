# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows what `exact -- PROGRAM` has left, compares it, and writes it for other programs."""

from html import escape
from pathlib import Path

import pandas as pd

from analysis.paths import bench, bench_diff
from analysis.paths.bench import BenchRun
from analysis.paths.bench_diff import BenchDiff
from analysis.report import output
from analysis.report.render import page
from probes.contract import WITHIN
from probes.messages import one_line, reader_may_leave

CALLS_FILE, CALLGRIND, FOLDED, BENCH_PAGE = (
    "calls.csv",
    "bench.callgrind",
    "bench.folded",
    "bench.html",
)
AGAINST = "against.txt"


def show_bench(
    folder: Path, how: str | None = None, against: Path | None = None, tolerance: float = 1.0
) -> int:
    """Print a program's calls, and compare them with a run's: the exit status.

    The files for other programs are written beside bench.json. Raises RunError.
    """
    run = bench.read_bench(folder)
    diff = BenchDiff(bench.read_bench(against), run, tolerance) if against else None
    compared = bench_diff.text(diff) if diff else ""
    output.write_all(folder, files(run, compared))
    with reader_may_leave():
        match how:
            case "quiet":
                print(folder / BENCH_PAGE)
            case "json":
                print(run.about.model_dump_json(indent=1))
            case _:
                told = f"{bench.text(run)}{compared}".splitlines()
                print(*map(one_line, told), sep="\n")
                print(f"Page: {folder / BENCH_PAGE}; for KCachegrind: {folder / CALLGRIND}")
    return diff.status if diff else WITHIN


def files(run: BenchRun, compared: str) -> dict[str, output.Content]:
    """Return the files beside bench.json, by name."""
    figure = bench.drawn_flames(run)
    told = escape(f"{bench.text(run)}\n{compared}")
    text = (
        f"# {escape(' '.join(run.about.program))}\n\n<pre>\n{told}</pre>\n\n"
        f"![{figure.alt}](figures/{figure.name}.svg)\n\n{figure.caption}\n"
    )
    return {
        CALLS_FILE: pd.DataFrame([row.model_dump() for row in run.about.rows]),
        CALLGRIND: bench.callgrind(run),
        FOLDED: bench.folded(run),
        BENCH_PAGE: page(text, f"pathcost: {run.about.name}", [figure]),
        **output.pictures([figure]),
        **({AGAINST: compared} if compared else {}),
    }
