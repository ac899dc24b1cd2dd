# SPDX-License-Identifier: GPL-2.0-or-later
"""What is missing: reasons are codes with words, and each is told once."""

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.counts.ledger import why_missing
from analysis.counts.measures import MEASURES
from analysis.raw.run import Missing, read_run
from analysis.tidy import build_tables
from probes import reasons
from runners.process import REPOSITORY
from tests.analysis.make_run import PLACEMENTS, Cell, MadeUp, make_run

WRITTEN = re.compile(r'\b(?:reason|attach_error)\(\s*"([a-z-]+)"')
WHY = "this made-up kernel has no such socket."


def test_every_code_is_in_the_table_and_every_row_is_written() -> None:
    files = [path for name in ("probes", "runners") for path in (REPOSITORY / name).rglob("*.py")]
    codes = {code for path in files for code in WRITTEN.findall(path.read_text("utf-8"))}
    assert codes == reasons.words().keys()
    for code, values in (("made-up", {}), ("no-tracepoint", {}), ("no-kprobes", {"event": "x"})):
        with pytest.raises(ValueError, match=code):
            reasons.reason(code, **values)


def test_quantities_with_one_reason_are_one_entry() -> None:
    entries: list[dict[str, Any]] = []
    for quantity in ("copy_calls", "segments", "segments"):
        reasons.add(entries, reasons.missing([quantity], reasons.reason("no-kprobes"), by="bcc"))
    reasons.add(entries, reasons.missing(["segments"], reasons.reason("no-kprobes"), by="perf"))
    assert [entry["what"] for entry in entries] == [["copy_calls", "segments"], ["segments"]]


def test_a_reason_belongs_to_its_own_quantity_alone() -> None:
    """`switches` and `switches_per_s` are in the name `machine_switches_per_s`."""
    name, why = "machine_switches_per_s", "the program's own server counts it"
    lack = Missing(name, "host", why, quantities=(name,))
    assert {row.quantity for row in MEASURES if why_missing(row, (lack,)) == why} == {name}


def test_a_transport_that_cannot_run_is_absent_and_one_that_can_only_here_is_not(
    tmp_path: Path,
) -> None:
    def no_tcp(cell: Cell) -> None:
        if cell["transport"] == "tcp":
            cell["error"], cell["result"] = WHY, None

    def no_tcp_across(cell: Cell) -> None:
        if cell["placement"] == PLACEMENTS[1]:
            no_tcp(cell)

    found = []
    for name, change in (("a", no_tcp), ("b", no_tcp_across)):
        run = read_run(make_run(tmp_path / name, MadeUp(change=change, guest=False)))
        found += [(lack.what, lack.transport, lack.why) for lack in build_tables(run, ()).missing]
    assert found == [
        ("transport tcp", "tcp", WHY),
        ("tcp: pingpong of 10 B, cross-cpu, in 3 runs", "", WHY),
    ]
