# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/knobs.md has the figures of its rows."""

import pandas as pd

from tests.docs import knobs


def test_the_page_is_what_the_rows_make() -> None:
    kept = knobs.PAGE.read_text(encoding="utf-8")
    assert knobs.page(pd.read_csv(knobs.ROWS)) == kept, f"the page is older: {knobs.REFRESH}"
