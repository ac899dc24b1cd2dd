# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that are made of stored rows are what the rows make, and the rows are whole."""

import re
from types import ModuleType

import pandas as pd
import pytest

from analysis.paths.figures import NEEDED, needed, scheduled
from probes.transports import PAIR
from tests.docs import (
    arm64,
    columns,
    idle_polling,
    knobs,
    lesions,
    lines,
    over_time,
    proofs,
    told_times,
)
from tests.docs.over_time import USUAL, Rows, match

CLOCK = 80  # instructions that branches on a clock's reading make in a round trip, at most


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows()


@pytest.mark.parametrize("made", [arm64, knobs, proofs, lesions, lines, over_time])
def test_the_page_is_what_the_rows_make(made: ModuleType) -> None:
    rows = made.Rows() if hasattr(made, "Rows") else pd.read_csv(made.ROWS)
    kept = made.PAGE.read_text(encoding="utf-8")
    assert made.page(rows) == kept, f"the page is older: {made.REFRESH}"


def test_the_pictures_of_cache_lines_are_of_the_stored_run() -> None:
    made = lines.pictures(lines.Rows())
    kept = {path.name: path.read_text(encoding="utf-8") for path in lines.ROWS.glob("*.svg")}
    assert made == kept, f"the pictures are older: {lines.REFRESH}"


def test_the_picture_of_told_times_is_of_the_newest_run() -> None:
    kept = told_times.PICTURE.read_text(encoding="utf-8")
    assert told_times.picture() == kept, f"the picture is older: {told_times.REFRESH}"


def test_three_ways_to_a_decision_have_one_direction_and_one_order_of_size() -> None:
    rows = proofs.several_ways(pd.read_csv(proofs.ROWS)).splitlines()[2:]
    assert len(rows) == len(proofs.SEVERAL_WAYS)
    for row in rows:
        shares = [float(share) for share in re.findall(r"\| ([\d.]+) %", row)]
        assert len(shares) == 3 and max(shares) < 3 * min(shares), row


def test_the_columns_of_watch_are_those_of_its_table() -> None:
    kept = columns.PAGE.read_text(encoding="utf-8")
    assert columns.page() == kept, f"the page is older: {columns.REFRESH}"


def test_what_a_message_needs_adds_up() -> None:
    rows = lesions.Rows()
    assert lesions.needed(rows.needs) == NEEDED.read_text(encoding="utf-8")
    for cell, usual, left, leaking in needed(rows.release):
        assert (usual, left) == (rows.usual(cell), rows.left(cell, 0))
        assert leaking == rows.left(cell, 1)
    for cell in rows.cells:
        taxes = rows.taxes[rows.taxes["cell"] == cell]
        assert rows.usual(cell) - taxes["instructions"].sum() == rows.left(cell, 1) > 0
    assert not needed("1.0")
    assert not scheduled("1.0", "other")
    for (knob, _), parts in rows.kernels.items():
        reasons = sum(parts.values()) - parts["kernel"] - parts["lesions"]
        assert parts["kernel"] - parts["lesions"] == reasons, f"{knob} is not explained"
        assert lesions.UNEXPLAINED not in parts, f"{knob} is not explained"


def test_only_the_default_scheduler_makes_a_count_depend_on_the_window() -> None:
    release = lesions.Rows().release
    fifo, other = (scheduled(release, sched) for sched in ("fifo", "other"))
    assert len(fifo) == len(other) == 9
    assert max(fifo) - min(fifo) < 0.005 < max(other) - min(other)


def test_layers_add_up_to_their_round_trip(rows: Rows) -> None:
    cell = [*over_time.WHERE, "kernel"]
    sums = rows.layers.groupby(cell, as_index=False)["instructions"].sum()
    both = sums.merge(rows.cells, on=cell, suffixes=("_layers", ""))
    assert len(both) == len(sums) > 0
    assert both["instructions_layers"].tolist() == both["instructions"].tolist()


def test_changes_add_up_to_the_difference_of_two_kernels(rows: Rows) -> None:
    """But for a branch on a clock: the most alike variants are compared, not the most frequent."""
    moved = rows.moved.assign(more=rows.moved["after"] - rows.moved["before"])
    sums = moved.groupby(["transport", "size", "first", "second"], as_index=False)["more"].sum()
    assert len(sums) == len(match(rows.cells, USUAL)) // len(rows.kernels) * len(rows.steps)
    for step in sums.itertuples():
        before, after = (rows.of(k, step.transport, step.size) for k in (step.first, step.second))
        assert abs(step.more - (after - before)) <= CLOCK


def test_each_commit_has_functions_that_changed_between_its_kernels(rows: Rows) -> None:
    """So that no row of causes.tsv outlives the figures that it was written for."""
    for cause in rows.causes.to_dict("records"):
        functions, step = str(cause["functions"]), (str(cause["first"]), str(cause["second"]))
        assert step in rows.steps
        cells = [(transport, size) for transport in PAIR for size in rows.sizes]
        assert any(rows.sum_of(functions, *step, *cell) for cell in cells), cause["commit"]


def test_the_table_of_idle_polling_is_of_its_runs() -> None:
    pd.testing.assert_frame_equal(idle_polling.table(), pd.read_csv(idle_polling.TABLE))
