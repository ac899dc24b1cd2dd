# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in a terminal, and the ledger at the widths that terminals have."""

import json
import re
from pathlib import Path

import pytest
from rich.text import Text

from analysis.claims.files import load_claims
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.main import main
from analysis.report.terminal import says_no_more
from analysis.wording import NOT_MEASURED
from probes.reasons import missing, reason
from tests.analysis.make_run import TRANSPORTS, Cell, MadeUp, make_run


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_row_keeps_its_name_and_its_figures(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([str(run), "--full"]) == 0
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert [line for line in lines[:-1] if len(line) > width] == []  # the last: the path
    name = next(line for line in lines if line.lstrip().startswith("copies of each payload"))
    assert name.split()[-6:-1] == ["7.00", "7.00", *[NOT_MEASURED] * 2, "guest"]
    assert not [line for line in lines if "…" in line.lstrip()[1:]]  # nothing is cut off


def test_headlines_alone_unless_the_run_was_made_for_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = [claim for claim in load_claims() if claim.headline]  # the made-up run settles both
    first, second = settled
    less = (first, second.model_copy(update={"headline": False}))
    monkeypatch.setattr("analysis.analyse.load_claims", lambda: less)
    run = make_run(tmp_path)
    assert verdicts(run, capsys) == [first.statement]
    manifest = json.loads((run / "run.json").read_text())
    manifest["options"]["claims"] = []
    (run / "run.json").write_text(json.dumps(manifest))
    assert verdicts(run, capsys) == [first.statement, second.statement]


def verdicts(run: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main([str(run), "--full"]) == 0
    said = "^(?:REFUTED|CONFIRMED|CONDITIONAL)(?: on this machine)?(?: in .* of its scope)?  (.*)"
    found = re.findall(said, capsys.readouterr().out, re.M)
    return [str(statement) for statement in found]


def test_what_is_missing_and_has_no_row_is_named_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = reason("no-tracepoint", event="made:up")
    lacks = [
        missing(["call_tree"], needs),
        missing(["lsm_hooks", "audit_calls"], reason("no-hook", hook="bpf_lsm")),
        missing(["made_up"], reason("not-run", script="made_up"), requested=False),
        missing(["migrations"], reason("not-run", script="migrations"), requested=False),
    ]
    assert main([str(make_run(tmp_path, MadeUp(missing=lacks))), "--full"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f" Missing: call_tree: {needs}." in [line.rstrip() for line in lines]
    (row,) = (line for line in lines if line.startswith("calls of security hooks"))
    assert row.split()[-3:] == ["has", "no", "bpf_lsm"]
    assert not any("made_up" in line for line in lines)
    # Nobody asked for it: a row without figures would hide what was measured.
    words = MEASURE_BY_ID["migrations"].words
    assert not any(line.startswith(words) for line in lines)


def test_a_table_too_wide_for_the_screen_is_shown_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = [{}, {"sched": "batch"}, {"sched": "fifo"}, {"topology": "two"}, {"wait": "spin"}]
    numbers = iter(range(1000))

    def spread(cell: Cell) -> None:
        cell |= ways[next(numbers) // len(TRANSPORTS) % len(ways)]

    run = make_run(tmp_path, MadeUp(change=spread, repeats=5))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    assert main([str(run), "--full"]) == 0
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert [line for line in lines[:-1] if len(line) > 100] == []
    names = [line for line in lines if line.lstrip().startswith("packets through")]
    assert len(names) > 1, "a part for as many columns as there is room for, each with its names"


def test_a_source_that_says_no_more_than_another_shares_its_line() -> None:
    shown = ("2.00", "2.00", "1.00")
    assert says_no_more(("2.00", "2.00", NOT_MEASURED), shown)
    assert not says_no_more(("2.00", "2.01", NOT_MEASURED), shown)
    assert not says_no_more(shown, ("2.00", "2.00", NOT_MEASURED))


def test_a_first_answer_needs_only_the_times_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, MadeUp(guest=False))
    before = sorted(run.rglob("*"))
    assert main(["--first-answer", str(run)]) == 0
    assert sorted(run.rglob("*")) == before
    said = capsys.readouterr().out
    assert main([str(run), "--json"]) == 0
    decision = json.loads(capsys.readouterr().out)["answer"]["decision"]
    assert said == f"{decision} Counts follow.\n"


@pytest.mark.parametrize("claims", [None, []])
@pytest.mark.parametrize("stderr", ["", "Lost 5 events\n"])
def test_the_answer_fits_a_small_terminal(
    tmp_path: Path, claims: list[str] | None, stderr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, MadeUp(stderr=stderr))
    manifest = json.loads((run / "run.json").read_text())
    manifest["options"]["claims"] = claims
    (run / "run.json").write_text(json.dumps(manifest))
    assert main([str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert [line for line in lines[:-1] if len(line) > 80] == []
    assert lines[-1] == f"Report: {run / 'report.html'}"
    assert any(line.startswith("INVALID") for line in lines) is bool(stderr)
    assert any(line.startswith(("CONFIRMED", "REFUTED")) for line in lines)
    copies = any(line.startswith("copies of each payload byte") for line in lines)
    assert copies is (claims is None and not stderr)  # an invalid figure is no answer
