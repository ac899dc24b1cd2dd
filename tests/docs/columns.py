# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of columns in docs/predicting.md, made of probes/watch.tsv.

python -m tests.docs.columns    # fill the page again
"""

import re
from collections.abc import Iterable

from probes.watch import COLUMNS, Column
from runners.process import REPOSITORY

PAGE = REPOSITORY / "docs/predicting.md"
REFRESH = "python -m tests.docs.columns"
HEAD = "| column | meaning |\n| --- | --- |\n"
TABLE = re.compile(rf"(?<={re.escape(HEAD)})(\|.*\n)+")
# What `shown` makes of a count
SHOWN = {
    "": "",
    "a second": ", a second",
    "a request": " for a request: client / server",
    "mean": ", on average",
}


def page(columns: Iterable[Column] = COLUMNS) -> str:
    """Return the page with a line for each column that the terminal shows."""
    lines = [
        f"| `{column.head}` | {column.what}{SHOWN[column.shown]} |\n"
        for column in columns
        if column.head
    ]
    return TABLE.sub(lambda _: "".join(lines), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
