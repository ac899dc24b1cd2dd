# SPDX-License-Identifier: GPL-2.0-or-later
"""Was the machine busy with something else while cells ran for their times?

The limits are stated before any cell runs. The kernel counts stolen and idle time in steps of
10 ms, and many a cell is as short: so a repeat's cells are summed, and the run's, and `least` says
how much must be taken before it shows. On one CPU the CPU time of both processes fills the wall
time to the microsecond: what is missing there, something else took. Whatever is marked stays in
every figure: to drop it would choose repeats by their result.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import median
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.counts.measures import WORKLOAD, of_times
from analysis.raw.cells import Cell
from analysis.raw.run import Run, Target
from analysis.wording import counted, listed, number
from probes.transports import PAIR

# Shares of the wall time. What is stolen or taken prolongs iterations by as much on average; a
# smaller share is less than repeats of a quiet machine differ by.
MOST_STOLEN = 0.05  # by the hypervisor, on one measured CPU
MOST_TAKEN = 0.10  # by other processes, on the measured CPUs together
MOST_LOST = 0.05  # on one CPU, of the time that is neither process's
MOST_DISTURBED = 0.2  # of the cell runs: medians of a run with more are those of a busy machine
ENDS = 2  # of many CPUs a cell that is placed freely uses two at a time
# A repeat is slow in which so many cells, and such a part of them, take so many times their median.
SLOWER, SLOW_CELLS, SLOW_PART = 1.2, 3, 0.25
# Patterns in which one of two processes on one CPU can always run.
ALWAYS_BUSY = ("pingpong", "selfecho", "selfloop")
INTERRUPTS_APART = "CONFIG_IRQ_TIME_ACCOUNTING"


class Shares(NamedTuple):
    """What was certainly taken from some cells, as shares of their wall time."""

    stolen: float
    taken: float
    lost: float
    least: float  # the smallest share that is sure to show, by the kernel's steps

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN or self.taken > MOST_TAKEN or self.lost > MOST_LOST


class Disturbed(NamedTuple):
    """A run's unprobed cell runs that give times: how many were watched, and what was disturbed."""

    watched: int  # none in an older run
    runs: tuple[tuple[Target, Cell, Shares], ...]
    repeats: dict[int, Shares]  # of all their cells
    slow: dict[int, str]  # repeat → how many of its cells are slow
    least: tuple[float, float, float]  # that shows in a cell and in a repeat (medians), in the run
    run: Shares
    own: dict[str, float]  # transport → the processes' part of the median cell on one CPU
    apart: bool  # the kernel accounts interrupts apart from CPU time

    @property
    def many(self) -> bool:
        """Whether a reader must know it before any time."""
        return len(self.runs) > MOST_DISTURBED * self.watched or self.run.disturbed

    def how_many(self) -> str:
        """`18 of 160 unprobed cell runs`."""
        return f"{len(self.runs)} of {counted(self.watched, 'unprobed cell run')}"

    def words(self) -> str:
        """All that a report says of it."""
        parts = (self.disturbed_text(), self.how_told(), self.slow_ones(), self.processes())
        return " ".join(filter(None, parts))

    def short(self) -> str:
        """What a reader must know of it."""
        remarkable = self.processes() if self.others_ran else ""
        return " ".join(filter(None, (self.disturbed_text(), self.slow_ones(), remarkable)))

    def disturbed_text(self) -> str:
        """How many were disturbed."""
        if not self.watched:
            return "Whether repeats were disturbed is not recorded in this run."
        repeats = [repeat for repeat, shares in self.repeats.items() if shares.disturbed]
        all_repeats = counted(len(self.repeats), "repeat")
        return f"{self.how_many()}, and {len(repeats)} of {all_repeats}, were disturbed."

    def how_told(self) -> str:
        """What disturbed means, and how much would have shown; empty where nothing was watched."""
        if not self.watched:
            return ""
        stolen, taken, lost = (number(100 * share) for share in self.run[:3])
        shown = [
            f"{number(100 * share)} % of {what}"
            for share, what in zip(self.least, ("a cell", "a repeat", "the run"), strict=True)
            if share < 1  # steps may hide all of a short cell
        ]
        return (
            f"Disturbed means that the hypervisor took more than "
            f"{100 * MOST_STOLEN:.0f} % of a CPU, other processes {100 * MOST_TAKEN:.0f} %, or on "
            f"one CPU {100 * MOST_LOST:.0f} % of the time was neither process's. In the whole run "
            f"the hypervisor took at least {stolen} %, other processes {taken} %, and {lost} % on "
            f"one CPU was neither process's. The kernel counts stolen time in steps, so it surely "
            f"shows only from "
            f"{listed(shown)} on{'' if self.least[0] < 1 else '; most cells are too short for it'}."
        )

    def slow_ones(self) -> str:
        """The repeats that are slow; empty without any."""
        each = [f"{repeat} ({cells})" for repeat, cells in self.slow.items()]
        words = f"Slow in several cells, by more than {SLOWER} times their median: repeats"
        return f"{words} {listed(each)}." if each else ""

    @property
    def others_ran(self) -> bool:
        """Whether something else had much of the wall time on one CPU."""
        return bool(self.own) and 1 - min(self.own.values()) > MOST_LOST

    def processes(self) -> str:
        """How much of the wall time on one CPU both processes have, and where the rest is."""
        each = [f"{number(100 * part)} % ({name})" for name, part in self.own.items()]
        text = (
            f"On one CPU both processes' CPU time is {listed(each)} of the wall time (median cell)."
        )
        if not self.others_ran:
            return text if each else ""
        if not self.apart:
            return f"{text} Something else had the rest: other processes, or the hypervisor."
        return (
            f"{text} This kernel accounts interrupts apart ({INTERRUPTS_APART}): no CPU time of "
            "this report has softirqs, and with them what TCP's receive side costs."
        )


def own_part(cells: Iterable[Cell]) -> float | None:
    """The part of the wall time on one CPU that both processes have; None without such a cell.

    Over a path on which no third process works.
    """
    wall = own = 0
    for cell in cells:
        result = cell.result
        if not (result and result.cpus and len({*result.cpus}) == 1):
            continue
        if cell.pattern in ALWAYS_BUSY and cell.transport in PAIR:
            wall += result.window_ns
            own += 1000 * (result.both("rusage.user_us") + result.both("rusage.system_us"))
    return own / wall if wall else None


def shares_of(cells: Sequence[Cell], usual: float = 1.0) -> Shares:
    """What was taken from these cells, of which what else their CPUs did is recorded.

    A difference of steps is off by less than one, either way, and a sum by two deviations at most.
    `usual`: the processes' part of the wall time on one CPU in other cells.
    """
    records = [cell.disturbance for cell in cells if cell.disturbance]
    wall, step = sum(record.wall_ns for record in records), records[0].step_ns
    met = [min(1.0, ENDS / len(record.cpus)) for record in records for _ in record.cpus]
    names = {name for record in records for name in record.cpus}
    stolen = [[r.cpus[name].steal_ns for r in records if name in r.cpus] for name in names]
    taken = sum(r.rest_ns * min(1.0, ENDS / len(r.cpus)) for r in records)
    off, off_together = _off([1.0] * len(records)) * step, _off(met) * step
    part = own_part(cells)
    return Shares(
        stolen=max(0.0, max(map(sum, stolen)) - off) / wall,
        taken=max(0.0, taken - off_together) / wall,
        lost=max(0.0, usual - part) if part is not None else 0.0,
        least=2 * off / wall,
    )


def _off(weights: Sequence[float]) -> float:
    """How far a weighted sum of differences may be off, in steps of the clock."""
    return max(max(weights), 2 * sqrt(sum(weight**2 for weight in weights) / 6))


def share_disturbed(run: Run, tidy: pd.DataFrame) -> Disturbed:
    """The cell runs of the host that give times."""
    timed = [
        (target, cell)
        for target, cell in run.cells()
        if target.timed and cell.result and not cell.probed and cell.disturbance
    ]
    cells = [cell for _, cell in timed]
    parts = [(cell.transport, part) for cell in cells if (part := own_part([cell])) is not None]
    own = {name: median(part for by, part in parts if by == name) for name, _ in parts}
    settings = [target.environment.settings for target in run.targets if target.timed]
    told = {each.get(INTERRUPTS_APART) for each in settings}
    # Interrupts come with TCP alone; what else takes a CPU takes it from both.
    less = own.get(PAIR[0], 1.0) - own.get(PAIR[1], 1.0)
    apart = "n" not in told and less > MOST_LOST
    usual = own[PAIR[1]] if apart else 1.0
    watched = [(target, cell, shares_of([cell], usual)) for target, cell in timed]
    repeats = {
        repeat: shares_of([cell for cell in cells if cell.repeat == repeat], usual)
        for repeat in sorted({cell.repeat for cell in cells})
    }
    whole = shares_of(cells, usual) if cells else Shares(0, 0, 0, 0)
    return Disturbed(
        watched=len(watched),
        runs=tuple(each for each in watched if each[2].disturbed),
        repeats=repeats,
        slow=_slow(tidy),
        least=(
            median([shares.least for *_, shares in watched] or [0]),
            median([shares.least for shares in repeats.values()] or [0]),
            whole.least,
        ),
        run=whole,
        own=own,
        apart=apart,
    )


def _slow(tidy: pd.DataFrame) -> dict[int, str]:
    """Repeat → in how many of its cells it is slow, of those repeats that are: `3 of 8 cells`."""
    medians = of_times(tidy).query("key == 'p50'")
    table = medians.pivot_table("value", "repeat", [*WORKLOAD, "transport"])
    slow, cells = (table > SLOWER * table.median()).sum(axis=1), table.notna().sum(axis=1)
    marked = slow.index[slow >= np.maximum(SLOW_CELLS, SLOW_PART * cells)]
    return {int(repeat): f"{slow[repeat]} of {cells[repeat]} cells" for repeat in marked}
