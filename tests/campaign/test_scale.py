# SPDX-License-Identifier: GPL-2.0-or-later
"""Ten thousand cells are gathered within 2 GB.

`python -m tests.campaign.test_scale FOLDER` says how long that takes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.tools.pack import pack
from runners.campaign.gather import gather
from runners.campaign.jobs import Wanted, find_counted
from runners.process import REPOSITORY
from tests.exact.conftest import cell_run

CELLS, OF_A_JOB = 10_000, 4
LIMIT = 2 << 30
CELL = replace(cell_run(), id=1)


def make(folder: Path) -> int:
    """Jobs of the reference run's cells, as many as it takes; the rows of one of them."""
    run = folder / "reference"
    run.mkdir(parents=True)
    stored = REPOSITORY / "reports/reference/default"
    shutil.unpack_archive(stored / "raw.tar.xz", run)
    manifest = json.loads((stored / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"targets": [], "missing": []}))
    jobs = folder / "jobs"
    jobs.mkdir()
    pack(run, jobs / "0.parquet")
    table = pq.read_table(jobs / "0.parquet", columns=["id", "rows"])
    assert len(table) == OF_A_JOB
    for job in range(CELLS // OF_A_JOB):
        keys = {str(n): f"{job * OF_A_JOB + n}" for n in table["id"].to_pylist()}
        (jobs / f"{job}.json").write_text(json.dumps({"cells": keys}))
        if job:  # the same bytes: a copy on disk each, as jobs would leave
            shutil.copyfile(jobs / "0.parquet", jobs / f"{job}.parquet")
    return sum(map(len, table["rows"].to_pylist()))


def gather_all(folder: Path) -> None:
    """Gather them in this process, which says how long that took and its most memory in KiB."""
    began = time.monotonic()
    wanted = [Wanted(str(n), "6.12", replace(CELL, id=n)) for n in range(1, CELLS + 1)]
    run = folder / "run"
    run.mkdir()
    gather(run, "large", wanted, find_counted(folder / "jobs"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = (run / "measurements.parquet").stat().st_size
    print(json.dumps({"seconds": time.monotonic() - began, "kib": most, "bytes": size}))


@pytest.mark.matrix
def test_ten_thousand_cells_are_gathered_within_two_gigabytes(tmp_path: Path) -> None:
    rows = make(tmp_path)
    argv = [sys.executable, "-m", "tests.campaign.test_scale", str(tmp_path)]
    said = subprocess.check_output(
        argv, text=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}
    )
    assert json.loads(said)["kib"] << 10 < LIMIT
    gathered = pq.ParquetFile(tmp_path / "run/measurements.parquet")
    assert gathered.metadata.num_rows == rows * (CELLS // OF_A_JOB)


if __name__ == "__main__":
    if not Path(sys.argv[1], "jobs").exists():
        make(Path(sys.argv[1]))
    gather_all(Path(sys.argv[1]))
