# SPDX-License-Identifier: GPL-2.0-or-later
"""What else a cell's CPUs did: the tidy table has it, and a disturbed repeat is marked."""

from typing import Any

import pytest

from analysis.raw.cells import Cell, Disturbance
from analysis.report.report import Report
from analysis.times.disturbed import MOST_STOLEN, MOST_TAKEN, shares_of
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell as Line
from tests.analysis.make_run import Change, MadeUp

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
    assert shares_of([Cell.model_construct(disturbance=found)]).disturbed is disturbed


def test_a_cell_that_is_placed_freely_meets_what_runs_on_two_cpus() -> None:
    """Of 40 CPUs two are taken: on a large machine some process always runs somewhere."""
    cpu = {"idle_ns": WALL, "steal_ns": 0, "interrupts": None, "khz": None}
    cpus = {str(number): cpu for number in range(36)}
    cpus |= {str(number): cpu | {"idle_ns": 0} for number in range(36, 40)}
    record = disturbance() | {"own_ns": 2 * WALL, "cpus": cpus}
    found = shares_of([Cell.model_construct(disturbance=Disturbance.model_validate(record))])
    off = 2 * STEP * (40 / 6) ** 0.5
    assert found.taken == pytest.approx((2 * WALL - off) / WALL * 2 / 40)


def test_what_steps_hide_in_a_cell_shows_in_the_sum_of_many() -> None:
    """Each cell lasts two steps. One of 20 has a step more that was stolen, or each one of them."""

    def run(stolen: int) -> list[Cell]:
        records = [disturbance() for _ in range(20)]
        for place, record in enumerate(records):
            record["wall_ns"] = 2 * STEP
            record["cpus"]["4"]["steal_ns"] = STEP if place < stolen else 0
        return [Cell.model_construct(disturbance=Disturbance.model_validate(r)) for r in records]

    assert not any(shares_of([cell]).disturbed for cell in run(20))
    assert shares_of(run(1)).stolen == 0
    assert shares_of(run(20)).disturbed
    assert shares_of(run(1)[:1]).least == 1  # both steps of it
    assert shares_of(run(1)).least < 0.2


def beside_the_wall(of_wall: dict[str, float], *, also: dict[int, float]) -> Change:
    """CPU time of both processes on one CPU, as parts of the wall time; `also`: of some repeats."""

    def change(cell: Line) -> None:
        cell["disturbance"] = disturbance()
        part = also.get(cell["repeat"], of_wall[cell["transport"]])
        cell["result"]["window_ns"] = round(160_000 / part)  # 80 µs of each process
        cell["result"]["intervals"] = []
        if cell["placement"] != "same-cpu":
            cell["result"]["cpus"] = [0, 1]

    return change


def test_what_another_takes_of_one_cpu_is_missing_in_the_cpu_time(analysed: Analyse) -> None:
    whole = {"unix": 1.0, "tcp": 0.99}
    found = analysed(MadeUp(change=beside_the_wall(whole, also={1: 0.85}))).disturbed
    assert [cell.repeat for _, cell, _ in found.runs] == [1, 1]
    assert [repeat for repeat, shares in found.repeats.items() if shares.disturbed] == [1]
    assert found.own["tcp"] == pytest.approx(0.99, abs=0.001)
    assert not found.apart


def test_what_both_transports_lack_another_had(analysed: Analyse) -> None:
    busy = beside_the_wall({"unix": 0.5, "tcp": 0.5}, also={})
    found = analysed(MadeUp(change=busy)).disturbed
    assert found.many and not found.apart


def test_interrupts_that_a_kernel_accounts_apart_are_said(analysed: Analyse) -> None:
    apart = beside_the_wall({"unix": 1.0, "tcp": 0.75}, also={})
    found = analysed(MadeUp(change=apart)).disturbed
    assert found.apart and "TCP's receive side" in found.processes()
    assert found.runs == ()  # what all cells lack, nobody took


@pytest.mark.parametrize(("cells", "marked"), [(2, {}), (3, {2: "3 of 4 cells"})])
def test_a_repeat_that_is_slow_in_several_cells_is_marked(
    analysed: Analyse, cells: int, marked: dict[int, str]
) -> None:
    slow = [(t, p) for t in ("unix", "tcp") for p in ("same-cpu", "cross-cpu")][:cells]

    def rtt(transport: str, placement: str, repeat: int) -> int:
        return 128_000 if repeat == 2 and (transport, placement) in slow else 100_000

    found = analysed(MadeUp(rtt=rtt, repeats=7, change=disturbing)).disturbed
    assert found.slow == marked


def test_a_disturbed_repeat_is_marked_and_counted(analysed: Analyse) -> None:
    analysis = analysed(MadeUp(change=disturbing))
    found = analysis.disturbed
    assert (found.watched, len(found.runs)) == (12, 1)
    ((_, cell, _),) = found.runs
    assert (cell.transport, cell.conditions.placement, cell.repeat) == ("tcp", "same-cpu", 1)
    assert "1 of 12" in found.disturbed_text()
    assert "machine was busy" not in Report(analysis).answer_md()
