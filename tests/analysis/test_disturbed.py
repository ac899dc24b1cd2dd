# SPDX-License-Identifier: GPL-2.0-or-later
"""What else a cell's CPUs did: the tidy table has it, and a disturbed repeat is marked."""

from typing import Any

import pytest

from analysis.raw.cells import Cell, Disturbance
from analysis.report.report import Report
from analysis.times.disturbed import MOST_STOLEN, MOST_TAKEN, shares_of
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell as Line
from tests.analysis.make_run import MadeUp

WALL, STEP = 1_000_000, 10_000


def disturbance(stolen: float = 0, taken: float = 0, own: float = 0.5) -> dict[str, Any]:
    """On CPUs 3 and 4, as shares of the wall time: stolen on the second, taken on both together."""
    idle = int(WALL * (2 - own - taken - stolen))
    cpu = {"interrupts": 77, "khz": 3_000_000}
    return {
        **{"wall_ns": WALL, "step_ns": STEP, "own_ns": int(WALL * own), "load": 1.5},
        "cpus": {
            "3": {"idle_ns": idle // 2, "steal_ns": 0, **cpu},
            "4": {"idle_ns": idle - idle // 2, "steal_ns": int(WALL * stolen), **cpu},
        },
    }


def disturbing(cell: Line) -> None:
    """The second repeat of tcp on one CPU had a neighbour."""
    here = (cell["transport"], cell["placement"], cell["repeat"]) == ("tcp", "same-cpu", 1)
    cell["disturbance"] = disturbance(taken=0.4 if here else 0)


@pytest.mark.parametrize(
    ("stolen", "taken", "disturbed"),
    [
        (0, 0, False),
        (MOST_STOLEN, 0, False),
        (MOST_STOLEN + 0.02, 0, True),
        (0, MOST_TAKEN, False),
        (0, MOST_TAKEN + 0.03, True),
    ],
)
def test_the_limits_and_the_steps_of_the_clock(
    stolen: float, taken: float, disturbed: bool
) -> None:
    """A step of each CPU's clock may be none of it, and is taken off."""
    found = Disturbance.model_validate(disturbance(stolen, taken))
    shares = shares_of(Cell.model_construct(disturbance=found))
    assert shares is not None
    assert shares.disturbed is disturbed


def test_a_cell_that_is_placed_freely_meets_what_runs_on_two_cpus() -> None:
    """Of 40 CPUs two are taken: on a large machine some process always runs somewhere."""
    cpu = {"idle_ns": WALL, "steal_ns": 0, "interrupts": None, "khz": None}
    cpus = {str(number): cpu for number in range(36)}
    cpus |= {str(number): cpu | {"idle_ns": 0} for number in range(36, 40)}
    record = disturbance() | {"own_ns": 2 * WALL, "cpus": cpus}
    found = shares_of(Cell.model_construct(disturbance=Disturbance.model_validate(record)))
    assert found is not None
    assert found.taken == pytest.approx((2 * WALL - 40 * STEP) / WALL * 2 / 40)


def test_a_disturbed_repeat_is_marked_and_counted(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(change=disturbing))
    found = analysis.disturbed
    assert (found.watched, len(found.runs)) == (12, 1)
    ((_, cell, _),) = found.runs
    assert (cell.transport, cell.conditions.placement, cell.repeat) == ("tcp", "same-cpu", 1)
    assert "1 of 12" in found.sentence()
    assert "machine was busy" not in Report(analysis).answer_md()
