# SPDX-License-Identifier: GPL-2.0-or-later
"""Two made-up runs compared: what changed, what is noise, and what became of functions."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.analyse import Analysis, analyse
from analysis.counts.measures import rows_of
from analysis.diff.compare import CHANGED, SAME, STEADY, UNKNOWN, compare, judge, pair_kernels
from analysis.paths.changes import renames
from analysis.raw.run import read_run
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp, make_run
from tests.exact.test_analysis import BASE, TCP, write_run

SIX = np.array([10.0, 11.0, 12.0, 13.0, 14.0, 15.0])


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([2.0, 2.0], [2.0, 2.0], SAME),
        ([2.0], [2.0], SAME),
        ([2.0, 2.0], [3.0, 3.0], CHANGED),  # a count that never varies has no noise
        ([2.0], [3.0], UNKNOWN),  # but one repeat does not say that it never varies
        ([2.0, 2.1, 2.2], [3.0, 3.1, 3.2], UNKNOWN),
        (SIX, SIX + 0.5, STEADY),
        (SIX, SIX + 20, CHANGED),
    ],
)
def test_a_change_is_judged_by_its_repeats(
    first: list[float], second: list[float], verdict: str
) -> None:
    low, high, found = judge(np.array(first), np.array(second))
    assert found == verdict
    assert (low is not None and high is not None) == (len(first) == 6)


def test_kernels_are_paired_by_name_and_the_only_others_with_each_other() -> None:
    assert pair_kernels(["5", "6"], ["6", "7"]) == {"6": "6", "5": "7"}
    assert pair_kernels(["5", "6"], ["7"]) == {}


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analyse(read_run(make_run(tmp_path_factory.mktemp("six"), MadeUp(repeats=6))))


def test_a_run_is_like_itself(six: Analysis) -> None:
    found = compare(six, six)
    assert set(found.shifts["verdict"]) == {SAME, STEADY}
    assert found.settings.empty


def test_a_slower_transport_is_beyond_the_noise_and_the_other_is_not(
    six: Analysis, analysed: Analyse
) -> None:
    def slower(transport: str, _: str, repeat: int) -> int:
        return (111_000 if transport == "unix" else 333_000) + repeat

    other = MadeUp(repeats=6, rtt=slower, kernel="9.9.1-made-up", cpu="Another CPU", guest=False)
    found = compare(six, analysed(other))
    shifts = found.shifts[found.shifts["conditions"] == "same-cpu"]
    times = shifts[shifts["measure"] == "rtt_p50"].set_index("transport")
    assert times["verdict"].to_dict() == {"unix": STEADY, "tcp": CHANGED}
    assert times["change"].to_dict() == {"unix": 0, "tcp": 111_000}
    assert set(times["target"]) == {"host"}
    assert set(times["second_kernel"]) == {"9.9.1-made-up"}
    assert ("host", "cpu", "Made-up CPU", "Another CPU") in list(
        map(tuple, rows_of(found.settings))
    )


def test_a_function_is_renamed_where_its_callers_and_its_name_are_alike() -> None:
    before = {
        "made_up.isra.0": Counter({"send": 1}),
        "made_up_alloc_skb": Counter({"send": 2}),
        "vanished": Counter({"send": 1}),
        "kept": Counter({"made_up.isra.0": 1}),
    }
    after = {
        "made_up": Counter({"send": 1}),
        "made_up_stream_alloc_skb": Counter({"send": 2}),
        "made_up_alloc_page": Counter({"send": 3}),  # as alike, but called more often
        "kept": Counter({"made_up": 1}),
    }
    assert renames(before, after) == {
        "made_up.isra.0": "made_up",
        "made_up_alloc_skb": "made_up_stream_alloc_skb",
    }


def test_an_exact_change_is_told_to_the_instruction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {f"{BASE};tcp_sendmsg": (2, 61), f"{BASE};tcp_sendmsg;memset": (1, 0)}
    first = write_run(tmp_path / "first")
    second = write_run(tmp_path / "second", tcp={**TCP, **changed})
    assert main(["--diff", str(first), str(second), "--out", str(tmp_path / "out")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "unix, 64 B, same-cpu, under SCHED_FIFO) takes the same 40" in said
    assert "takes 62 instructions in the first run and 71 in the second (+9, +14.5%)" in said
    table = pd.read_csv(tmp_path / "out/functions.csv")
    row = table[table["function"] == "tcp_sendmsg"].iloc[0]
    assert (row["first"], row["second"]) == (50, 61)
    stacks = (tmp_path / "out/folded/tcp-64-fifo-same-cpu.diff.folded").read_text().splitlines()
    assert [sum(int(line.split()[n]) for line in stacks) for n in (-2, -1)] == [62, 71]
    assert any(line.endswith("tcp_sendmsg;memset 2 0") for line in stacks)


def test_bad_input_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, other = (write_run(tmp_path / name) for name in ("first", "second"))
    alone = write_run(tmp_path / "alone", size=128)
    for arguments, said in (
        ([str(run), str(run)], "are one run"),
        ([str(run), str(tmp_path / "absent")], "is not a folder"),
        ([str(run), str(alone)], "nothing that was measured alike"),
        ([str(run), str(other), "--out", str(alone)], "needs a folder of its own"),
        ([str(run), str(other), "--out", str(run / "run.json")], "File exists"),
    ):
        assert main(["--diff", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("diff-*"))
    assert main([str(run), "--diff", str(run), str(other)]) == 2
