# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/knobs.md and docs/your-server.md have the figures of their rows."""

from types import ModuleType

import pandas as pd
import pytest

from tests.docs import knobs, proofs


@pytest.mark.parametrize("made", [knobs, proofs], ids=["knobs", "proofs"])
def test_the_page_is_what_the_rows_make(made: ModuleType) -> None:
    kept = made.PAGE.read_text(encoding="utf-8")
    assert made.page(pd.read_csv(made.ROWS)) == kept, f"the page is older: {made.REFRESH}"
