# SPDX-License-Identifier: GPL-2.0-or-later
"""Gathers what the jobs of a campaign left: one tidy table, and a run folder like any other.

Only the jobs' Parquet files are read, one after the other, so that memory does not grow with them.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from probes import reasons
from probes.reasons import reason
from runners.campaign.jobs import Found, Wanted

# Raw files are 0.9 MB a cell, and an analysis holds all cells of a run in memory, some 6 MB each.
MOST_REPORTED = 400


@dataclass
class Gathered:
    """What was gathered: entries of `exact` and of `missing` in run.json, and cells that failed."""

    raw: bool  # whether raw files are written too
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    environments: dict[str, str] = field(default_factory=dict)

    def read(self, file: Path, numbers: Mapping[int, int]) -> pa.Table:
        """Cells of a job's file: the number that each has there → its number in the run."""
        columns = ["id", "folder", "error", "environment", "rows"]
        columns += ["line", "tree", "iteration"] if self.raw else []
        table = pq.read_table(file, columns=columns)
        manifest = json.loads(table.schema.metadata[b"run.json"])
        for entry in manifest["missing"]:
            reasons.add(self.missing, entry)
        table = table.filter(pc.is_in(table["id"], pa.array(list(numbers))))
        new = [numbers[number] for number in table["id"].to_pylist()]
        table = table.set_column(0, "id", pa.array(new, pa.int64()))
        if not new:
            return table
        folder, environment = table["folder"][0].as_py(), table["environment"][0].as_py()
        if self.environments.setdefault(folder, environment) != environment:
            why = reason("campaign-other-machine", job=file.stem)
            entry = reasons.missing((f"exact cell {number}" for number in new), why)
            self.missing.append(entry | {"target": folder})
            return table[:0]
        given = manifest["exact"][0]
        entry = self.entries.setdefault(folder, given | {"runs": 0, "lacking": {}})
        entry["runs"] += len(new)
        entry["lacking"] |= given["lacking"]
        errors = zip(new, table["error"].to_pylist(), strict=True)
        self.failed |= {f"{folder}, cell {n}": error for n, error in errors if error is not None}
        return table


def gather(
    run: Path, name: str, wanted: Sequence[Wanted], counted: Mapping[str, Found]
) -> Gathered:
    """Fill the folder `run` with those of the `wanted` cells that were counted."""
    files: dict[Path, dict[int, int]] = defaultdict(dict)
    for cell in wanted:
        if found := counted.get(cell.key):
            files[found.file][found.id] = cell.run.id
    gathered = Gathered(len(wanted) <= MOST_REPORTED)
    lines: dict[str, dict[int, str]] = defaultdict(dict)
    with ExitStack() as stack:
        writer = None
        for file, numbers in files.items():
            table = gathered.read(file, numbers)
            rows = _rows(name, table)
            writer = writer or stack.enter_context(
                pq.ParquetWriter(run / "measurements.parquet", rows.schema, compression="zstd")
            )
            writer.write_table(rows)
            for cell in table.drop_columns("rows").to_pylist() if gathered.raw else ():
                lines[cell["folder"]][cell["id"]] = _raw(run / "raw" / cell["folder"], cell)
    for folder, by_number in lines.items():
        raw = run / "raw" / folder
        (raw / "environment.json").write_text(gathered.environments[folder], encoding="utf-8")
        text = "".join(f"{by_number[number]}\n" for number in sorted(by_number))
        (raw / "cells.jsonl").write_text(text, encoding="utf-8")
    return gathered


def _rows(name: str, table: pa.Table) -> pa.Table:
    """Rows of the tidy table, with the cells' numbers and the name of this run."""
    listed = table["rows"].combine_chunks()
    rows = pa.Table.from_struct_array(listed.flatten())
    numbers = table["id"].combine_chunks().take(pc.list_parent_indices(listed))
    rows = rows.set_column(rows.schema.get_field_index("cell"), "cell", numbers)
    return rows.add_column(0, "run", pa.repeat(name, len(rows)))


def _raw(folder: Path, cell: Mapping[str, Any]) -> str:
    """Write a cell's files of `raw`; its line of cells.jsonl."""
    for name in ("tree", "iteration"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        if cell[name]:
            (folder / name / f"{cell['id']}.tsv").write_text(cell[name], encoding="utf-8")
    return json.dumps(json.loads(cell["line"]) | {"id": cell["id"]})
