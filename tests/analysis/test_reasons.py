# SPDX-License-Identifier: GPL-2.0-or-later
"""Reasons are codes: each has its words, and each row of the table is written somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.counts.ledger import in_no_row, why_missing
from analysis.counts.quantities import MEASURES
from analysis.main import main
from analysis.raw.run import Missing
from probes import reasons
from runners.process import REPOSITORY
from tests.analysis.make_run import MadeUp, make_run

WRITTEN = re.compile(r'\b(?:reason|attach_error)\(\s*"([a-z-]+)"')


def test_every_code_is_in_the_table_and_every_row_is_written() -> None:
    files = [path for name in ("probes", "runners") for path in (REPOSITORY / name).rglob("*.py")]
    codes = {code for path in files for code in WRITTEN.findall(path.read_text("utf-8"))}
    assert codes == reasons.words().keys()


@pytest.mark.parametrize(
    ("code", "values"),
    [("made-up", {}), ("no-tracepoint", {}), ("no-kprobes", {"event": "sched:sched_switch"})],
)
def test_a_wrong_code_and_wrong_values_are_refused(code: str, values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=code):
        reasons.reason(code, **values)


def test_quantities_with_one_reason_are_one_entry() -> None:
    entries: list[dict[str, Any]] = []
    for quantity in ("copy_calls", "segments", "segments"):
        reasons.add(entries, reasons.missing([quantity], reasons.reason("no-kprobes"), by="bcc"))
    reasons.add(entries, reasons.missing(["segments"], reasons.reason("no-kprobes"), by="perf"))
    assert [entry["what"] for entry in entries] == [["copy_calls", "segments"], ["segments"]]


@pytest.mark.parametrize("change", [{"code": "made-up"}, {"values": {}}])
def test_a_reason_that_the_analysis_does_not_know_ends_in_a_sentence(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = reasons.missing(["switches"], reasons.reason("no-tracepoint", event="a:b")) | change
    assert main([str(make_run(tmp_path, MadeUp(missing=[entry])))]) == 1
    assert "run.json: the reason" in capsys.readouterr().err


def test_a_reason_belongs_to_its_own_quantity_alone() -> None:
    """`switches` and `switches_per_s` are in the name `machine_switches_per_s`."""
    name, why = "machine_switches_per_s", "the program's own server counts it"
    lack = Missing(name, "host", why, quantities=(name,))
    explained = {row.quantity for row in MEASURES if why_missing(row, (lack,)) == why}
    assert explained == {name}
    assert in_no_row([lack]) == {why: [name]}
