# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on purpose in a guest: functions with wrong names, rings that are too small.

A kernel function that does not exist is missing from the report; a trace that lost events makes its
cell invalid.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.raw.run import read_run
from runners import process
from runners import run as run_module
from runners.cell import CellRun, Pass
from runners.cli import parse
from runners.host.session import Session
from runners.plan import OptionsPlanner
from runners.process import Progress
from runners.run import prepare_guests, run_in_guest
from tests.analysis.make_run import manifest
from tests.collected import Collected
from tests.guest import test_counts

pytestmark = [pytest.mark.guest, pytest.mark.matrix]
SCRIPTS = ("skbs", "copies", "path")
TRANSPORTS = 2


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with one function of `path` and the call sites of `copies` misspelt, and with
    two pages for what ftrace writes on each CPU: 46 messages call some ten thousand functions."""
    program = tmp_path_factory.mktemp("program")
    for name in ("runners", "probes"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(process.REPOSITORY / name, program / name, ignore=ignore)
    misspell(program / "probes/counters.tsv", "path\ttcp_queue_rcv\t", "path\ttcp_queue_recv\t")
    misspell(program / "probes/scripts.tsv", ">_copy_from_iter*", ">_copy_from_inter*")
    misspell(program / "runners/host/ftrace.py", "BUFFER_KB = 16384", "BUFFER_KB = 8")
    return program


def misspell(file: Path, right: str, wrong: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")


@pytest.fixture(scope="module")
def run(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in one boot: the broken scripts, then the function tracer."""
    folder = tmp_path_factory.mktemp("run")
    asked = parse(["--messages", "46", "--placements", "same-cpu"])
    plan = OptionsPlanner(asked).guest()
    cells = [run.cell for run in next(part.runs for part in plan.passes if part.scripts)][
        :TRANSPORTS
    ]
    passes: list[Pass] = []
    for scripts in (SCRIPTS, ("functions",)):
        first = 1 + TRANSPORTS * len(passes)
        runs = (CellRun(number, cell, 0) for number, cell in enumerate(cells, first))
        passes.append(Pass(scripts, tuple(runs)))
    plan = replace(plan, passes=tuple(passes))
    (machine,) = prepare_guests(Session(asked))
    (folder / "raw").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "REPOSITORY", broken)
        target = run_in_guest(plan, machine, folder / "raw", Progress())
    text = json.dumps(manifest("broken", targets=[target.entry], missing=target.missing))
    (folder / "run.json").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def collected(run: Path) -> Collected:
    (folder,) = (run / "raw").iterdir()
    return Collected(folder)


@pytest.fixture(scope="module")
def analysed(run: Path) -> Analysis:
    return analyse(read_run(run))


def test_the_rest_is_measured(collected: Collected) -> None:
    for cell in collected.probed():
        assert cell["scripts"] == ["skbs"]
        assert collected.counts(cell)["skb_clones"] == (46 if cell["transport"] == "tcp" else 0)


def test_what_is_absent_has_a_reason(collected: Collected) -> None:
    reasons = [(lack["by"], lack["code"], lack["values"]) for lack in collected.missing]
    assert ("bpftrace path", "no-function", {"function": "tcp_queue_recv"}) in reasons
    absent = {"function": "_copy_from_inter"}
    assert ("bpftrace copies", "no-function", absent) in reasons


def test_nothing_of_it_is_counted_as_zero(collected: Collected) -> None:
    for cell in collected.probed():
        names = {name.partition(" ")[0] for name in collected.counts(cell)}
        assert names == {"skb_allocs", "skb_clones", "skb_frees"}


def test_the_exactness_test_fails_for_what_is_absent_and_passes_for_the_rest(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(found: Collected, transport: str, *_: Any) -> list[tuple[int, int, dict[str, int]]]:
        return [(c["messages"], c["size"], found.counts(c)) for c in found.probed(transport)]

    monkeypatch.setattr(test_counts, "of", of)
    with pytest.raises(KeyError, match="copy_bytes in"):
        test_counts.test_each_byte_is_copied_once_in_and_once_out(collected, "unix")
    with pytest.raises(KeyError, match="messages sent"):
        test_counts.test_messages_are_counted_exactly(collected, "tcp")
    for cell in collected.probed("unix"):
        assert collected.counts(cell)["skb_frees"] == cell["messages"]


def test_the_report_names_it_as_missing(analysed: Analysis) -> None:
    (ledger,) = analysed.ledgers
    assert ledger.row("skb_clones").lines
    for measure in ("copied_in", "copied_kernel", "payload_copies"):
        row = ledger.row(measure)
        assert (row.lines, row.failed) == ((), True)
        assert "this kernel has no function _copy_from_inter" in row.why_missing


def test_a_ring_that_was_overrun_makes_its_cells_invalid(
    collected: Collected, analysed: Analysis
) -> None:
    cells = collected.running("functions")
    assert len(cells) == TRANSPORTS
    invalid = {found.cell.id: found.reasons for found in analysed.tables.invalid}
    for cell in cells:
        assert cell["lost"] > 0
        assert f"ftrace lost {cell['lost']} events" in invalid[cell["id"]]
