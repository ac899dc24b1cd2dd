# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes beside exact counts, function by function, and what a report draws of a made-up run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.analyse import analyse
from analysis.counts.ledger import build_ledgers
from analysis.counts.measures import measure_all, over_repeats
from analysis.paths import functions
from analysis.paths.export import folded
from analysis.paths.figures import branches, draw_exact
from analysis.raw.run import read_run
from tests.exact.test_analysis import write_run

MESSAGES = 46
EXACT = {"tcp_sendmsg": 1.0, "schedule": 1.0, "ip_rcv": 1.0, "tcp_ack": 1.0, "memset": 1.0}
EXACT["__tcp_select_window"] = 2.0
FTRACE = {"tcp_sendmsg": 46, "schedule": 92, "ip_rcv": 52, "tcp_ack": 23, "tick_periodic": 3}
FTRACE["__tcp_select_window"] = 46


def tidy() -> pd.DataFrame:
    cell = {
        "kernel": "6.12.0",
        "transport": "tcp",
        "pattern": "pingpong",
        "size": 64,
        "conditions": "same-cpu",
        "quantity": "function_calls",
        "valid": True,
    }
    exact = [
        cell | {"target": "exact-other", "instrument": "exact", "key": key, "value": calls * 2}
        for key, calls in EXACT.items()
    ]
    probed = [
        cell | {"target": "guest", "instrument": "ftrace", "key": key, "value": calls}
        for key, calls in FTRACE.items()
    ]
    rows = pd.DataFrame([*exact, *probed])
    return rows.assign(
        messages=[2 if target == "exact-other" else MESSAGES for target in rows["target"]]
    )


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        ("tcp_sendmsg", functions.EQUAL),
        ("schedule", functions.CONDITIONS),
        ("ip_rcv", functions.EDGE),
        ("tcp_ack", functions.OPEN),
        ("__tcp_select_window", functions.AGE),
        ("memset", functions.UNSEEN),
        ("tick_periodic", functions.OUTSIDE),
    ],
)
def test_each_function_has_a_verdict(function: str, verdict: str) -> None:
    rows = functions.crosscheck(tidy()).set_index("function")
    assert rows["verdict"][function] == verdict


def test_exact_mode_says_first_how_many_functions_there_are_and_what_ftrace_cannot_see() -> None:
    told = functions.hits_text(functions.crosscheck(tidy()))
    seen = "over TCP 6 (over 23 round trips in a guest ftrace counted 5: 5 of these and 0 others;"
    assert seen in told


def test_the_ledger_counts_functions_by_exact_mode_first() -> None:
    rows = tidy().assign(run="r", probe_level="function", repeat=0, cell=1, unit="count")
    rows["probed"] = rows["instrument"] == "ftrace"
    elsewhere = rows[rows["probed"]].assign(conditions="cross-cpu")
    figures = over_repeats(measure_all(pd.concat([rows, elsewhere])))
    (ledger,) = build_ledgers(figures, ())
    for measure in ("functions_hit", "function_calls"):
        assert [line.instrument for line in ledger.row(measure).lines] == ["exact", "ftrace"]
    assert ledger.row("functions_hit").lines[0].entries["same-cpu", "tcp"].value == len(EXACT)


def test_nothing_is_compared_across_kernels() -> None:
    rows = tidy()
    assert functions.crosscheck(rows.assign(kernel=rows["instrument"])).empty


def test_the_trees_stand_side_by_side_and_sum_to_the_round_trip(tmp_path: Path) -> None:
    (comparison,) = analyse(read_run(write_run(tmp_path))).exact
    told = {branch.function: branch.values for branch in branches(comparison)}
    assert told["[user]"] == (40, 62)
    assert told["tcp_sendmsg"] == (0, 52)
    assert told["unix_stream_sendmsg"] == (30, 0)


def test_folded_stacks_hold_every_instruction(tmp_path: Path) -> None:
    (comparison,) = analyse(read_run(write_run(tmp_path))).exact
    for cell in comparison.cells:
        lines = folded(cell).splitlines()
        assert sum(int(line.split(" ")[1]) for line in lines) == cell.total


def test_figures_are_the_same_for_the_same_run(tmp_path: Path) -> None:
    comparisons = analyse(read_run(write_run(tmp_path))).exact
    first, second = draw_exact(comparisons), draw_exact(comparisons)
    assert [figure.name for figure in first] == ["journey", "exact-flame"]
    assert [figure.svg for figure in first] == [figure.svg for figure in second]
