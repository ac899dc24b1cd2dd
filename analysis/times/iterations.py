# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw times of the host's valid, unprobed cells: what every statement about time rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.raw.probe_files import read_samples
from analysis.raw.run import Run

Key = tuple[str, int, str, str]  # pattern, size, placement, transport


@dataclass(frozen=True)
class Iterations:
    """The iterations of one repeat, in nanoseconds, in the order in which they ran."""

    repeat: int
    times: npt.NDArray[np.uint32]


def read_iterations(run: Run, invalid: set[tuple[str, int]]) -> dict[Key, list[Iterations]]:
    """Every cell's repeats in order. `invalid`: (folder, cell)."""
    found: dict[Key, list[Iterations]] = {}
    for key, iterations in sorted(_each(run, invalid), key=lambda one: (*one[0], one[1].repeat)):
        found.setdefault(key, []).append(iterations)
    return found


def _each(run: Run, invalid: set[tuple[str, int]]) -> Iterator[tuple[Key, Iterations]]:
    for target in run.targets:
        for cell in target.cells if target.timed else ():
            if cell.result and not cell.probed and (target.folder, cell.id) not in invalid:
                times = read_samples(target, cell)
                if len(times):
                    key = (cell.pattern, cell.size, str(cell.conditions), cell.transport)
                    yield key, Iterations(cell.repeat, times)
