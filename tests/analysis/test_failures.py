# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells without a result: an absent transport, or what one cannot carry, said once."""

from pathlib import Path

from analysis.counts.ledger import why_missing
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.main import main
from analysis.raw.run import Missing
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import PLACEMENTS, Cell, MadeUp, make_run

WHY = "this made-up kernel has no such socket."


def no_tcp(cell: Cell) -> None:
    if cell["transport"] == "tcp":
        cell["error"], cell["result"] = WHY, None


def test_a_transport_that_cannot_run_is_absent_in_one_sentence(analysed: Analyse) -> None:
    missing = analysed(MadeUp(change=no_tcp, guest=False)).tables.missing
    assert [(lack.what, lack.transport, lack.why) for lack in missing] == [
        ("transport tcp", "tcp", WHY)
    ]


def test_the_report_lists_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, MadeUp(change=no_tcp, guest=False))
    assert main([str(run), "--quiet"]) == 0
    assert f"Absent here: transport tcp (host): {WHY}" in (run / "report.md").read_text()


def test_a_reason_is_of_the_quantities_that_it_names_and_of_no_longer_name() -> None:
    def why(*quantities: str) -> str:
        lack = Missing(", ".join(quantities), "host", WHY, quantities=quantities)
        return why_missing(MEASURE_BY_ID["switches"], (lack,))

    assert why("machine_switches_per_s", "switches") == WHY.rstrip(".")
    assert why("machine_switches_per_s") == "not measured in this run"


def test_what_only_some_cells_cannot_do_is_said_of_them(analysed: Analyse) -> None:
    def no_tcp_across(cell: Cell) -> None:
        if cell["placement"] == PLACEMENTS[1]:
            no_tcp(cell)

    (lack,) = analysed(MadeUp(change=no_tcp_across, guest=False)).tables.missing
    assert lack.what == "tcp: pingpong of 10 B, cross-cpu, in 3 runs"
    assert lack.transport == ""
