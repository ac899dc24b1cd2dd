# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer decides where its interval allows it; answer.json and the terminal say it."""

import json
import re
from copy import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import first_answer, main
from analysis.analyse import Analysis, analyse
from analysis.claims.verdict import settled
from analysis.counts.ledger import build_ledgers
from analysis.predict.prices import Described, read_prices
from analysis.predict.show import without_effect
from analysis.raw.run import read_run
from analysis.report import report, terminal
from analysis.report.answer import (
    PLACES,
    Answer,
    LedgerCount,
    Placed,
    PlacedCount,
    build_answer,
)
from analysis.report.decision import decision
from analysis.report.document import Document
from analysis.report.report import Report, overlap
from analysis.report.sentences import sentence
from analysis.report.terminal import WIDTH, table
from analysis.statistics import Estimate, compared
from analysis.wording import extent
from runners.cli import parse
from tests.analysis.make_run import MadeUp, make_run

FIRST = np.full(6, 10_000.0)
REACHED = {"unix": 90_000.0, "tcp": 60_000.0}


def placed(conditions: str, *more: float) -> Placed:
    """Six repeats in which the second transport takes so many nanoseconds more."""
    pair = compared(FIRST, FIRST + np.resize(np.array(more), 6))
    return Placed.of(conditions, pair, pair, 2, REACHED)


def decided(*times: Placed) -> str:
    answer = Answer(
        pattern="pingpong", size=64, transports=("unix", "tcp"), iteration="round trip",
        times=times, counts=(), kernels=(), host="host 9.9",
    )  # fmt: skip
    return decision(answer)


@pytest.mark.parametrize(
    ("times", "phrases"),
    [
        ((placed("same-cpu", 5000), placed("cross-cpu", 20_000)), ("adds 5.00 µs", "20.0 µs")),
        ((placed("same-cpu", -1000),), ("saves 1.00 µs", "one CPU")),
        # An interval that holds zero decides nothing.
        (
            (placed("same-cpu", 5000), placed("cross-cpu", -9000, 9500)),
            ("adds 5.00 µs", "across two CPUs, a difference that is not resolved"),
        ),
        # What is surely small is even.
        ((placed("same-cpu", -90, 100),), ("TCP is as fast on one CPU, to within ",)),
    ],
)
def test_a_decision_names_who_pays_how_much_and_where(
    times: tuple[Placed, ...], phrases: tuple[str, ...]
) -> None:
    assert [phrase for phrase in phrases if phrase not in decided(*times)] == []
    assert decided() == ""


def test_one_percent_is_of_the_largest_difference_that_is_left_open() -> None:
    assert placed("same-cpu", 5000).one_percent_ns == 500_000
    assert placed("cross-cpu", -9000, 9500).one_percent_ns > 100 * 9000


def test_a_request_that_does_other_work_is_decided_by_the_cold_difference() -> None:
    pair = compared(FIRST, FIRST + 5000)
    more = Estimate(6000, 5000, 7000)
    for messages in (1, 2):
        cold = Placed.of("same-cpu", pair, pair, messages, REACHED, more)
        assert cold.one_percent_ns == 100 * 12_000
        (share,) = (each for each in cold.shares if each.requests_per_s == 10_000)
        assert share.cold_cpu_share
        assert share.cold_cpu_share.value == pytest.approx((5000 * messages + 6000) * 1e-5)


def test_a_report_and_a_what_if_by_its_prices_decide_alike(tmp_path: Path) -> None:
    """The cold path was measured in fewer repeats than the run's own cells."""
    run = make_run(tmp_path, MadeUp(extra=(("selfecho", "same-cpu", "block"),), repeats=7))
    cells = [
        {"transport": transport, "pattern": "pingpong", "size": 64, "placement": "same-cpu",
         "cold": cold, "iteration_us": [9.9, 9.9], "client_cpu_us": [time, time + 1],
         "server_cpu_us": [1, 1]}
        for transport, cold, time in (
            ("unix", False, 5), ("tcp", False, 7), ("unix", True, 10), ("tcp", True, 20)
        )
    ]  # fmt: skip
    listed = {"format": 2, "measured": 1, "cells": cells, "fingerprint": {}}
    (run / "raw/host/prices.json").write_text(json.dumps(listed))
    answer = build_answer(analyse(read_run(run)))
    assert answer
    decided = {placed.conditions: placed.one_percent_ns for placed in answer.times}
    assert decided["same-cpu"] > 100 * 8000
    for cpus, placement in (("1", "same-cpu"), ("2", "cross-cpu")):
        given = {"rate": 10, "request": 10, "answer": 10, "work_us": 0, "clients": 1}
        described = Described.model_validate(given | {"connect": False, "cpus": cpus})
        assert without_effect(described, read_prices(run)) == pytest.approx(decided[placement])


def instructions(kernel: str, unix: int, tcp: int, *places: PlacedCount) -> LedgerCount:
    values = {"unix": float(unix), "tcp": float(tcp)}
    return LedgerCount(
        measure="instructions",
        words="",
        per="",
        headline=True,
        figures={name: f"{value:.0f}" for name, value in values.items()},
        values=values,
        ratio=(tcp / unix, tcp / unix),
        places=places,
        alike=False,
        probed=False,
        kernel=kernel,
        counted="counted somewhere",
        one_cpu=not places,
        default_scheduler=None,
        default_range=None,
        several=True,
    )


def answered(counts: tuple[LedgerCount, ...] = (), kernels: tuple[LedgerCount, ...] = ()) -> Answer:
    return Answer(
        pattern="pingpong",
        size=64,
        transports=("unix", "tcp"),
        iteration="round trip",
        times=(),
        counts=counts,
        kernels=kernels,
        host="",
    )


def test_kernels_are_compared_where_a_run_has_several() -> None:
    each = (
        instructions("Linux 1", 100, 300),
        instructions("Linux 2", 7, 7),
        instructions("Linux 3", 110, 150),
    )
    answer = answered(kernels=each)
    assert answer.between_kernels
    said = sentence("between_kernels", *answer.between_kernels)
    parts = ("Linux 1", "Linux 3", "from 100 to 110", "1.10 times", "from 300 to 150", "0.50 times")
    assert [part for part in parts if part not in said] == []
    assert answer.model_copy(update={"kernels": ()}).between_kernels is None


def test_a_rate_that_no_connection_reached_is_marked() -> None:
    shares = placed("same-cpu", 5000).shares
    assert [share.beyond for share in shares] == [False, False, True]
    assert shares[1].cpu_share.value == pytest.approx(5000e-9 * 2 * 10_000)


@pytest.mark.parametrize("option", PLACES.values())
def test_the_command_for_other_conditions_is_one(option: str) -> None:
    parse(option.split())


def test_a_quotient_of_counts_is_of_each_placement(plain: Analysis) -> None:
    there = plain.figures[plain.figures["measure"] == "skb_allocs"].assign(conditions="cross-cpu")
    there.loc[there["transport"] == "tcp", "value"] *= 2
    found = copy(plain)
    found.figures = pd.concat([plain.figures, there])
    found.ledgers = build_ledgers(found.figures, ())
    answer = build_answer(found)
    assert answer
    count = answer.count("skb_allocs")
    assert count
    assert count.ratio == (1.0, 2.0)
    assert count.times == f"{extent(1.0, 2.0)} times"


def test_p99s_are_told_apart_by_both_intervals() -> None:
    low, high = Estimate(10.0, 8.0, 13.0), Estimate(15.0, 12.0, 20.0)
    assert overlap([low, high])
    assert not overlap([low, Estimate(15.0, 14.0, 20.0)])
    assert not overlap([low])


def test_standard_output_is_answer_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path)
    assert main([str(run), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed == (run / "answer.json").read_text(encoding="utf-8")
    found = Document.model_validate_json(printed)
    assert found.answer
    (same_cpu,) = (times for times in found.answer.times if times.conditions == "same-cpu")
    pair = same_cpu.iteration_ns
    both = pair.first.value, pair.second.value
    assert both == pytest.approx((111_000, 222_000), rel=1e-4)
    assert pair.added.value == pytest.approx(both[1] - both[0])
    assert first_answer(run) == f"{found.decision} Counts follow."


@pytest.mark.parametrize("claims", [None, []])
@pytest.mark.parametrize("stderr", ["", "Lost 5 events\n"])
def test_the_answer_fits_a_small_terminal(
    tmp_path: Path, claims: list[str] | None, stderr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, MadeUp(stderr=stderr, options={"claims": claims}))
    assert main([str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23  # and the prompt, in a terminal of 24 lines
    assert [line for line in lines[:-1] if len(line) > WIDTH] == []
    assert lines[-1] == f"Report: {run / 'report.html'}"
    assert any(line.startswith("INVALID") for line in lines) is bool(stderr)
    assert any(line.startswith(("CONFIRMED", "REFUTED")) for line in lines)
    copies = any(line.startswith("copies of each byte") for line in lines)
    assert copies is (claims is None and not stderr)  # an invalid figure is no answer


def test_a_terminal_says_how_many_verdicts_it_leaves_out(
    plain: Analysis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(plain)
    for most in range(14, 24):
        monkeypatch.setattr(terminal, "MOST_LINES", most)
        terminal.show(report, Path("page"))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= most
        shown = sum(line.startswith(("CONFIRMED", "REFUTED", "CONDITIONAL")) for line in lines)
        counts = (re.match(r"(\d+) (?:more )?verdict", line) for line in lines)
        more = [int(count[1]) for count in counts if count]
        assert shown + sum(more) == len(settled(plain.verdicts)), most


def test_long_names_go_on_below_and_figures_stand_below_each_other() -> None:
    rows = pd.DataFrame([
        ("instructions a message, emulated", "8,250-10,875", "14,400-17,615", "1.62 times", ""),
        ("two CPUs", "3.71 µs", "8.41 µs", "4.70 µs (3.85\N{EN DASH}5.55)", "15.6, 29.7 µs"),
    ], columns=["made up", "one", "other", "more", "p99"])  # fmt: skip
    lines = list(table(rows))
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].index("more") == lines[1].index("1.62 times") == lines[-1].index("4.70 µs")
    names = " ".join(line.split("  ")[0] or line.strip() for line in lines[1:-1])
    assert names == "instructions a message, emulated"


def test_long_names_of_transports_leave_the_names_of_rows_room() -> None:
    names = ["unix-seqpacket-socketpair", "tcp-without-nodelay"]
    rows = pd.DataFrame(
        [["two CPUs, busy polling", "53.4 µs", "67.8 µs", "14.3 µs", "101; 115 µs"]]
    )
    rows.columns = pd.Index(["round trip, 64 B", *names, "difference (95 %)", f"p99: {names}"])
    lines = list(table(rows))
    assert len(lines) <= 4 and max(map(len, lines)) <= WIDTH


def test_counts_that_differ_by_placement_are_told_for_each() -> None:
    one = PlacedCount(conditions="same-cpu", figures={"unix": "5", "tcp": "8"}, ratio=1.6)
    two = PlacedCount(conditions="cross-cpu", figures={"unix": "7", "tcp": "9"}, ratio=9 / 7)
    alike = answered(counts=(instructions("Linux", 5, 8, one, one),))
    differing = answered(counts=(instructions("Linux", 5, 8, one, two),))
    for answer, names in ((alike, [""]), (differing, [", one CPU", ", two CPUs"])):
        rows = report.compared(answer, ()).iloc[:, 0]
        assert rows.tolist() == [f"instructions a message{name}" for name in names]
    said = sentence("copied_and_run", differing)
    assert "5 instructions over a Unix socket and 8 over TCP" in said
    assert "7 and 9 (1.29 times) across two CPUs" in said
