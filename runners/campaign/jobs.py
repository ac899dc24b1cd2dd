# SPDX-License-Identifier: GPL-2.0-or-later
"""A campaign's cells, each known by its inputs, and the jobs that count those which lack.

A job leaves jobs/NAME.parquet (`analysis.tools.pack`): its cells, whole or not there at all. What
it was to count is in jobs/NAME.json, and NAME is made of that.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from runners.exact.cells import ExactCell
from runners.exact.decode.payload import LEAST_SIZE
from runners.exact.machine.boot import digest
from runners.exact.machine.checkpoints import code_digest
from runners.exact.run import by_machine, plan_cells
from runners.options import Options

SECONDS = 30.0  # that a job should take at least: the engine takes a second of it or two
# What a cell takes, roughly: it decides which job it goes to, and nothing else.
CELL_SECONDS, BYTE_SECONDS, PAYLOAD_SECONDS, TWO_CPUS = 3.0, 1 / 8192, 1.5, 3


class Wanted(NamedTuple):
    """A cell of the plan. `key` is a digest of all that decides its figures."""

    key: str
    kernel: str
    cell: ExactCell

    @property
    def machine(self) -> str:
        """A name for the machine that counts it."""
        text = f"{Path(self.kernel).name}-{self.cell.cpus}cpu-{self.cell.knob.name}"
        known = hashlib.sha256(self.kernel.encode()).hexdigest()[:6]
        return re.sub("[^A-Za-z0-9.+_-]+", "_", text).strip("-") + f"-{known}"

    @property
    def seconds(self) -> float:
        """What it takes, roughly."""
        each = CELL_SECONDS + self.cell.size * BYTE_SECONDS
        if self.cell.scheduling == "fifo" and self.cell.size >= LEAST_SIZE:
            each += PAYLOAD_SECONDS + self.cell.size * BYTE_SECONDS
        return each * (TWO_CPUS if self.cell.cpus > 1 else 1)


@dataclass(frozen=True)
class Found:
    """Where a counted cell is: the job's file and the number that it has there."""

    file: Path
    id: int
    failed: bool


def wanted_cells(options: Options) -> list[Wanted]:
    """The cells of a plan that a machine may count, in order."""
    code, known = code_digest(), {}
    found = []
    for kernel, _, cells in by_machine(options.kernels, plan_cells(options), options.knobs):
        if kernel not in known:
            file = Path(kernel)
            known[kernel] = digest(file.read_bytes()) if file.is_file() else kernel
        for cell in cells:
            if not cell.impossible:
                # The workload's command line has the number, whose length moves its stack.
                digits = len(str(cell.id))
                inputs = [known[kernel], code, asdict(replace(cell, id=0)), digits]
                key = digest(json.dumps(inputs, sort_keys=True).encode())[:32]
                found.append(Wanted(key, kernel, cell))
    return found


def find_counted(folder: Path) -> dict[str, Found]:
    """The cells that earlier jobs counted, by key. A file that is damaged is removed."""
    found: dict[str, Found] = {}
    for file in sorted(folder.glob("*.parquet")):
        try:
            cells = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))["cells"]
            table = pq.read_table(file, columns=["id", "error"])
        except (OSError, ValueError, pa.ArrowException):
            file.unlink(missing_ok=True)
            continue
        errors = dict(zip(table["id"].to_pylist(), table["error"].to_pylist(), strict=True))
        for number, key in cells.items():
            # A cell without a line was refused: no machine of this kernel can run it.
            cell = Found(file, int(number), errors.get(int(number)) is not None)
            if key not in found or found[key].failed:
                found[key] = cell
    return found


def group(cells: Sequence[Wanted], at_once: int) -> list[list[Wanted]]:
    """Jobs of SECONDS or more, or as many as can run at once; each has one machine."""
    machines: dict[str, list[Wanted]] = {}
    for cell in cells:
        machines.setdefault(cell.machine, []).append(cell)
    total = sum(cell.seconds for cell in cells)
    jobs = at_once * max(1, int(total / SECONDS / at_once))
    groups = []
    for members in machines.values():
        share = sum(cell.seconds for cell in members) / total
        parts = max(1, min(len(members), round(jobs * share)))
        ordered = sorted(members, key=lambda cell: -cell.seconds)
        # In turns: each part has long cells and short ones.
        groups += [
            sorted(ordered[part::parts], key=lambda cell: cell.cell.id) for part in range(parts)
        ]
    return groups


def write_job(folder: Path, argv: Sequence[str], cells: Sequence[Wanted]) -> str:
    """Write what a job counts into `folder`; its name."""
    first = cells[0]
    job = {
        "argv": list(argv),
        "kernel": first.kernel,
        "cpus": first.cell.cpus,
        "cells": {str(cell.cell.id): cell.key for cell in cells},
    }
    text = json.dumps(job, sort_keys=True)
    name = f"{first.machine}-{digest(text.encode())[:10]}"
    write_whole(folder / f"{name}.json", text)
    return name


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place, and move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def read_job(file: Path) -> Mapping[str, Any]:
    """What a job counts."""
    return dict(json.loads(file.read_text(encoding="utf-8")))
