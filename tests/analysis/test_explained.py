# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP's extra time by what it executes, in a made-up run with prices and exact counts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.analyse import analyse
from analysis.paths.figures import draw_exact
from analysis.raw.run import read_run
from analysis.report.explained import NOT_EXPLAINED, Explained, explain
from analysis.report.report import Report
from probes.contract import CELLS, MANIFEST, PRICES
from tests.analysis.make_run import HOST, SIZE, MadeUp, exact_line, exact_target, make_run, shape
from tests.analysis.test_events import TRUE, price_list
from tests.analysis.test_priced import KNOB

EVENTS = {
    "unix": {"instructions": 1000, "switches": 2, "string_bytes": 100},
    "tcp": {"instructions": 6000, "switches": 4, "string_bytes": 300},
}
CHARGED = 500  # instructions that a memory control group adds to a round trip over TCP
ENTRY = "client;[user];entry_SYSCALL_64"
TREES = [
    {ENTRY: (1, 1000)},
    {ENTRY: (1, 1000), f"{ENTRY};tcp_sendmsg": (2, 5000)},
    # With the knob:
    {ENTRY: (1, 1000)},
    {ENTRY: (1, 1000), f"{ENTRY};tcp_sendmsg": (2, 5000 + CHARGED)},
]
MACHINE = {"kernel": HOST, "version": "#1 MADE UP", "cpu": "Made-up CPU"}


def line(number: int, transport: str, **changes: Any) -> dict[str, Any]:
    steps = sum(steps for _, steps in TREES[number - 1].values())
    counted = {"iterations": 300, "shapes": [shape("steady", 300, 300, steps, steps)]}
    events = {"events": {"executed": EVENTS[transport]}}
    return exact_line(number, transport, size=SIZE, sched="other", **counted, **events, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """TCP takes 6 µs longer."""

    def rtt(transport: str, _: str, repeat: int) -> int:
        return (10_000 if transport == "unix" else 16_000) + repeat

    folder = make_run(tmp_path, MadeUp(guest=False, repeats=7, rtt=rtt))
    lines = [line(number, transport) for number, transport in enumerate(EVENTS, 1)]
    lines += [line(number, transport, knob=KNOB) for number, transport in enumerate(EVENTS, 3)]
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["exact"] = [exact_target(folder / "raw", lines, TREES)]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    listed = price_list() | {"kernel": "6.12.0", "fingerprint": MACHINE}
    (folder / "raw/host" / PRICES).write_text(json.dumps(listed))
    return folder


def test_parts_have_their_prices_and_add_up_to_what_was_measured(run: Path) -> None:
    found = explain(analyse(read_run(run)))
    assert isinstance(found, Explained)
    parts = {part.name: part.ns for part in found.parts}
    assert parts["tcp"] == pytest.approx(5000 * TRUE["instructions"])
    assert parts["switching between tasks"] == pytest.approx(2 * TRUE["switches"])
    assert parts["copied and cleared"] == pytest.approx(200 * TRUE["string_bytes"])
    assert sum(parts.values()) == pytest.approx(found.measured.value) == pytest.approx(6_000)
    assert parts[NOT_EXPLAINED] == pytest.approx(6_000 - 2_000 - 1_000 - 4)


def test_the_report_says_what_is_not_explained(run: Path) -> None:
    assert main([str(run), "--quiet"]) == 0
    assert (run / "figures/explained.svg").exists()
    assert not (run / "figures/waterfall.svg").exists()
    answer = (run / "answer.md").read_text(encoding="utf-8")
    assert "costs 3.00 µs a round trip" in answer
    assert "TCP took 6.00 µs longer, so 3.00 µs (49.9 %) are not explained" in answer


def test_in_a_memory_control_group_both_are_counted_in_one(run: Path) -> None:
    in_a_group(run)
    found = explain(analyse(read_run(run)))
    assert isinstance(found, Explained)
    parts = {part.name: part.ns for part in found.parts}
    assert parts["tcp"] == pytest.approx((5000 + CHARGED) * TRUE["instructions"])
    assert "emulated, in a memory control group as" in found.sentence


def in_a_group(run: Path) -> None:
    change(
        run / "raw/host" / PRICES, lambda listed: listed["fingerprint"].update(knob=KNOB["name"])
    )


def in_a_group_alone(run: Path) -> None:
    """The prices are of processes in a group, and no round trip was counted in one."""
    in_a_group(run)
    cells = run / "raw/exact-6.12.0" / CELLS
    cells.write_text(cells.read_text().replace("cgroup-memory", "another-knob"))


def without_prices(run: Path) -> None:
    (run / "raw/host" / PRICES).unlink()


def of_another_machine(run: Path) -> None:
    change(run / "raw/host" / PRICES, lambda listed: listed["fingerprint"].update(cpu="Another"))


def counted_on_another_kernel(run: Path) -> None:
    change(run / "raw/host" / PRICES, lambda listed: listed.update(kernel="6.1.0"))


def without_events(run: Path) -> None:
    cells = run / "raw/exact-6.12.0" / CELLS
    lines = [json.loads(text) | {"events": None} for text in cells.read_text().splitlines()]
    cells.write_text("".join(json.dumps(each) + "\n" for each in lines))


def change(file: Path, by: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text())
    by(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (without_prices, "no prices of events"),
        (of_another_machine, "another machine"),
        (counted_on_another_kernel, "6.1.0"),
        (without_events, "no exact cell"),
        (in_a_group_alone, "was not counted so"),
    ],
)
def test_no_figure_without_prices_and_counts(
    run: Path, damage: Callable[[Path], None], why: str
) -> None:
    damage(run)
    report = Report(analyse(read_run(run)))
    assert isinstance(report.explained, str)
    assert why in report.explained
    assert why in report.box_times.lack
    assert {instruction_ns(report, cell.transport) for cell in report.analysis.cells} == {0.0}


def test_a_box_costs_its_instructions_and_the_code_that_these_fetch(run: Path) -> None:
    """A price for code is no part of this made-up machine, and switches are in no box."""
    report = Report(analyse(read_run(run)))
    told = EVENTS["tcp"]["instructions"] * TRUE["instructions"]
    assert instruction_ns(report, "tcp") * 6000 == pytest.approx(told)
    assert "Made-up CPU" in report.box_times.words


def instruction_ns(report: Report, transport: str) -> float:
    """What the drawn boxes of a transport say."""
    flame = draw_exact(report.analysis.exact, report.box_times)[-1]
    assert flame.explored
    [view] = [
        view
        for shown in flame.explored["views"].values()
        for view in shown
        if view["transport"] == transport
    ]
    return float(view["ns"])
