# SPDX-License-Identifier: GPL-2.0-or-later
"""A program beside the same pattern in C: how much of a difference survives."""

from pathlib import Path

import pytest

from analysis.counts import programs as c_baseline
from analysis.counts.measures import PROGRAMS
from tests.analysis.made_programs import analysed, redis
from tests.analysis.make_run import SIZE


def test_the_same_in_c_stands_beside_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is redis with kept connections; the run's ping-pong has another size."""
    monkeypatch.setattr(c_baseline, "IN_C", {"redis-keep": ("pingpong", SIZE, "")})
    lines = [
        redis(t, r, clients=1, variant="keep", window_ns=w)
        for r in range(6)
        for t, w in (("unix", 17_000_000), ("tcp", 17_100_000))
    ]
    analysis = analysed(tmp_path, lines)
    (found,) = analysis.survivals
    (program,) = found.programs
    assert program.ns.first.value == pytest.approx(1e6, rel=1e-3)
    assert program.ns.second.value == pytest.approx(1.006e6, rel=1e-3)
    assert {side.conditions for side in found.c_cells} == {"same-cpu", "cross-cpu"}
    assert {(side.pattern, side.size) for side in found.c_cells} == {("pingpong", SIZE)}
    for in_c in found.c_cells:
        assert in_c.ns.ratio.value > program.ns.ratio.value  # what redis does is the same for both


def test_a_program_is_compared_repeat_by_repeat(tmp_path: Path) -> None:
    """The machine gets slower all the time, and TCP is always the slower one; medians of each side
    alone would say otherwise, since the Unix socket's fast repeats are missing.
    """
    slow = [1, 2, 3, 4, 50, 60, 70]
    lines = [
        redis(t, r, clients=1, window_ns=17_000_000 * (slow[r] + (t == "tcp")),
             counted=16 if t == "unix" and r < 4 else 17)
        for r in range(len(slow))
        for t in ("unix", "tcp")
    ]  # fmt: skip
    (found,) = analysed(tmp_path, lines).survivals
    (program,) = found.programs
    assert program.ns.added.value == pytest.approx(1e6)
    assert program.ns.second.value - program.ns.first.value == pytest.approx(1e6)
    assert program.ns.ratio.value == pytest.approx(61 / 60)


def test_every_program_but_one_question_has_a_c_baseline() -> None:
    """fastcgi asks which protocol answers; there is nothing to time."""
    assert set(PROGRAMS) - set(c_baseline.IN_C) == {"gin-fastcgi"}
