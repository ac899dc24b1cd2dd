# SPDX-License-Identifier: GPL-2.0-or-later
"""functions.tsv: the layer and the purpose of a kernel function, by its name."""

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

from probes.files import read_rows

# What a compiler adds to a function's name: `.isra.0`, `.constprop.0.cold`.
COMPILED = re.compile(r"(\.(isra|part|constprop|cold|llvm)(\.\d+)?)+$")
FunctionColumn = Literal["layer", "purpose"]


@cache
def patterns(column: FunctionColumn) -> tuple[tuple[str, str], ...]:
    """Pattern and word of each row that has a word in this column, the most exact pattern first."""
    table = read_rows(Path(__file__).with_suffix(".tsv"))
    rows = [(row["function"], row[column]) for row in table if row[column]]
    return tuple(sorted(rows, key=lambda row: -len(row[0].replace("*", "")) + row[0].count("*")))


@cache
def told(function: str, column: FunctionColumn) -> str | None:
    """What the table says of a function; None where it says nothing."""
    name = COMPILED.sub("", function)
    fitting = (
        word for pattern, word in patterns(column) if fnmatchcase(name, pattern.replace("[", "[[]"))
    )
    return next(fitting, None)
