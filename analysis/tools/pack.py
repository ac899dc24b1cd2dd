# SPDX-License-Identifier: GPL-2.0-or-later
"""An exact run as one Parquet file, for campaigns: `python -m analysis.tools.pack RUN FILE`.

A row is a cell: its rows of the tidy table (`rows`), and its raw files as they are. The run's
run.json is the file's metadata.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.paths.cells import read_exact
from analysis.raw.exact import EXACT_LINES
from analysis.raw.run import ExactEntry, read_cells, read_run
from analysis.tables import COLUMNS, build_tables
from probes.messages import exit_status

TEXT = ("environment", "line", "tree", "iteration")
RUN = b"run.json"
# A row of the tidy table but for its run, which a campaign names.
ROW = pa.struct(
    {
        name: {
            **dict.fromkeys(("size", "repeat", "cell", "messages"), pa.int64()),
            **dict.fromkeys(("probed", "valid"), pa.bool_()),
            "value": pa.float64(),
        }.get(name, pa.string())
        for name in COLUMNS[1:]
    }
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("folder", pa.string()),
        ("error", pa.string()),
        ("rows", pa.list_(ROW)),
        *((name, pa.string()) for name in TEXT),
    ]
)


def pack(path: Path, file: Path) -> None:
    """Raises RunError for a damaged run."""
    run = read_run(path)
    tidy = build_tables(run, read_exact(run)).tidy
    tidy = tidy[tidy["instrument"] == "exact"]
    struct = pa.StructArray.from_arrays(
        [pa.array(tidy[field.name], field.type) for field in ROW], fields=list(ROW)
    )
    metadata = {RUN: (path / "run.json").read_bytes()}
    tables = []
    for entry in run.manifest.exact:
        ids, columns = _raw(path / "raw" / entry.folder, entry)
        where = [struct.field("cell").to_numpy() == number for number in ids]
        rows = [struct.filter(pa.array(mask)) for mask in where]
        offsets = np.cumsum([0, *map(len, rows)])
        listed = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(rows))
        tables.append(pa.table({**columns, "rows": listed}).select(SCHEMA.names).cast(SCHEMA))
    whole = pa.concat_tables(tables).replace_schema_metadata(metadata)
    partial = file.with_name(f".{file.name}.partial")
    pq.write_table(whole, partial, compression="zstd")
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    partial.replace(file)


def _raw(folder: Path, entry: ExactEntry) -> tuple[list[int], dict[str, list[object]]]:
    """The numbers of an exact folder's cells, and columns with what it has of each."""
    lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    cells = read_cells(folder, entry, EXACT_LINES)
    ids = [cell.id for cell in cells]
    columns: dict[str, list[object]] = {
        "id": list(ids),
        "folder": [entry.folder] * len(ids),
        "error": [cell.error for cell in cells],
        "environment": [(folder / "environment.json").read_text(encoding="utf-8")] * len(ids),
        "line": list(lines),
    }
    for name in ("tree", "iteration"):
        files = [folder / name / f"{number}.tsv" for number in ids]
        columns[name] = [f.read_text(encoding="utf-8") if f.exists() else None for f in files]
    return ids, columns


if __name__ == "__main__":
    sys.exit(exit_status(lambda: pack(Path(sys.argv[1]), Path(sys.argv[2]))))
