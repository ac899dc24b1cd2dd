# SPDX-License-Identifier: GPL-2.0-or-later
"""A run folder → everything that a report says. Pure: reads files, writes none."""

from dataclasses import dataclass

import pandas as pd

from analysis import exact
from analysis.agreement import Comparison, compare
from analysis.answer import answer
from analysis.claim_files import load_claims
from analysis.claims import Verdict, judge
from analysis.functions import FunctionTable, function_tables
from analysis.kernels import Kernels, compare_kernels
from analysis.ledger import Ledger, build_ledgers
from analysis.measures import measure_all, over_repeats
from analysis.raw import Run
from analysis.tables import Tables, build_tables
from analysis.timing import ProbeCost, Regime, build_regimes, probe_costs


@dataclass(frozen=True)
class Analysis:
    """A run and all that was made of it."""

    run: Run
    tables: Tables
    measured: pd.DataFrame
    ledgers: tuple[Ledger, ...]
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[Comparison, ...]
    regimes: tuple[Regime, ...]
    functions: tuple[FunctionTable, ...]
    kernels: Kernels
    costs: tuple[ProbeCost, ...]
    answer: tuple[str, str]
    exact: tuple[exact.Comparison, ...]

    @property
    def disagreements(self) -> tuple[Comparison, ...]:
        return tuple(c for c in self.comparisons if not c.agree)

    @property
    def unsound_cells(self) -> set[tuple[str, int]]:
        return {(one.lane.folder, one.cell.id) for one in self.tables.unsound}


def analyse(run: Run) -> Analysis:
    """Tables, ledger, verdicts, agreement and times of a run."""
    tables = build_tables(run)
    measured = measure_all(tables.tidy)
    figures = over_repeats(measured)
    ledgers = build_ledgers(figures, tables.missing)
    regimes = build_regimes(tables.tidy)
    folders = {(lane.lane, lane.kernel): lane.folder for lane in run.lanes}
    return Analysis(
        run=run,
        tables=tables,
        measured=measured,
        ledgers=ledgers,
        verdicts=judge(load_claims(), measured, tables.missing),
        comparisons=compare(tables.tidy),
        regimes=regimes,
        functions=function_tables(tables.tidy),
        kernels=compare_kernels(run, figures, tables.tidy, tables.missing),
        costs=probe_costs(
            tables.tidy[tables.tidy["instrument"] != "exact"], tables.probes, folders
        ),
        answer=answer(ledgers[0] if ledgers else None, regimes),
        exact=exact.compare(exact.read_exact(run)),
    )
