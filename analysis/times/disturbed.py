# SPDX-License-Identifier: GPL-2.0-or-later
"""Was the machine busy with something else while a cell ran for its times?

The limits are stated here, before any cell runs; docs/reading-times.md has the measurement that
they come from. A disturbed repeat is marked and stays in every figure.
"""

from typing import NamedTuple

from analysis.raw.cells import Cell
from analysis.raw.run import Run, Target
from analysis.wording import counted, listed, number

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
    """A run's unprobed cell runs that give times: how many, and the disturbed ones."""

    timed: int
    recorded: int  # of `timed`, those whose machine was watched: none in an older run
    runs: tuple[tuple[Target, Cell, Shares], ...]

    @property
    def share(self) -> float | None:
        """Disturbed ones of those that were watched; None where none was."""
        return len(self.runs) / self.recorded if self.recorded else None

    @property
    def cells(self) -> set[tuple[str, int]]:
        """Folder and id of each disturbed cell run."""
        return {(target.folder, cell.id) for target, cell, _ in self.runs}

    def how_many(self) -> str:
        """`18 of 160 unprobed cell runs`."""
        return f"{len(self.runs)} of {counted(self.recorded, 'unprobed cell run')}"

    def sentence(self) -> str:
        """How many were disturbed, and by what; empty where a run has no times."""
        if not self.timed:
            return ""
        if self.share is None:
            return "Whether repeats were disturbed is not recorded in this run."
        shares = [shares for _, _, shares in self.runs]
        stolen = sum(found.stolen > MOST_STOLEN for found in shares)
        taken = sum(found.taken > MOST_TAKEN for found in shares)
        causes = {
            f"the hypervisor took more than {MOST_STOLEN * 100:.0f} % of a CPU in": stolen,
            f"other processes ran for more than {MOST_TAKEN * 100:.0f} % of the time in": taken,
        }
        said = listed([f"{words} {count}" for words, count in causes.items() if count])
        text = f"{self.how_many()} were disturbed ({number(self.share * 100)} %)"
        return f"{text}: {said}." if said else f"{text}."

    @property
    def many(self) -> bool:
        """Whether a reader must know it before any time."""
        return (self.share or 0) > MOST_DISTURBED


def shares_of(cell: Cell) -> Shares | None:
    """None where it is not recorded. The kernel counts in steps: one of each CPU may be none."""
    if (found := cell.disturbance) is None:
        return None
    stolen = max(cpu.steal_ns for cpu in found.cpus.values()) - found.step_ns
    taken = found.others_ns - found.step_ns * len(found.cpus)
    met = min(1.0, ENDS / len(found.cpus))
    return Shares(max(0, stolen) / found.wall_ns, max(0, taken) / found.wall_ns * met)


def share_disturbed(run: Run) -> Disturbed:
    """The cell runs of the host that give times."""
    timed = [
        (target, cell, shares_of(cell))
        for target in run.targets
        for cell in target.cells
        if target.timed and cell.result and not cell.probed
    ]
    watched = [(target, cell, shares) for target, cell, shares in timed if shares]
    disturbed = (found for found in watched if found[2].disturbed)
    return Disturbed(len(timed), len(watched), tuple(disturbed))
