# SPDX-License-Identifier: GPL-2.0-or-later
"""Was the machine busy with something else while a cell ran for its times?

The limits are stated before any cell runs; docs/how-to-read-the-report.md has the measurement that
they come from. A disturbed repeat is marked and stays in every figure.
"""

from typing import NamedTuple

from analysis.raw.cells import Cell
from analysis.raw.run import Run, Target
from analysis.wording import counted

# Shares of a cell's wall time. What is stolen or taken prolongs iterations by as much on average;
# a smaller share is less than repeats of a quiet machine differ by.
MOST_STOLEN = 0.05  # by the hypervisor, on one measured CPU
MOST_TAKEN = 0.10  # by other processes, on the measured CPUs together
MOST_DISTURBED = 0.2  # of the cell runs: medians of a run with more are those of a busy machine
ENDS = 2  # of many CPUs a cell that is placed freely uses two at a time


class Shares(NamedTuple):
    """What was certainly taken from a cell, as shares of its wall time."""

    stolen: float
    taken: float

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN or self.taken > MOST_TAKEN


class Disturbed(NamedTuple):
    """A run's unprobed cell runs that give times: how many were watched, and the disturbed ones."""

    watched: int  # none in an older run
    runs: tuple[tuple[Target, Cell, Shares], ...]

    @property
    def many(self) -> bool:
        """Whether a reader must know it before any time."""
        return len(self.runs) > MOST_DISTURBED * self.watched

    def how_many(self) -> str:
        """`18 of 160 unprobed cell runs`."""
        return f"{len(self.runs)} of {counted(self.watched, 'unprobed cell run')}"

    def sentence(self) -> str:
        """How many were disturbed, and by what."""
        if not self.watched:
            return "Whether repeats were disturbed is not recorded in this run."
        return (
            f"{self.how_many()} were disturbed (the hypervisor took more than "
            f"{100 * MOST_STOLEN:.0f} % of a CPU, or other processes {100 * MOST_TAKEN:.0f} %)."
        )


def shares_of(cell: Cell) -> Shares | None:
    """None where it is not recorded. The kernel counts in steps: one of each CPU may be none."""
    if (record := cell.disturbance) is None:
        return None
    stolen = max(cpu.steal_ns for cpu in record.cpus.values()) - record.step_ns
    taken = record.others_ns - record.step_ns * len(record.cpus)
    met = min(1.0, ENDS / len(record.cpus))
    return Shares(max(0, stolen) / record.wall_ns, max(0, taken) / record.wall_ns * met)


def share_disturbed(run: Run) -> Disturbed:
    """The cell runs of the host that give times."""
    watched = [
        (target, cell, shares)
        for target, cell in run.cells()
        if target.timed and cell.result and not cell.probed and (shares := shares_of(cell))
    ]
    return Disturbed(len(watched), tuple(each for each in watched if each[2].disturbed))
