# SPDX-License-Identifier: GPL-2.0-or-later
"""What the gate says of a structure's lines: what moved, and not what was pushed on by it."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.paths.gate import parse_allowance
from analysis.paths.line_changes import line_change
from analysis.paths.lines import FIELD_HEAD, FieldOfObject
from probes.messages import UsageError

NO_MORE = [0] * (len(FIELD_HEAD.split("\t")) - 9)  # loads and stores in other ways
Fields = Mapping[str, tuple[int, float]]  # name → offset, loads
BASE: Fields = {"lock": (0, 1), "cold": (8, 0), "queue": (16, 1), "peer": (24, 1)}


def cell(fields: Fields, moves: float = 0) -> Any:
    rows = [
        FieldOfObject._make(["s", name, "s", at, 8, loads, *NO_MORE, "send f", "send f", ""])
        for name, (at, loads) in fields.items()
    ]
    line = SimpleNamespace(name="s", moves=moves, fields="", taken="", taker="", writer="")
    counts = SimpleNamespace(
        data=10, code=20, moves=SimpleNamespace(total=moves), objects={"s": 1.0}
    )
    return SimpleNamespace(field_rows=rows, line_rows=[line], lines=counts)


@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        (BASE, []),
        ({"lock": (0, 1), "peer": (8, 1), "cold": (16, 0), "queue": (24, 1)}, ["peer moved"]),
        ({**BASE, "counter": (32, 2)}, ["counter new"]),
        ({name: BASE[name] for name in ("lock", "cold", "queue")}, ["peer gone"]),
        (
            {"lock": (0, 1), "cold": (8, 0), "queue": (80, 1), "peer": (88, 1)},
            ["64 bytes more between lock and queue"],
        ),
        ({name: (at + 64, loads) for name, (at, loads) in BASE.items()}, []),
    ],
)
def test_the_fields_that_changed_are_the_reasons(after: Fields, reasons: list[str]) -> None:
    change = line_change(cell(BASE), cell(after, moves=2))
    assert change is not None
    (found,) = change.objects
    assert [reason[: len(text)] for reason, text in zip(found.reasons, reasons, strict=True)] == (
        reasons
    )
    assert str(found).startswith("+2 moves a round trip: s")


def test_what_a_timer_adds_is_no_change() -> None:
    change = line_change(cell(BASE), cell(BASE, moves=0.02))
    assert change is not None
    assert (change.objects, change.more.moves) == ((), 0)


@pytest.mark.parametrize(
    ("text", "moves", "holds"),
    [("0", 1, False), ("0,moves=1", 1, True), ("5%,lines=3", 1, False), ("0", 0, True)],
)
def test_lines_and_moves_have_allowances_of_their_own(text: str, moves: int, holds: bool) -> None:
    change = line_change(cell(BASE), cell(BASE, moves=moves))
    assert parse_allowance(text).holds_lines(change) == holds


def test_an_allowance_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="lines=N"):
        parse_allowance("0,bytes=1")
