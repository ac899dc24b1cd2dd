# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw times of the host's sound, unprobed cells: what every statement about time rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.raw.probe_files import read_samples
from analysis.raw.run import Run

Key = tuple[str, int, str, str]  # pattern, size, placement, transport


@dataclass(frozen=True)
class Laps:
    """The laps of one repeat, in nanoseconds, in the order in which they ran."""

    repeat: int
    times: npt.NDArray[np.uint32]


def read_laps(run: Run, unsound: set[tuple[str, int]]) -> dict[Key, list[Laps]]:
    """Every cell's repeats in order. `unsound`: (folder, cell)."""
    found: dict[Key, list[Laps]] = {}
    for key, laps in sorted(_each(run, unsound), key=lambda one: (*one[0], one[1].repeat)):
        found.setdefault(key, []).append(laps)
    return found


def _each(run: Run, unsound: set[tuple[str, int]]) -> Iterator[tuple[Key, Laps]]:
    for lane in run.lanes:
        for cell in lane.cells if lane.timed else ():
            if cell.result and not cell.probed and (lane.folder, cell.id) not in unsound:
                times = read_samples(lane, cell)
                if len(times):
                    key = (cell.pattern, cell.size, str(cell.conditions), cell.transport)
                    yield key, Laps(cell.repeat, times)
