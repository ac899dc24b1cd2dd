# SPDX-License-Identifier: GPL-2.0-or-later
"""Was the machine busy with something else while a cell ran for its times?

The limits are stated here, before any cell runs; docs/reading-times.md has the measurement that
they come from. A disturbed repeat is marked and stays in every figure.
"""

from dataclasses import dataclass
from typing import NamedTuple

from analysis.raw.cells import Cell, Disturbance
from analysis.raw.run import Run, Target
from analysis.wording import counted, listed, number

# Shares of a cell's wall time. What is stolen or taken prolongs iterations by as much on average;
# a smaller share is less than repeats of a quiet machine differ by.
MOST_STOLEN = 0.05  # by the hypervisor, on one measured CPU
MOST_TAKEN = 0.10  # by other processes, on the measured CPUs together


class Shares(NamedTuple):
    """What was certainly taken from a cell, as shares of its wall time.

    The kernel counts in steps, so up to one step of each CPU's time may be none.
    """

    stolen: float
    taken: float

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN or self.taken > MOST_TAKEN


@dataclass(frozen=True)
class DisturbedRun:
    """A disturbed run of a cell."""

    target: Target
    cell: Cell
    shares: Shares


@dataclass(frozen=True)
class Disturbed:
    """Of a run's unprobed cell runs that give times: how many, and the disturbed ones."""

    timed: int
    recorded: int  # of `timed`, those whose machine was watched: none in an older run
    runs: tuple[DisturbedRun, ...]

    @property
    def share(self) -> float | None:
        """Disturbed ones of those that were watched; None where none was."""
        return len(self.runs) / self.recorded if self.recorded else None

    def sentence(self) -> str:
        """How many were disturbed, by what; empty where a run has no times."""
        if not self.timed:
            return ""
        if not self.recorded:
            return "Whether repeats were disturbed is not recorded in this run."
        by = {
            f"the hypervisor took more than {MOST_STOLEN:.0%} of the time of a CPU": [
                run for run in self.runs if run.shares.stolen > MOST_STOLEN
            ],
            f"other processes ran for more than {MOST_TAKEN:.0%} of the time": [
                run for run in self.runs if run.shares.taken > MOST_TAKEN
            ],
        }
        runs = f"{len(self.runs)} of {counted(self.recorded, 'unprobed cell run')}"
        text = f"Disturbed: {runs} ({number((self.share or 0) * 100)} %)"
        causes = [f"{words} in {len(found)}" for words, found in by.items() if found]
        return f"{text}: {listed(causes)}." if causes else f"{text}."


def shares(found: Disturbance) -> Shares:
    """What was certainly stolen on the CPU that lost most, and taken on all of them."""
    stolen = max(cpu.steal_ns for cpu in found.cpus.values()) - found.step_ns
    taken = found.others_ns - found.step_ns * len(found.cpus)
    return Shares(max(0, stolen) / found.wall_ns, max(0, taken) / found.wall_ns)


def is_disturbed(cell: Cell) -> bool | None:
    """None where it is not recorded."""
    return None if cell.disturbance is None else shares(cell.disturbance).disturbed


def share_disturbed(run: Run) -> Disturbed:
    """The cell runs of the host that give times."""
    timed = [
        (target, cell)
        for target in run.targets
        for cell in target.cells
        if target.timed and cell.result and not cell.probed
    ]
    watched = [
        DisturbedRun(target, cell, shares(cell.disturbance))
        for target, cell in timed
        if cell.disturbance is not None
    ]
    disturbed = tuple(found for found in watched if found.shares.disturbed)
    return Disturbed(len(timed), len(watched), disturbed)
