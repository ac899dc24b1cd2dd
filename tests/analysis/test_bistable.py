# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells with one mode of switches, with several in a window, and that go from one to another."""

import pytest

from analysis.counts.bistable import BISTABLE, MIXED, ONCE, STEADY, SwitchModes
from analysis.counts.ledger import conditions_order
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import MadeUp


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((2.0, 2.01, 1.98), STEADY),
        ((2.0, 4.0, 2.0), BISTABLE),
        ((3.0, 3.5), BISTABLE),
        ((2.6, 2.7, 2.6), MIXED),
        ((2.0,), ONCE),
        ((2.5,), MIXED),
    ],
)
def test_kinds(values: tuple[float, ...], kind: str) -> None:
    modes = SwitchModes("pingpong", 64, "same-cpu", "unix", values, "made up")
    assert modes.kind == kind
    assert modes.words()


def test_repeats_in_two_modes_are_not_hidden_in_their_median(analysed: Analyse) -> None:
    found = analysed(MadeUp(switches=lambda t, _, repeat: (2 if t == "tcp" or repeat else 4, 0)))
    kinds = {(modes.transport, modes.conditions): modes.kind for modes in found.switching}
    assert kinds["unix", "cross-cpu"] == BISTABLE
    assert kinds["tcp", "cross-cpu"] == STEADY


def test_the_usual_way_stands_before_the_unusual_one() -> None:
    names = [
        "cross-cpu",
        "same-cpu+batch+two",
        "same-cpu+two",
        "free",
        "same-cpu",
        "same-cpu+batch",
    ]
    assert sorted(names, key=conditions_order) == [
        "same-cpu", "same-cpu+batch", "same-cpu+two", "same-cpu+batch+two", "cross-cpu", "free",
    ]  # fmt: skip
