# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --exact: build, boot, count, report. No root, no probe, nothing of this kernel."""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runners import guest as guests
from runners import leftovers
from runners.errors import RunError, UsageError
from runners.exact import lane
from runners.exact.cells import Cell, plan
from runners.folder import RunFolder, place
from runners.invoker import Invoker
from runners.options import Options
from runners.progress import Progress

REPOSITORY = Path(__file__).parent.parent.parent
# Larger messages overwrite nothing, they only take long: each repetition of a copy is a step.
LARGEST = 64 << 10


def run(options: Options, who: Invoker, target: Path, progress: Progress, argv: list[str]) -> None:
    """Measure every exact cell that was asked for into `target`. Raises UsageError, RunError."""
    cells = plan_cells(options)
    who.cache.mkdir(parents=True, exist_ok=True)
    # What this run makes for a moment lies in one folder, which the next run finds if need be.
    with leftovers.journal(who.cache) as journal:
        scratch = journal.add(Path(tempfile.gettempdir(), f"pathcost-{os.getpid()}"))
        scratch.mkdir(mode=0o700)
        who.own(scratch)
        tempfile.tempdir = str(scratch)
        folder = RunFolder(target, who, journal)
        started, began = datetime.datetime.now().astimezone(), time.monotonic()
        entries = [_run_kernel(kernel, cells, folder, who, progress) for kernel in options.kernels]
        manifest: dict[str, Any] = {
            "format": 1,
            "name": folder.target.name,
            "pathcost": "0.1.0",
            "command": ["./runners/run.sh", *argv],
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - began, 1),
            "seconds_by_step": progress.seconds,
            "options": asdict(options) | {"out": str(folder.target)},
            "lanes": [],
            "exact": entries,
            "preflight": [],
            "missing": [],
        }
        folder.commit(manifest)


def plan_cells(options: Options) -> list[Cell]:
    """The cells of each kernel. Raises UsageError for what exact mode cannot do."""
    for size in options.sizes:
        if size > LARGEST:
            raise UsageError(f"--exact counts messages of up to {LARGEST >> 10}K, not of {size} B.")
    if options.messages is not None and options.messages < 20:
        raise UsageError("--exact needs at least 20 messages to tell the steady round trip.")
    return plan(options.transports, options.sizes, options.messages)


def _run_kernel(
    kernel: str, cells: list[Cell], folder: RunFolder, who: Invoker, progress: Progress
) -> dict[str, Any]:
    try:
        with progress.step(f"exact {kernel}: preparing"):
            guest = lane.prepare(who.cache, kernel, progress.say, who.drop)
        release = guest.machine.kernel.release
        out = folder.raw / f"exact-{release}"
        with progress.step(f"exact {release}: counting"):
            lane.run_cells(
                guest,
                cells,
                out,
                who.drop,
                lambda number, cell: progress.count(number, len(cells), str(cell)),
            )
    except guests.UnknownKernelError as error:
        raise UsageError(f"{error}.") from error
    except guests.GuestError as error:
        raise RunError(str(error)) from error
    return {"folder": out.name, "kernel": release, "runs": len(cells)}


def target_of(options: Options) -> Path:
    """Where the run's folder is going to be. Raises UsageError."""
    return place(options.out, REPOSITORY / "reports")
