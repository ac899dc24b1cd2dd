# SPDX-License-Identifier: GPL-2.0-or-later
"""A run folder → everything that a report says. Pure: reads files, writes none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis import loopback
from analysis.counts.agreement import Agreement, Comparison, agreements, compare
from analysis.counts.bistable import SwitchModes, switch_modes
from analysis.counts.kernels import Kernels, compare_kernels
from analysis.counts.ledger import Ledger, build_ledgers
from analysis.counts.measures import measure_all, over_repeats
from analysis.counts.quantities import PROGRAMS
from analysis.exact import cells as exact
from analysis.exact.files import read_exact
from analysis.exact.knobs import KnobTable, knob_tables
from analysis.functions import calltree, wakeups
from analysis.functions.crosscheck import Crosscheck, crosschecks
from analysis.functions.profile import Profile, profiles
from analysis.functions.table import FunctionTable, function_tables
from analysis.programs import records
from analysis.programs.c_baseline import Calls, Survival, calls_by_name, survivals
from analysis.programs.table import Row, program_rows
from analysis.raw.cells import Cell
from analysis.raw.run import Missing, Run, Target
from analysis.summary import summary
from analysis.tables import Tables, build_tables
from analysis.times.probe_cost import ProbeCost, probe_costs
from analysis.times.timing import Iterations, Times, build_timings, read_iterations
from analysis.times.waterfall import Decomposition, decompose
from analysis.verdicts.files import Claim, load_claims, quantities
from analysis.verdicts.judge import judge
from analysis.verdicts.observed import Observed, read_observed
from analysis.verdicts.verdict import CELLS, NOT_MEASURED, Verdict, tally
from analysis.wording import probes_text, size_text

# A run's tables are small: strings of pyarrow would make an analysis take a third longer.
pd.options.mode.string_storage = "python"


@dataclass(frozen=True)
class Analysis:
    """A run and all that was made of it."""

    run: Run
    tables: Tables
    measured: pd.DataFrame
    ledgers: tuple[Ledger, ...]
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[Comparison, ...]
    iterations: Iterations
    switching: tuple[SwitchModes, ...]
    agreements: tuple[Agreement, ...]
    timings: tuple[Times, ...]
    parts: tuple[Decomposition, ...]
    functions: tuple[FunctionTable, ...]
    path: tuple[wakeups.Latency, ...]
    wakeups: tuple[wakeups.Wakeups, ...]
    trees: list[tuple[str, list[calltree.Message]]]
    profiles: tuple[Profile, ...]
    kernels: Kernels
    costs: tuple[ProbeCost, ...]
    summary: tuple[str, ...]
    exact: tuple[exact.Comparison, ...]
    crosschecks: tuple[Crosscheck, ...]
    knobs: tuple[KnobTable, ...]
    programs: tuple[Row, ...]
    survivals: tuple[Survival, ...]
    calls: tuple[Calls, ...]

    @property
    def folders(self) -> dict[tuple[str, str], str]:
        """(target, kernel) → folder of its raw files; exact mode has one for both schedulers."""
        found = {(target.kind, target.kernel): target.folder for target in self.run.targets}
        exact = {one.kernel for comparison in self.exact for one in comparison.cells}
        schedulings = ("fifo", "other")
        return found | {
            (f"exact-{s}", name): f"exact-{name}" for name in exact for s in schedulings
        }

    def raw_cells(self) -> list[tuple[str, str, int, str, tuple[str, ...]]]:
        """File, folder, id, words and raw files of every run that a verdict rests on."""
        wanted = {
            (one.file, folder, cell)
            for verdict in self.verdicts
            for one in verdict.evidence
            if (folder := self.folders.get(one.where))
            for cell in one.cells
        }
        named = {
            (CELLS, target.folder, cell.id): (_of_cell(cell), self._raw_files(target, cell))
            for target in self.run.targets
            for cell in target.cells
        } | self._program_runs()
        return [(*one, *named.get(one, ("", (one[0],)))) for one in sorted(wanted)]

    def _program_runs(self) -> dict[tuple[str, str, int], tuple[str, tuple[str, ...]]]:
        """The same of articles' programs, which are lines of one file."""
        rows = self.tables.tidy
        runs = rows[rows["pattern"].isin(PROGRAMS)].drop_duplicates(["target", "kernel", "cell"])
        found: dict[tuple[str, str, int], tuple[str, tuple[str, ...]]] = {}
        for _, row in runs.iterrows():
            folder = self.folders[str(row["target"]), str(row["kernel"])]
            where = (records.FILE, folder, int(row["cell"]))
            names = str(row["transport"]), str(row["pattern"]), str(row["placement"])
            probes = probes_text("bcc" if row["probed"] else "", "")
            words = _run_text(*names, int(row["size"]), int(row["repeat"]), probes)
            found[where] = (words, (records.FILE,))
        return found

    @staticmethod
    def _raw_files(target: Target, cell: Cell) -> tuple[str, ...]:
        """Its line, what the instruments left, and the time of each iteration."""
        samples = f"samples/{cell.id}.u32"
        iterations = [samples] if (target.path / samples).exists() else []
        return (CELLS, *(f"{name}/" for name in cell.instruments), *iterations)

    @property
    def disagreements(self) -> tuple[Comparison, ...]:
        return tuple(c for c in self.comparisons if not c.agree)


def _of_cell(cell: Cell) -> str:
    names = cell.transport, cell.pattern, str(cell.conditions)
    return _run_text(*names, cell.size, cell.repeat, probes_text(*cell.probes))


def _run_text(
    transport: str, pattern: str, placement: str, size: int, repeat: int, probes: str
) -> str:
    """`unix · pingpong · 64 B · same-cpu · repeat 0 · no probe`."""
    return f"{transport} · {pattern} · {size_text(size)} · {placement} · repeat {repeat} · {probes}"


def analyse(run: Run) -> Analysis:
    """Tables, ledger, verdicts, agreement and times of a run."""
    cells = read_exact(run)
    tables = build_tables(run, cells)
    claims = load_claims()
    everything = _asked(run, tables, cells)
    measured = measure_all(everything, quantities(claims))
    # An article's program has a table of its own, and no ledger.
    asked = everything[~everything["pattern"].isin(PROGRAMS)]
    workload = measured[~measured["pattern"].isin(PROGRAMS)]
    figures = over_repeats(workload)
    ledgers = build_ledgers(figures, tables.missing)
    invalid = {(one.target.folder, one.cell.id) for one in tables.invalid}
    iterations = read_iterations(run, invalid)
    timings = build_timings(tables.tidy, iterations)
    parts = decompose(tables.tidy)
    folders: dict[tuple[str, str], str] = {
        (target.kind, target.kernel): target.folder for target in run.targets
    }
    verdicts = _concerned(run, judge(claims, measured, tables.missing, read_observed(run)))
    return Analysis(
        run=run,
        tables=tables,
        measured=measured,
        ledgers=ledgers,
        verdicts=verdicts,
        comparisons=compare(tables.tidy),
        iterations=iterations,
        switching=switch_modes(workload),
        agreements=agreements(tables.tidy),
        timings=timings,
        parts=parts,
        functions=function_tables(asked),
        path=wakeups.latencies(tables.tidy),
        wakeups=wakeups.wakeups(tables.tidy),
        trees=calltree.all_conditions(calltree.messages(run)),
        profiles=profiles(run, invalid),
        kernels=compare_kernels(run, figures, asked, tables.missing),
        costs=probe_costs(asked[asked["instrument"] != "exact"], tables.probes, folders),
        summary=_summary(
            run,
            verdicts,
            (
                *summary(ledgers[0] if ledgers else None, timings, parts),
                *loopback.sentences(run),
            ),
        ),
        exact=exact.compare(cells),
        crosschecks=crosschecks(asked),
        knobs=knob_tables(cells),
        programs=program_rows(measured),
        survivals=survivals(measured),
        calls=calls_by_name(tables.tidy),
    )


def _summary(run: Run, verdicts: tuple[Verdict, ...], figures: tuple[str, ...]) -> tuple[str, ...]:
    """A run that was made for claims begins with what became of them."""
    if not run.for_claims:
        return figures
    return (f"{tally(verdicts)}.", *(figures if any(one.cells for one in run.targets) else ()))


def _concerned(run: Run, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """A run for some claims settles others too; of those that it does not, nothing is said."""
    named = run.named_claims
    return tuple(
        one
        for one in verdicts
        if not named or one.verdict != NOT_MEASURED or named & {one.claim.id, one.claim.source.id}
    )


def judge_again(runs: Sequence[Run], claims: tuple[Claim, ...]) -> tuple[Verdict, ...]:
    """The verdicts of several runs together: a condition is of one run, its name the run's."""
    measured, missing, observed = [], list[Missing](), Observed()
    for run in runs:
        cells = read_exact(run)
        tables = build_tables(run, cells)
        figures = measure_all(_asked(run, tables, cells), quantities(claims))
        missing += tables.missing
        if len(runs) == 1:
            return judge(claims, figures, missing, read_observed(run))
        measured.append(figures.assign(run=run.name))
        observed = observed.also(read_observed(run), run.name)
    return judge(claims, pd.concat(measured, ignore_index=True), missing, observed)


def _asked(run: Run, tables: Tables, exact_cells: Iterable[exact.ExactCell]) -> pd.DataFrame:
    """Rows of the cells that somebody asked for: the others are there for their times only.

    What a knob changes has a table of its own: elsewhere it would pass for another placement.
    """
    turned = {str(cell.conditions) for cell in exact_cells if cell.knob}
    tidy = tables.tidy[~tables.tidy["placement"].isin(turned)]
    extra = {
        (target.kind, target.kernel, cell.id)
        for target in run.targets
        for cell in target.cells
        if cell.extra
    }
    cells = zip(tidy["target"], tidy["kernel"], tidy["cell"], strict=True)
    return tidy[pd.Series([cell not in extra for cell in cells], tidy.index, dtype=bool)]
