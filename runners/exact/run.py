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
from runners.exact.count import count_cells
from runners.exact.digest import SEND
from runners.exact.kept import Kept
from runners.exact.payload import LEAST_SIZE
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
        who.make(who.cache / "exact-kept")
        kept = Kept(who.cache / "exact-kept")
        entries = _run_kernels(options, cells, folder, who, kept, progress)
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
            "missing": _missing(options, entries),
        }
        folder.commit(manifest)
        kept.forget()


def plan_cells(options: Options) -> list[Cell]:
    """The cells of each kernel. Raises UsageError for what exact mode cannot do."""
    for transport in options.transports:
        if transport not in SEND:
            raise UsageError(f"--exact counts {', '.join(SEND)} so far, not {transport}.")
    for size in options.sizes:
        if size > LARGEST:
            raise UsageError(f"--exact counts messages of up to {LARGEST >> 10}K, not of {size} B.")
    if options.messages is not None and options.messages < 20:
        raise UsageError("--exact needs at least 20 messages to tell the steady round trip.")
    return plan(options.transports, options.sizes, options.messages)


def _missing(options: Options, entries: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What was asked for and exact mode does not give, for each kernel."""
    found = [
        (f"exact cells, {placement}", "the recorder follows one CPU only")
        for placement in options.placements
        if placement != "same-cpu"
    ]
    if any(size < LEAST_SIZE for size in options.sizes):
        why = f"payload of less than {LEAST_SIZE} bytes cannot be told from other reads"
        found.append(("exact copies of the smallest messages", why))
    return [
        {"what": what, "lane": entry["folder"], "why": why}
        for entry in entries
        for what, why in found
    ]


def _run_kernels(
    options: Options,
    cells: list[Cell],
    folder: RunFolder,
    who: Invoker,
    kept: Kept,
    progress: Progress,
) -> list[dict[str, Any]]:
    try:
        return [
            _run_kernel(kernel, cells, folder, who, kept, progress) for kernel in options.kernels
        ]
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {kept.count} finished cells are kept: the same command goes on there."
        ) from None


def _run_kernel(
    kernel: str,
    cells: list[Cell],
    folder: RunFolder,
    who: Invoker,
    kept: Kept,
    progress: Progress,
) -> dict[str, Any]:
    try:
        with progress.step(f"exact {kernel}: preparing"):
            guest = lane.prepare(who.cache, kernel, progress.say, who.drop)
        release = guest.machine.kernel.release
        out = folder.raw / f"exact-{release}"
        with progress.step(f"exact {release}: counting"):
            count_cells(
                guest,
                cells,
                out,
                kept,
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
