# SPDX-License-Identifier: GPL-2.0-or-later
"""An article's own program: its figures in table and report, probed or not; claims about it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.analyse import Analysis, analyse
from analysis.counts.measures import is_time, rows_of
from analysis.counts.programs import INSTRUMENT
from analysis.raw.run import read_run
from analysis.report.report import Report
from analysis.report.requested import text_programs
from analysis.statistics import Estimate
from tests.analysis.made_programs import (
    Maker,
    analysed,
    both,
    calls,
    echoes,
    line,
    pings,
    redis,
    requests_in_fastcgi,
    round_trips,
    verdict,
    watched,
    write_lines,
)
from tests.analysis.make_run import MadeUp


def times_in(tidy: pd.DataFrame) -> set[str]:
    return set(filter(is_time, tidy["quantity"]))


@pytest.mark.parametrize("emulated", [False, True])
def test_an_emulated_cpu_and_a_program_on_it_have_no_times(tmp_path: Path, emulated: bool) -> None:
    lines = (redis("unix", 0), round_trips("unix", 0))
    run = write_lines(tmp_path, lines, MadeUp(emulated=emulated))
    tidy = analyse(read_run(run)).tables.tidy
    timed = {target: times_in(rows) for target, rows in tidy.groupby("target")}
    assert timed["guest"] == set()
    assert (timed["host"] == set()) is emulated
    program = tidy[tidy["instrument"] == INSTRUMENT]
    assert times_in(program) == (
        set() if emulated else {"requests_per_s", "server_ns", "messages_per_s", "cpu_ns", "rtt_ns"}
    )
    assert "time_wait" in set(program["quantity"])


def same(ratio: Estimate | None, value: float) -> bool:
    """Whether all six repeats have this ratio."""
    return ratio is not None and (ratio.value, *ratio.ends, ratio.repeats) == pytest.approx(
        (value, value, value, 6)
    )


def test_the_report_has_the_programs_figures(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(pings))
    rows = {row.measure.id: row for row in rows_of(analysis.programs)}
    assert rows["requests_per_s"].entries["unix"].value == pytest.approx(5000)
    assert same(rows["rtt_mean"].ratio, 1.5)
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
    assert same(rows["rtt_mean"].ratio, 2)
    assert "my-own/ask" in Report(analysis).markdown()
    (row,) = text_programs(analysis)
    assert row.name.startswith("request: my-own/ask · 100 B")
    assert (row.figures["unix"], row.figures["tcp"]) == ("500 µs", "1.00 ms")


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


def client(transport: str, repeat: int) -> dict[str, Any]:
    own = 100 if transport == "tcp" else 40
    return redis(transport, repeat, clients=1, user_us=17, system_us=own)


@pytest.mark.parametrize(
    ("made", "claim", "label", "value", "expected", "mechanism"),
    [
        (redis, "twenty-clients", "unix / tcp", 2, "NOT REPRODUCED", "TCP left 17.0 connections"),
        (client, "client-kernel-time", "tcp / unix", 2.5, "",
         "for each of the two messages: 500 ns and 500 ns"),
        # Both processes' 8 and 12 ms, over 2,000 messages.
        (round_trips, "latency-in-asyncio", "tcp / unix", 2.5, "NOT REPRODUCED",
         "A message took 4.00 µs in user mode and 6.00 µs in the kernel over TCP"),
        # As the article wrote it: so many messages in a call that it takes as long as TCP's one.
        (calls, "dotnet-as-written", "tcp / unix", 2, "CONFIRMED", ""),
        # 60 segments for 2,000 messages; 40 and 400 switches.
        (echoes, "echo-5-times", "unix / tcp", 1 / 8, "NOT REPRODUCED", "TCP 0.02, Unix 0.20"),
        (pings, "http-3-times", "unix / tcp", 1.5, "NOT REPRODUCED", ""),
    ],
)  # fmt: skip
def test_a_ratio_of_a_program(
    made: Maker, claim: str, label: str, value: float, expected: str, mechanism: str, tmp_path: Path
) -> None:
    found = verdict(analysed(tmp_path, both(made)), claim)
    assert found.evidence[0].figures[label].value == pytest.approx(value)
    assert (found.evidence[0].file, len(found.evidence[0].cells)) == ("programs.jsonl", 12)
    assert not expected or found.verdict == expected
    assert mechanism in found.mechanism


@pytest.mark.parametrize(("filling", "expected"), [(100_000, "CONFIRMED"), (500, "REFUTED")])
def test_the_share_of_a_request_that_its_address_takes(
    tmp_path: Path, filling: int, expected: str
) -> None:
    """Of TCP's millisecond a tenth, and half a thousandth."""
    found = verdict(analysed(tmp_path, both(clients=1, address_ns=filling)), "address-set-up")
    assert found.verdict == expected
    assert found.evidence[0].figures["tcp"].value == pytest.approx(filling / 1e6)


def test_a_failure_is_told(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, both(error="made up: the port is taken"))
    assert "made up: the port is taken" in {lack.why for lack in analysis.tables.missing}
    assert "--program redis" in verdict(analysis, "twenty-clients").why


@pytest.mark.parametrize(("protocol", "expected"), [("http", "REFUTED"), ("fastcgi", "CONFIRMED")])
def test_what_answers_in_http_does_not_speak_fastcgi(
    tmp_path: Path, protocol: str, expected: str
) -> None:
    asked: dict[str, Any] = {"answers": {protocol: 23}}
    found = verdict(analysed(tmp_path, both(requests_in_fastcgi, **asked)), "fastcgi-to-gin")
    assert found.verdict == expected
