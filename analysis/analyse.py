# SPDX-License-Identifier: GPL-2.0-or-later
"""A run folder → everything that a report says. Pure: reads files, writes none."""

from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import pandas as pd

from analysis.claims.answers import read_observed
from analysis.claims.files import Claim, load_claims, quantities
from analysis.claims.judge import judge
from analysis.claims.verdict import NOT_MEASURED, Judged
from analysis.counts.agreement import df_pairs
from analysis.counts.ledger import build_ledgers, df_kernels
from analysis.counts.measures import measure_all, of_programs, over_repeats
from analysis.counts.programs import df_programs, survivals
from analysis.paths import cells as exact
from analysis.paths import functions
from analysis.paths.cells import read_exact
from analysis.paths.changes import knob_pairs
from analysis.raw.run import Missing, Run
from analysis.tidy import build_tables, of_two_ends
from analysis.times.disturbed import share_disturbed
from analysis.times.parts import decompose
from analysis.times.probe_cost import probe_costs
from analysis.times.timing import build_timings, read_iterations

# A run's tables are small: strings of pyarrow would make an analysis take a third longer.
pd.options.mode.string_storage = "python"


class Counts:
    """A run, its tables, and the measures of what its user requested.

    `named` names calls of functions, as claims do.
    """

    def __init__(self, run: Run, named: Collection[str] = ()) -> None:
        self.run, self.cells = run, read_exact(run)
        self.tables = build_tables(run, self.cells)
        self.everything = self._rows()
        self.measured = measure_all(self.everything, named)
        # A claim may ask what the cells show that divide a time.
        self.judged = pd.concat([self.measured, measure_all(self._rows(extra=True))])

    def _rows(self, *, extra: bool = False) -> pd.DataFrame:
        """Rows of the cells that the user requested, or of those that ran for their times only.

        What a knob changes has a table of its own: elsewhere it would pass for another placement.
        """
        tidy, knobs = self.tables.tidy, {str(c.conditions) for c in self.cells if c.knob}
        tidy = tidy[~tidy["conditions"].isin(knobs) & ~of_two_ends(tidy)]
        timed = {(at.kind, at.kernel, cell.id) for at, cell in self.run.cells() if cell.extra}
        cells = zip(tidy["target"], tidy["kernel"], tidy["cell"], strict=True)
        asked = pd.Series([(cell in timed) is extra for cell in cells], tidy.index, dtype=bool)
        return exact.as_sources(tidy[asked])


class Figures(Counts):
    """What is counted and timed in a run: all that an answer needs."""

    def __init__(self, run: Run, named: Collection[str] = ()) -> None:
        super().__init__(run, named)
        tidy = self.tables.tidy
        # An article's program has a table of its own, and no ledger.
        self.requested = self.everything[~of_programs(self.everything)]
        self.workload = self.measured[~of_programs(self.measured)]
        self.figures = over_repeats(self.workload)
        self.ledgers = build_ledgers(self.figures, self.tables.missing)
        self.iterations = read_iterations(run, self.tables.invalid_cells)
        self.timings = build_timings(tidy, self.iterations)
        self.exact = exact.compare(self.cells)
        self.parts = decompose(tidy)


class Analysis(Figures):
    """Figures, verdicts, and all else that a report shows."""

    def __init__(self, run: Run) -> None:
        claims = load_claims()
        super().__init__(run, quantities(claims))
        tidy = self.tables.tidy
        self.folders = _folders(run)
        verdicts = judge(claims, self.judged, self.tables.missing, read_observed(run))
        self.verdicts = _concerned(run, verdicts)
        self.comparisons = df_pairs(tidy)
        self.disagreements = self.comparisons[~self.comparisons["agree"]]
        self.disturbed = share_disturbed(run, tidy)
        self.wakeups = functions.df_wakeups(tidy)
        self.profiles = functions.profiles(run, self.tables.invalid_cells)
        self.kernels = df_kernels(self.figures)
        counted = self.requested[self.requested["instrument"] != "exact"]
        self.costs = probe_costs(counted, self.tables.probes, self.folders, self.timings)
        self.knobs = knob_pairs(self.cells)
        self.programs = df_programs(self.measured)
        self.survivals = survivals(self.measured)

    @property
    def has_figures(self) -> bool:
        """Whether anything valid was measured, or the kernel or a tool answered."""
        settled = any(verdict.settled for verdict in self.verdicts)
        return settled or bool(self.tables.tidy["valid"].any())


def analyse(run: Run) -> Analysis:
    """Everything that a report says of a run."""
    return Analysis(run)


def _folders(run: Run) -> dict[tuple[str, str], str]:
    """(target, kernel) → folder of its raw files; exact mode has one for both schedulers, and the
    first of a kernel's stands for all.
    """
    exact_ones = product(("exact-fifo", "exact-other"), reversed(run.manifest.exact))
    counted = {(target, entry.kernel): entry.folder for target, entry in exact_ones}
    return counted | {(target.kind, target.kernel): target.folder for target in run.targets}


def _concerned(run: Run, verdicts: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """A run for some claims settles others too; the report leaves out claims it does not settle."""
    named = run.named_claims
    return tuple(
        v
        for v in verdicts
        if not named or v.verdict != NOT_MEASURED or named & {v.claim.id, v.claim.source.id}
    )


def judge_again(runs: Sequence[Run], claims: tuple[Claim, ...]) -> tuple[Judged, ...]:
    """The verdicts of several runs together: a condition is of one run, its name the run's."""
    measured, missing, observed = [], list[Missing](), list[Any]()
    for run in runs:
        counts = Counts(run, quantities(claims))
        missing += counts.tables.missing
        name = {"run": run.name} if len(runs) > 1 else {}
        measured.append(counts.judged.assign(**name))
        observed += read_observed(run)
    return judge(claims, pd.concat(measured, ignore_index=True), missing, observed)
