# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/path-over-time.md, made from the rows in reports/reference/over-time.

    python -m tests.docs.over_time            # make the page and its figure again
    python -m tests.docs.over_time RUN …      # take the rows from these runs of exact mode first
    python -m tests.docs.over_time --told RUN # take told.csv from this run on two CPUs first

The text stands in docs/site/path-over-time.md.j2, which has no figure of its own. cells.csv has a
row for each cell, layers.csv for each of its layers, changes.csv for each function that a kernel
changed, told.csv what the prices of reports/reference/time-explained make of the difference between
two kernels. outside.csv (other people's times) and causes.tsv (upstream commits) are written by
hand.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from analysis.drawing import MARKERS, OTHERS, axes_row, rendered
from analysis.paths.cells import ExactCell, read_exact
from analysis.paths.changes import ONLY_CALLS, WORK, Moved, most_alike
from analysis.paths.tree import function_layer
from analysis.predict.upgrade import priced_folder, upgrades
from analysis.raw.run import read_run
from analysis.wording import MINUS, listed, number, signed, size_text
from probes.cell import WHOLE
from probes.transports import PAIR
from runners.process import REPOSITORY
from tests.docs import figures

ROWS = REPOSITORY / "reports/reference/over-time"
PAGE = REPOSITORY / "docs/path-over-time.md"
TEMPLATES = REPOSITORY / "docs/site"
FIGURE = "figures/over-time.svg"
TOLD, PRICED = "told.csv", REPOSITORY / "reports/reference/time-explained/prices.json"
REFRESH = "python -m tests.docs.over_time"
WHERE = ["pattern", "transport", "size", "placement", "scheduling", "cpu"]
USUAL = {"pattern": "pingpong", "placement": "same-cpu", "scheduling": "fifo", "cpu": "qemu64"}
LEAST = 10  # instructions: functions that changed by less are one row
OTHERS_ROW = "(others)"


def series(cell: ExactCell) -> str:
    """`6.12` of `6.12.117+deb13-cloud-amd64`."""
    return ".".join(cell.kernel.split(".")[:2])


def by_release(kernel: str) -> list[int]:
    return [int(part) for part in kernel.split(".")]


def where(cell: ExactCell) -> tuple[Any, ...]:
    cpu = cell.knob.cpu if cell.knob else cell.cpu
    return cell.pattern, cell.transport, cell.size, cell.placement, cell.sched, cpu


def tables(runs: Iterable[Path]) -> dict[str, pd.DataFrame]:
    """The rows of the valid cells of these runs, by file."""
    found = [cell for run in runs for cell in read_exact(read_run(run)) if not cell.broken]
    order = sorted(found, key=lambda cell: (where(cell), by_release(series(cell))))
    cells, layers = [], []
    for cell in order:
        whole, per = cell.pattern in WHOLE, cell.messages_per_iteration
        of_window = cell.window.steps * per / cell.messages
        figures = (
            (cell.total, cell.steps) if whole else (round(cell.of_message * per), round(of_window))
        )
        copies = cell.payload.per_byte(cell.size) if cell.payload else None
        found_in = (round(cell.of_message * per), cell.identical, cell.iterations, copies)
        cells.append((*where(cell), series(cell), cell.kernel, cell.qemu, per, *figures, *found_in))
        rows = sorted(cell.layers().items()) if whole else ()
        layers += [(*where(cell), series(cell), *row) for row in rows]
    return {
        "cells.csv": pd.DataFrame(
            cells,
            columns=[*WHERE, "kernel", "release", "qemu", "messages", "instructions", "steps",
                     "mean", "identical", "iterations", "copies"],
        ),
        "layers.csv": pd.DataFrame(layers, columns=[*WHERE, "kernel", "layer", "instructions"]),
        "changes.csv": pd.DataFrame(
            [row for _, group in groupby(order, where) for row in changes(list(group))],
            columns=["transport", "size", "first", "second", "function", "layer", "kind", "before",
                     "after", "calls_before", "calls_after"],
        ),
    }  # fmt: skip


def changes(kernels: Sequence[ExactCell]) -> Iterator[tuple[Any, ...]]:
    """What each kernel's usual round trip has changed since the one before."""
    for before, after in pairwise(kernels):
        if not USUAL.items() <= dict(zip(WHERE, where(after), strict=True)).items():
            continue
        alike = most_alike(before, after)
        parts = alike.parts()
        for kind, name in (("work", WORK), ("compiler", ONLY_CALLS)):
            moved = [part for part in parts if part.kind == name]
            shown = [row for row in moved if abs(row.difference) >= LEAST]
            small = [row for row in moved if abs(row.difference) < LEAST]
            shown += [Moved(OTHERS_ROW, *(sum(getattr(row, name) for row in small)
                                          for name in ("before", "after")))]  # fmt: skip
            for row in shown:
                layer = "" if row.name == OTHERS_ROW else function_layer(row.name)
                counts = (row.before, row.after, row.calls_before, row.calls_after)
                yield (after.transport, after.size, series(before), series(after), row.name, layer,
                       kind, *counts)  # fmt: skip


def told(run: Path) -> pd.DataFrame:
    """What the stored prices tell of each kernel's round trips on two CPUs, in ns."""
    priced, rows = priced_folder(PRICED), []
    found = [cell for cell in read_exact(read_run(run)) if cell.placement == "cross-cpu"]
    kernels = sorted({series(cell) for cell in found}, key=by_release)
    for kernel in kernels[:-1]:
        first, last = ([c for c in found if series(c) == name] for name in (kernel, kernels[-1]))
        for each in upgrades((*first, *last), priced):
            where = (each.pair.transport, each.pair.after.size, kernel, kernels[-1])
            rows.append((*where, each.first.value, each.time.value, *each.time.ends))
    columns = ["transport", "size", "first", "second", "first_ns", "more_ns", "low_ns", "high_ns"]
    return pd.DataFrame(rows, columns=columns)


class Rows:
    """The stored rows, as the template asks for them."""

    def __init__(self, folder: Path = ROWS) -> None:
        kernels = dict.fromkeys(("kernel", "first", "second"), "str")
        self.cells, self.layers, self.moved, self.outside = (
            pd.read_csv(folder / f"{name}.csv", dtype=kernels)
            for name in ("cells", "layers", "changes", "outside")
        )
        self.told = pd.read_csv(folder / TOLD, dtype=kernels)
        self.causes = pd.read_csv(folder / "causes.tsv", sep="\t", dtype=kernels)
        self.kernels = sorted(self.cells["kernel"].unique(), key=by_release)
        self.steps = list(pairwise(self.kernels))
        self.releases = list(self.cells["release"].unique())
        self.sizes = sorted(match(self.cells, USUAL)["size"].unique())

    def of(
        self, kernel: str, transport: str, size: int, what: str = "instructions", **other: str
    ) -> Any:
        """A figure of one cell, which is as usual but for `other`."""
        where = {**USUAL, "kernel": kernel, "transport": transport, "size": size, **other}
        return only(self.cells, where)[what]

    def change(self, first: str, second: str, *cell: Any) -> float:
        """By which part of the first kernel's figure the second's differs."""
        return float(self.of(second, *cell) / self.of(first, *cell) - 1)

    def _differences(self, first: str, second: str, transport: str, size: int) -> dict[str, int]:
        where = {"first": first, "second": second, "transport": transport, "size": size}
        rows = match(self.moved, where)
        sums = (rows["after"] - rows["before"]).groupby(rows["function"]).sum()
        return {str(name): int(more) for name, more in sums.items()}

    def sum_of(self, patterns: str, first: str, second: str, transport: str, size: int) -> int:
        """What these functions take more in the second of two kernels."""
        found = self._differences(first, second, transport, size)
        named = [name for name in found if any(fnmatchcase(name, p) for p in patterns.split())]
        return sum(found[name] for name in named)

    def calls(self, function: str, first: str, second: str, transport: str, size: int) -> int:
        """How often a round trip of the second of two kernels calls a function that changed."""
        where = {"first": first, "second": second, "transport": transport, "size": size}
        return int(only(self.moved, {**where, "function": function})["calls_after"])

    def told_change(self, first: str, second: str, transport: str, size: int) -> float:
        """By which part of the first kernel's told time the second's differs, on two CPUs."""
        where = {"first": first, "second": second, "transport": transport, "size": size}
        row = only(self.told, where)
        return float(row["more_ns"] / row["first_ns"])

    def said(self, kernel: str, transport: str, size: int, pattern: str = "pingpong") -> float:
        """Somebody else's figure."""
        where = {"kernel": kernel, "transport": transport, "size": size, "pattern": pattern}
        return float(only(self.outside, where)["value"])


def match(rows: pd.DataFrame, wanted: dict[str, Any]) -> pd.DataFrame:
    return rows[(rows[list(wanted)] == pd.Series(wanted)).all(axis="columns")]


def only(rows: pd.DataFrame, wanted: dict[str, Any]) -> "pd.Series[Any]":
    found = match(rows, wanted)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows are {wanted}")
    return found.iloc[0]


def page(rows: Rows) -> str:
    """The page's text."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters |= {
        "signed": lambda figure: signed(figure) if figure else "0",
        "percent": lambda share: f"{100 * share:+.1f} %".replace("-", MINUS),
        "size": size_text, "number": number, "listed": listed, "whole": "{:,.0f}".format,
    }  # fmt: skip
    return templates.get_template(f"{PAGE.name}.j2").render(rows=rows)


def plot(rows: Rows) -> Figure:
    """A panel for each family, a line for each size: the change since the first kernel."""
    figure, axes = axes_row(2, 10, 4, sharey=True)
    for ax, transport in zip(axes, PAIR, strict=True):
        for size, marker, colour in zip(rows.sizes, MARKERS, OTHERS, strict=False):
            values = [100 * rows.change(rows.kernels[0], k, transport, size) for k in rows.kernels]
            ax.plot(rows.kernels, values, f"{marker}-", color=colour, label=size_text(size))
        ax.set_title(transport)
    axes[0].set_ylabel(f"instructions since {rows.kernels[0]}, %")
    axes[0].legend()
    return figure


def main(runs: Sequence[str]) -> None:
    if runs[:1] == ["--told"]:
        told(Path(runs[1])).round(1).to_csv(ROWS / TOLD, index=False, lineterminator="\n")
        runs = ()
    for name, table in (tables(map(Path, runs)) if runs else {}).items():
        table.to_csv(ROWS / name, index=False, lineterminator="\n")
    rows = Rows()
    svg, _ = rendered(plot, rows)
    (ROWS / FIGURE).write_text(svg, encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")
    figures.fill()


if __name__ == "__main__":
    main(sys.argv[1:])
