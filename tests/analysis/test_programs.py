# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of an article's own program: in the tidy table and the report, probed or not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.analyse import Analysis, analyse
from analysis.counts.measures import TIMES, rows_of
from analysis.counts.programs import INSTRUMENT
from analysis.raw.run import read_run
from analysis.report import terminal
from analysis.report.report import Report
from analysis.statistics import Estimate
from tests.analysis.made_programs import (
    analysed,
    both,
    line,
    pings,
    redis,
    round_trips,
    watched,
    write_lines,
)
from tests.analysis.make_run import MadeUp


@pytest.mark.parametrize("emulated", [False, True])
def test_a_program_on_an_emulated_cpu_has_no_times(tmp_path: Path, emulated: bool) -> None:
    lines = (redis("unix", 0), round_trips("unix", 0))
    run = write_lines(tmp_path, lines, MadeUp(emulated=emulated))
    tidy = analyse(read_run(run)).tables.tidy
    program = tidy[tidy["instrument"] == INSTRUMENT]
    assert set(program["quantity"]) & TIMES == (
        set() if emulated else {"requests_per_s", "server_ns", "messages_per_s", "cpu_ns", "rtt_ns"}
    )
    assert "time_wait" in set(program["quantity"])


def test_the_report_has_the_programs_figures(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(pings))
    rows = {row.measure.id: row for row in rows_of(analysis.programs)}
    assert rows["requests_per_s"].entries["unix"].value == pytest.approx(5000)
    assert rows["rtt_mean"].ratio == Estimate(1.5, 1.5, 1.5, 6)
    assert rows["segments_out"].ratio is None  # no segment over a Unix socket: nothing divides
    assert "gin-keep-log" in Report(analysis).markdown()


def beside(tmp_path: Path, **more: Any) -> Analysis:
    """Timed runs of redis, and two probed ones of each transport, ten times as slow."""
    probed = both(repeats=2, clients=1, window_ns=170_000_000, probed=watched(**more))
    return analysed(tmp_path, [*both(clients=1), *probed])


def test_probes_count_and_take_no_time(tmp_path: Path) -> None:
    analysis = beside(tmp_path)
    rows = {row.measure.id: row.entries for row in rows_of(analysis.programs)}
    assert rows["requests_per_s"]["unix"].value == pytest.approx(2000)
    # Once, by name, for each of 34 messages; not a second time out of the other tool.
    assert rows["syscalls"]["tcp"].value == pytest.approx(2.5)
    assert rows["reads_per_message"]["tcp"].value == pytest.approx(1)
    assert rows["wakeups_write_space_per_message"]["unix"].value == pytest.approx(0.5)
    assert {ledger.pattern for ledger in analysis.ledgers} == {"pingpong"}


def test_calls_that_a_program_missed_make_its_counts_invalid(tmp_path: Path) -> None:
    programs = beside(tmp_path, calls_missed=1).programs
    rows = {row.measure.id: row for row in rows_of(programs)}
    assert not rows["syscalls"].entries["unix"].valid
    assert rows["requests_per_s"].entries["unix"].valid


def served(transport: str, repeat: int, **more: Any) -> dict[str, Any]:
    """17 requests to a program of a file, in 17 ms over TCP and in 8.5 over a Unix socket."""
    took = 17_000_000 if transport == "tcp" else 8_500_000
    figures = {"clients": 3, "size": 100, "requests": 17, "counted": 17, "window_ns": took,
               "latency_ns": {"mean": took // 17}}  # fmt: skip
    return line(("my-own", "ask"), transport, repeat, **figures | more)


def test_a_program_of_a_file_has_its_figures(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(served))
    rows = {row.measure.id: row for row in rows_of(analysis.programs)}
    assert {(row.pattern, row.size, row.conditions) for row in rows.values()} == {
        ("my-own/ask", 100, "free+3-clients")
    }
    assert rows["requests_per_s"].entries["tcp"].value == pytest.approx(1000)
    assert rows["rtt_mean"].ratio == Estimate(2, 2, 2, 6)
    assert "my-own/ask" in Report(analysis).markdown()
    shown = terminal.programs(Report(analysis), ["", "unix", "tcp", "difference", "p99"])
    (row,) = shown.values.tolist()
    assert row[0].startswith("my-own/ask, ")
    assert row[1:3] == ["500 µs", "1.00 ms"]


def test_a_run_in_which_the_server_counts_otherwise_is_invalid(tmp_path: Path) -> None:
    tidy = analysed(tmp_path, both(served, counted=16)).tables.tidy
    assert not tidy[tidy["pattern"] == "my-own/ask"]["valid"].any()
    (tmp_path / "other").mkdir()
    tidy = analysed(tmp_path / "other", both(served, counted=None)).tables.tidy
    assert tidy[tidy["pattern"] == "my-own/ask"]["valid"].all()


def test_a_run_of_programs_alone_has_a_report(tmp_path: Path) -> None:
    run = write_lines(tmp_path, both(served), MadeUp(guest=False))
    for name in ("bpftrace", "perf", "bcc", "ftrace", "samples"):
        shutil.rmtree(run / "raw/host" / name, ignore_errors=True)
    (run / "raw/host/cells.jsonl").write_text("")
    manifest = json.loads((run / "run.json").read_text())
    manifest["targets"][0]["runs"] = 0
    (run / "run.json").write_text(json.dumps(manifest))
    analysis = analyse(read_run(run))
    assert analysis.ledgers == ()
    assert "my-own/ask" in Report(analysis).markdown()
