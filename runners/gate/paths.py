# SPDX-License-Identifier: GPL-2.0-or-later
"""Sets of cells by the part of the kernel that they show: --paths, or what a series touches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from probes.cell import CellRun
from probes.files import read_rows
from runners.exact.cells import impossible, plan

PATHS_TABLE = Path(__file__).with_suffix(".tsv")


class PathRow(NamedTuple):
    """A row of paths.tsv; a folder ends in a slash."""

    name: str
    folders: tuple[str, ...]
    transports: tuple[str, ...]
    patterns: tuple[str, ...]
    waits: tuple[str, ...]
    also: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    scheds: tuple[str, ...]

    def cells(self, messages: int | None) -> list[CellRun]:
        """The cells that exact mode can count."""
        cells = plan(
            self.transports,
            self.sizes,
            messages,
            self.placements,
            self.scheds,
            patterns=self.patterns,
            waits=self.waits,
            additions=self.also,
        )
        return [run for run in cells if not impossible(run.cell)]


def _read() -> tuple[PathRow, ...]:
    lists = ("transports", "patterns", "waits", "also", "placements", "scheds")
    return tuple(
        PathRow(
            name=row["set"],
            folders=tuple(row["folders"].split()),
            sizes=tuple(int(size) for size in row["sizes"].split(",")),
            **{name: tuple(row[name].split(",")) for name in lists},
        )
        for row in read_rows(PATHS_TABLE)
    )


PATH_ROWS = _read()
SETS = tuple(dict.fromkeys(row.name for row in PATH_ROWS))


def cells_of_sets(names: Sequence[str], messages: int | None = None) -> tuple[CellRun, ...]:
    """The cells of these sets, each once, numbered."""
    found = (run for row in PATH_ROWS if row.name in names for run in row.cells(messages))
    once = {run.cell: run for run in found}
    return tuple(replace(run, id=number) for number, run in enumerate(once.values(), 1))


def sets_touched(files: Iterable[str]) -> tuple[str, ...]:
    """The sets whose folders have one of these files; none where a file is of no set.

    What lies elsewhere may be on every path: then the usual cells tell more than any one set.
    """
    touched: dict[str, None] = {}
    for file in files:
        names = [row.name for row in PATH_ROWS if file.startswith(row.folders)]
        if not names:
            return ()
        touched |= dict.fromkeys(names)
    return tuple(name for name in SETS if name in touched)
