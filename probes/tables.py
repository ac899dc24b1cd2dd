# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of data, as in probes/*.tsv: tabs between columns, a head, and comments after `#`."""

import csv
from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Column → text for each row; an empty text where a row ends early."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = (line for line in lines if not line.startswith("#"))
        return list(csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))
