# SPDX-License-Identifier: GPL-2.0-or-later
"""Gathers what the jobs of a campaign left: one tidy table, and a run folder like any other.

Only the jobs' Parquet files are read, one after the other, so that memory does not grow with them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probes import reasons
from probes.reasons import reason
from runners.campaign.jobs import Found, Wanted

# Raw files are 0.9 MB a cell, and an analysis holds all cells of a run in memory, some 6 MB each.
MOST_REPORTED = 400
RAW = ("line", "tree", "iteration")
NUMBER = re.compile(r'^\{"id": \d+,')  # begins a line of cells.jsonl
RUN = b"run.json"


@dataclass
class Gathered:
    """What was gathered: entries of `exact` and of `missing` in run.json, and cells that failed."""

    run: Path
    name: str
    raw: bool  # whether raw files are written too
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    environments: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[int, str]] = field(default_factory=dict)
    writer: pq.ParquetWriter | None = None

    def add(self, file: Path, numbers: Mapping[int, int]) -> None:
        """Add cells of a job's file: the number that each has there → its number in the run."""
        columns = ["id", "folder", "error", "environment", "rows", *(RAW if self.raw else ())]
        table = pq.read_table(file, columns=columns)
        manifest = json.loads(table.schema.metadata[RUN])
        for entry in manifest["missing"]:
            reasons.add(self.missing, entry)
        table = table.filter(pa.array([old in numbers for old in table["id"].to_pylist()]))
        if not len(table):
            return
        folder, environment = table["folder"][0].as_py(), table["environment"][0].as_py()
        if self.environments.setdefault(folder, environment) != environment:
            why = reason("campaign-other-machine", job=file.stem)
            cells = (f"exact cell {numbers[old]}" for old in table["id"].to_pylist())
            self.missing.append(reasons.missing(cells, why) | {"target": folder})
            return
        self._entry(folder, manifest["exact"][0], len(table))
        new = [numbers[old] for old in table["id"].to_pylist()]
        for number, error in zip(new, table["error"].to_pylist(), strict=True):
            if error is not None:
                self.failed[f"{folder}, cell {number}"] = error
        self._rows(table["rows"].combine_chunks(), new)
        if self.raw:
            self._files(folder, new, table)

    def _entry(self, folder: str, given: dict[str, Any], runs: int) -> None:
        entry = self.entries.setdefault(folder, given | {"runs": 0, "lacking": {}})
        entry["runs"] += runs
        entry["lacking"] |= given["lacking"]

    def _rows(self, rows: Any, numbers: Sequence[int]) -> None:
        """Rows of the tidy table, with the cells' numbers and the name of this run."""
        flat = rows.flatten()
        lengths = np.diff(rows.offsets.to_numpy())
        columns = dict(zip((f.name for f in flat.type), flat.flatten(), strict=True))
        columns["cell"] = pa.array(np.repeat(numbers, lengths), pa.int64())
        table = pa.table({"run": pa.repeat(self.name, len(flat)), **columns})
        if self.writer is None:
            file = self.run / "measurements.parquet"
            self.writer = pq.ParquetWriter(file, table.schema, compression="zstd")
        self.writer.write_table(table)

    def _files(self, folder: str, numbers: Sequence[int], table: Any) -> None:
        raw = self.run / "raw" / folder
        for name in ("tree", "iteration"):
            (raw / name).mkdir(parents=True, exist_ok=True)
            for number, text in zip(numbers, table[name].to_pylist(), strict=True):
                if text:
                    (raw / name / f"{number}.tsv").write_text(text, encoding="utf-8")
        lines = self.lines.setdefault(folder, {})
        for number, line in zip(numbers, table["line"].to_pylist(), strict=True):
            lines[number] = NUMBER.sub(f'{{"id": {number},', line, count=1)

    def close(self) -> None:
        if self.writer:
            self.writer.close()
        for folder, lines in self.lines.items():
            raw = self.run / "raw" / folder
            (raw / "environment.json").write_text(self.environments[folder], encoding="utf-8")
            with (raw / "cells.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(f"{lines[number]}\n" for number in sorted(lines))


def gather(
    run: Path, name: str, wanted: Sequence[Wanted], counted: Mapping[str, Found]
) -> Gathered:
    """Fill the folder `run` with those of the `wanted` cells that were counted."""
    files: dict[Path, dict[int, int]] = {}
    for cell in wanted:
        if cell.key in counted:
            found = counted[cell.key]
            files.setdefault(found.file, {})[found.id] = cell.cell.id
    with closing(Gathered(run, name, len(wanted) <= MOST_REPORTED)) as gathered:
        for file, numbers in files.items():
            gathered.add(file, numbers)
    return gathered
