# SPDX-License-Identifier: GPL-2.0-or-later
"""A run folder → everything that a report says. Pure: reads files, writes none."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import product
from typing import Any

import pandas as pd

from analysis.answer import build_answer
from analysis.claims.answers import Observed, read_observed
from analysis.claims.files import Claim, load_claims, quantities
from analysis.claims.judge import judge
from analysis.claims.verdict import CELLS, NOT_MEASURED, Verdict
from analysis.counts.agreement import Compared, agreements, compare
from analysis.counts.bistable import switch_modes
from analysis.counts.kernels import compare_kernels
from analysis.counts.ledger import build_ledgers
from analysis.counts.measures import measure_all, over_repeats
from analysis.counts.quantities import of_programs, program_of
from analysis.paths import cells as exact
from analysis.paths import functions
from analysis.paths.cells import read_exact
from analysis.paths.changes import knob_pairs
from analysis.programs import records
from analysis.programs.survival import calls_by_name, program_rows, survivals
from analysis.raw.run import Missing, Run
from analysis.tables import Tables, build_tables, of_two_ends
from analysis.times.disturbed import share_disturbed
from analysis.times.probe_cost import probe_costs
from analysis.times.timing import build_timings, read_iterations
from analysis.times.waterfall import decompose
from analysis.wording import probes_text, size_text

# A run's tables are small: strings of pyarrow would make an analysis take a third longer.
pd.options.mode.string_storage = "python"


class Figures:
    """A run, its tables and what is counted and timed in them: all that an answer needs."""

    def __init__(self, run: Run, named: Collection[str] = ()) -> None:
        self.run, self.cells = run, read_exact(run)
        self.tables = build_tables(run, self.cells)
        tidy, missing = self.tables.tidy, self.tables.missing
        invalid = {(found.target.folder, found.cell.id) for found in self.tables.invalid}
        everything = _requested(run, self.tables, self.cells)
        self.measured = measure_all(everything, named)
        # An article's program has a table of its own, and no ledger.
        self.requested = everything[~of_programs(everything)]
        self.workload = self.measured[~of_programs(self.measured)]
        self.figures = over_repeats(self.workload)
        self.ledgers = build_ledgers(self.figures, missing)
        self.iterations = read_iterations(run, invalid)
        self.timings = build_timings(tidy, self.iterations)
        self.exact = exact.compare(self.cells)
        self.parts = decompose(tidy)
        self.answer = build_answer(self)


class Analysis(Figures):
    """A run, its tables, ledgers, verdicts, times and all else that a report shows.

    `meanwhile` is called as soon as the figures are there.
    """

    def __init__(self, run: Run, meanwhile: Callable[[Figures], None]) -> None:
        claims = load_claims()
        super().__init__(run, quantities(claims))
        meanwhile(self)
        tidy, missing, requested = self.tables.tidy, self.tables.missing, self.requested
        invalid = {(found.target.folder, found.cell.id) for found in self.tables.invalid}
        self.folders = _folders(run)
        verdicts = judge(claims, self.measured, missing, read_observed(run))
        self.verdicts = _concerned(run, verdicts)
        self.comparisons = compare(tidy)
        self.agreements = agreements(tidy)
        self.switching = switch_modes(self.workload)
        self.disturbed = share_disturbed(run)
        self.functions = functions.function_tables(requested)
        self.path = functions.latencies(tidy)
        self.wakeups = functions.wakeups(tidy)
        self.profiles = functions.profiles(run, invalid)
        self.kernels = compare_kernels(run, self.figures, requested, missing)
        kernel_rows = requested[requested["instrument"] != "exact"]
        self.costs = probe_costs(kernel_rows, self.tables.probes, self.folders)
        self.crosscheck = functions.crosscheck(requested)
        self.knobs = knob_pairs(self.cells)
        self.programs = program_rows(self.measured)
        self.survivals = survivals(self.measured)
        self.calls = calls_by_name(tidy)

    def raw_cells(self) -> list[tuple[str, str, int, str, tuple[str, ...]]]:
        """File, folder, id, words and raw files of every run that a verdict rests on."""
        wanted = {
            (found.file, folder, cell)
            for verdict in self.verdicts
            for found in verdict.evidence
            if (folder := self.folders.get(found.machine))
            for cell in found.cells
        }
        once = self.tables.tidy.drop_duplicates(["target", "kernel", "cell", "pattern"])
        runs = once[once["instrument"] != "exact"].to_dict("records")
        named = dict(map(self._raw_run, runs))
        return [(*file, *named.get(file, ("", (file[0],)))) for file in sorted(wanted)]

    def _raw_run(
        self, row: dict[Any, Any]
    ) -> tuple[tuple[str, str, int], tuple[str, tuple[str, ...]]]:
        """File, folder and id of a row's cell run; its words, and the files that it left: its line,
        what the instruments wrote, and the time of each iteration. A run of an article's program
        is a line and no more.
        """
        folder, cell = self.folders[row["target"], row["kernel"]], row["cell"]
        if program_of(row["pattern"]):
            file, probes, left = records.FILE, ("bcc" if row["probed"] else "", ""), []
        else:
            file, probes = CELLS, self.tables.probes[folder, cell]
            left = [f"{name}/" for name in probes[0].split(", ") if name]
            samples = f"samples/{cell}.u32"
            left += [samples] if (self.run.path / "raw" / folder / samples).exists() else []
        words = (
            f"{row['transport']} · {row['pattern']} · {size_text(row['size'])} · "
            f"{row['conditions']} · repeat {row['repeat']} · {probes_text(*probes)}"
        )
        if (folder, cell) in self.disturbed.cells:
            words = f"{words} · disturbed"
        return (file, folder, cell), (words, (file, *left))

    @property
    def has_figures(self) -> bool:
        """Whether anything valid was measured, or the kernel or a tool answered."""
        settled = any(verdict.settled for verdict in self.verdicts)
        return settled or bool(self.tables.tidy["valid"].any())

    @property
    def disagreements(self) -> tuple[Compared, ...]:
        return tuple(c for c in self.comparisons if not c.agree)


def _folders(run: Run) -> dict[tuple[str, str], str]:
    """(target, kernel) → folder of its raw files; exact mode has one for both schedulers, and the
    first of a kernel's stands for all.
    """
    exact = product(("exact-fifo", "exact-other"), reversed(run.manifest.exact))
    counted = {(target, entry.kernel): entry.folder for target, entry in exact}
    return counted | {(target.kind, target.kernel): target.folder for target in run.targets}


def analyse(run: Run, meanwhile: Callable[[Figures], None] = lambda _: None) -> Analysis:
    """Tables, ledger, verdicts, agreement and times of a run."""
    return Analysis(run, meanwhile)


def _concerned(run: Run, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """A run for some claims settles others too; the report leaves out claims it does not settle."""
    named = run.named_claims
    return tuple(
        v
        for v in verdicts
        if not named or v.verdict != NOT_MEASURED or named & {v.claim.id, v.claim.source.id}
    )


def judge_again(runs: Sequence[Run], claims: tuple[Claim, ...]) -> tuple[Verdict, ...]:
    """The verdicts of several runs together: a condition is of one run, its name the run's."""
    measured, missing, observed = [], list[Missing](), Observed()
    for run in runs:
        cells = read_exact(run)
        tables = build_tables(run, cells)
        figures = measure_all(_requested(run, tables, cells), quantities(claims))
        missing += tables.missing
        if len(runs) == 1:
            return judge(claims, figures, missing, read_observed(run))
        measured.append(figures.assign(run=run.name))
        observed = observed.also(read_observed(run), run.name)
    return judge(claims, pd.concat(measured, ignore_index=True), missing, observed)


def _requested(run: Run, tables: Tables, exact_cells: Iterable[exact.ExactCell]) -> pd.DataFrame:
    """Rows of the cells that the user requested: the others ran for their times only.

    What a knob changes has a table of its own: elsewhere it would pass for another placement.
    """
    turned = {str(cell.conditions) for cell in exact_cells if cell.knob}
    tidy = tables.tidy[~tables.tidy["conditions"].isin(turned) & ~of_two_ends(tables.tidy)]
    extra = {
        (target.kind, target.kernel, cell.id)
        for target in run.targets
        for cell in target.cells
        if cell.extra
    }
    cells = zip(tidy["target"], tidy["kernel"], tidy["cell"], strict=True)
    asked = pd.Series([cell not in extra for cell in cells], tidy.index, dtype=bool)
    return exact.as_sources(tidy[asked])
