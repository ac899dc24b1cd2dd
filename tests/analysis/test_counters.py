# SPDX-License-Identifier: GPL-2.0-or-later
"""A CPU's counters as measures of the ledger, with made-up counts; and without a PMU."""

import json
from pathlib import Path

from analysis.analyse import Analysis, analyse
from analysis.counts.ledger import Row
from analysis.raw.run import read_run
from analysis.report.report import Report
from probes.reasons import Reason, missing, reason
from tests.analysis.make_run import MESSAGES, Cell, MadeUp, make_run

# Of a window: for each message 1,000 cycles, 500 instructions, 3 cache misses, 2 TLB misses.
COUNTED = {"cycles": 8000, "instructions": 4000, "cache_misses": 24, "tlb_misses": 16}
FIGURES = {
    **{"cycles": 1000, "instructions": 500, "instructions_per_cycle": 0.5},
    **{"cache_misses": 3, "tlb_misses": 2, "page_faults": 0},
}
NO_CYCLES = reason("no-hardware-event", event="cycles")
COLUMN = ("same-cpu", "unix")


def analyse_with(folder: Path, counted: dict[str, int], why: Reason | None = None) -> Analysis:
    """The made-up run, whose probed cells had `perf stat` attached as well."""

    def attach(cell: Cell) -> None:
        if "bpftrace" in cell["instruments"]:
            cell["instruments"] += ["perf"]
            cell["scripts"] += ["stat"]

    lack = [missing(["cycles"], why, by="perf stat")] if why else []
    run = make_run(folder, MadeUp(change=attach, missing=lack))
    (target,) = run.glob("raw/guest-*")
    probed = [
        cell
        for line in (target / "cells.jsonl").read_text().splitlines()
        if "perf" in (cell := json.loads(line))["instruments"]
    ]
    maps = {
        f"@{name}": {
            f"{cell['id']},total" if name == "instructions" else str(cell["id"]): value
            for cell in probed
        }
        for name, value in (counted | {"page_faults": 0}).items()
    }
    (target / "perf/1").mkdir(parents=True)
    (target / "perf/1/stat.json").write_text(json.dumps({"type": "map", "data": maps}) + "\n")
    (target / "perf/1/stat.stderr").write_text("")
    return analyse(read_run(run))


def row(analysis: Analysis, measure: str) -> Row:
    return analysis.ledgers[0].row(measure)


def test_a_pmu_gives_figures_for_each_message(tmp_path: Path) -> None:
    assert MESSAGES == 8
    analysis = analyse_with(tmp_path, COUNTED)
    for measure, value in FIGURES.items():
        found = row(analysis, measure)
        assert (found.instrument, found.target) == ("perf", "guest")
        assert found.entries[COLUMN].value == value


def test_without_a_pmu_they_are_missing_with_perfs_own_word(tmp_path: Path) -> None:
    analysis = analyse_with(tmp_path, {}, NO_CYCLES)
    found = row(analysis, "cycles")
    assert not found.entries
    assert found.why_missing == str(NO_CYCLES)
    assert "&lt;not supported&gt;" in Report(analysis).markdown()
