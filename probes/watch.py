# SPDX-License-Identifier: GPL-2.0-or-later
"""watch.tsv: what `watch` counts of each end of a connection, and what it shows of each pair."""

from pathlib import Path
from typing import NamedTuple

from probes.files import read_rows, typed

TABLE = Path(__file__).with_suffix(".tsv")


class Column(NamedTuple):
    """A row of the table, whose head explains each field."""

    field: str
    source: str
    unit: str
    needed: bool
    json: str
    head: str
    title: str
    shown: str
    what: str

    @property
    def key(self) -> str:
        """Its name as a field of an end in watch.json."""
        return f"{self.field}_ms" if self.unit == "jiffies" else self.field


COLUMNS = tuple(Column(**typed(Column, row)) for row in read_rows(TABLE))
COUNTED = tuple(column for column in COLUMNS if column.source == "kernel")
