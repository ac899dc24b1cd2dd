# SPDX-License-Identifier: GPL-2.0-or-later
"""A campaign's cells, each known by its inputs, and the jobs that count those which lack.

A job leaves jobs/NAME.parquet (`analysis.tools.pack`): its cells, whole or not there at all. What
it counts is in jobs/NAME.json, and NAME is made of that.
"""

import hashlib
import json
import re
from argparse import Namespace as Options
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from runners.cell import CellRun
from runners.exact.cells import cpus_of, impossible
from runners.exact.count import code_digest
from runners.exact.knobs import find
from runners.exact.machine import digest
from runners.exact.run import by_machine, plan_cells

SECONDS = 30.0  # that a job should take at least: the engine takes a second of it or two
CELL_SECONDS, BYTE_SECONDS = 3.0, 1 / 8192


class Wanted(NamedTuple):
    """A cell of the plan. `key` is a digest of all that decides its figures."""

    key: str
    kernel: str
    run: CellRun

    @property
    def machine(self) -> str:
        """A name for the machine that counts it."""
        text = f"{Path(self.kernel).name}-{cpus_of(self.run.cell)}cpu-{self.run.cell.knob}"
        known = hashlib.sha256(self.kernel.encode()).hexdigest()[:6]
        return re.sub("[^A-Za-z0-9.+_-]+", "_", text).strip("-") + f"-{known}"

    @property
    def seconds(self) -> float:
        """What it takes, roughly: that decides which job it goes to, and nothing else."""
        cell = self.run.cell
        once = CELL_SECONDS + cell.size * BYTE_SECONDS
        again = 1.5 if cell.sched == "fifo" else 1  # its payload is followed
        return once * again * (3 if cpus_of(cell) > 1 else 1)


class Found(NamedTuple):
    """Where a counted cell is: the job's file and the number that it has there."""

    file: Path
    id: int
    failed: bool


def wanted_cells(options: Options) -> list[Wanted]:
    """The cells of a plan that a machine may count, in order."""
    code, found = code_digest(), []
    for kernel, _, cells in by_machine(options.kernels, plan_cells(options), options.knobs):
        known = digest(Path(kernel).read_bytes()) if Path(kernel).is_file() else kernel
        for cell in cells:
            if not impossible(cell.cell):
                # The workload's command line has the number, whose length moves its stack.
                knob = asdict(find(cell.cell.knob))
                inputs = [known, code, asdict(cell.cell), knob, len(str(cell.id))]
                key = digest(json.dumps(inputs, sort_keys=True).encode())[:32]
                found.append(Wanted(key, kernel, cell))
    return found


def find_counted(folder: Path) -> dict[str, Found]:
    """The cells that earlier jobs counted, by key. A file that is damaged is removed."""
    found: dict[str, Found] = {}
    for file in sorted(folder.glob("*.parquet")):
        try:
            cells = json.loads(file.with_suffix(".json").read_text())["cells"]
            table = pq.read_table(file, columns=["id", "error"])
        except (OSError, ValueError, pa.ArrowException):
            file.unlink(missing_ok=True)
            continue
        failed = {cell["id"] for cell in table.to_pylist() if cell["error"] is not None}
        for number, key in cells.items():
            # A cell without a line was refused: no machine of this kernel can run it.
            if key not in found or found[key].failed:
                found[key] = Found(file, int(number), int(number) in failed)
    return found


def jobs_for(
    folder: Path, argv: Sequence[str], wanted: Sequence[Wanted], at_once: int
) -> dict[str, list[Wanted]]:
    """Jobs that count the cells which lack, by name: earlier ones, which may be at work, and new.

    The result of an earlier one, all of whose cells failed, is removed.
    """
    counted = find_counted(folder)
    lacking = {
        cell.key: cell for cell in wanted if cell.key not in counted or counted[cell.key].failed
    }
    jobs = {}
    for file in sorted(folder.glob("*.json")):
        job = json.loads(file.read_text())
        keys = job["cells"].values()
        if job["argv"] == list(argv) and lacking.keys() >= set(keys):
            jobs[file.stem] = [lacking.pop(key) for key in keys]
            file.with_suffix(".parquet").unlink(missing_ok=True)
    for cells in group(list(lacking.values()), at_once):
        jobs[write_job(folder, argv, cells)] = cells
    return jobs


def group(cells: Sequence[Wanted], at_once: int) -> list[list[Wanted]]:
    """Jobs of SECONDS or more, or as many as can run at once; each has one machine."""
    machines: dict[str, list[Wanted]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: -cell.seconds):
        machines[cell.machine].append(cell)
    total = sum(cell.seconds for cell in cells)
    jobs = at_once * max(1, int(total / SECONDS / at_once))
    groups = []
    for members in machines.values():
        share = sum(cell.seconds for cell in members) / total
        parts = max(1, min(len(members), round(jobs * share)))
        groups += [members[part::parts] for part in range(parts)]  # each has long and short ones
    return groups


def write_job(folder: Path, argv: Sequence[str], cells: Sequence[Wanted]) -> str:
    """Write what a job counts into `folder`; its name."""
    first = cells[0]
    job = {
        "argv": list(argv),
        "kernel": first.kernel,
        "cpus": cpus_of(first.run.cell),
        "cells": {cell.run.id: cell.key for cell in cells},
    }
    text = json.dumps(job, sort_keys=True)
    name = f"{first.machine}-{digest(text.encode())[:10]}"
    aside = folder / f"{name}.partial"
    aside.write_text(text)
    aside.replace(folder / f"{name}.json")
    return name
