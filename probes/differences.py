# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls with which a Unix socket does otherwise than TCP: differences.tsv.

Its `rows` are those of tests/conformance/rows.txt that show it.
"""

from functools import cache
from pathlib import Path

from probes.files import read_rows


@cache
def differences() -> dict[str, str]:
    """What each of them is, by its name."""
    rows = read_rows(Path(__file__).with_suffix(".tsv"))
    return {row["difference"]: row["what"] for row in rows}
