# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/path-over-time.md is what its rows make, and the rows are whole."""

import pytest

from tests.docs import over_time
from tests.docs.over_time import USUAL, Rows, match

CLOCK = 80  # instructions that branches on a clock's reading make in a round trip, at most


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows()


def test_the_page_is_what_the_rows_make(rows: Rows) -> None:
    kept = over_time.PAGE.read_text(encoding="utf-8")
    assert over_time.page(rows) == kept, f"the page is older: {over_time.REFRESH}"


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
        cells = [(transport, size) for transport in ("unix", "tcp") for size in rows.sizes]
        assert any(rows.sum_of(functions, *step, *cell) for cell in cells), cause["commit"]
