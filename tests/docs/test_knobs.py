# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/knobs.md, docs/your-server.md and the page of lesions have the figures of their rows."""

from types import ModuleType

import pandas as pd
import pytest

from analysis.paths.figures import needed
from tests.docs import knobs, lesions, proofs


@pytest.mark.parametrize("made", [knobs, proofs], ids=["knobs", "proofs"])
def test_the_page_is_what_the_rows_make(made: ModuleType) -> None:
    kept = made.PAGE.read_text(encoding="utf-8")
    assert made.page(pd.read_csv(made.ROWS)) == kept, f"the page is older: {made.REFRESH}"


def test_what_a_message_needs_is_what_its_rows_make_and_adds_up() -> None:
    rows = lesions.Rows()
    kept = lesions.PAGE.read_text(encoding="utf-8")
    assert lesions.page(rows) == kept, f"the page is older: {lesions.REFRESH}"
    for cell, usual, left in needed(rows.release):
        assert (usual, left) == (rows.usual(cell), rows.left(cell, 1))
    for cell in rows.cells:
        taxes = rows.taxes[rows.taxes["cell"] == cell]
        assert rows.usual(cell) - taxes["instructions"].sum() == rows.left(cell, 1) > 0
    assert needed("1.0") == []
    for (knob, _), parts in rows.kernels.items():
        reasons = sum(parts.values()) - parts["kernel"] - parts["lesions"]
        assert parts["kernel"] - parts["lesions"] == reasons, f"{knob} is not explained"
        assert lesions.UNEXPLAINED not in parts, f"{knob} is not explained"
