# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --exact: build, boot, count, report. No root, no probe, nothing of this kernel."""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from probes import reasons
from probes.reasons import reason
from runners import guest as guests
from runners import leftovers
from runners.errors import RunError, UsageError
from runners.exact.cells import CPUS, SCHEDULINGS, Cell, plan
from runners.exact.count import count_cells
from runners.exact.decode.digest import SEND
from runners.exact.decode.payload import LEAST_SIZE
from runners.exact.knobs import find
from runners.exact.machine.checkpoints import Checkpoints
from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.exact.machine.knob_files import LackingError
from runners.exact.machine.knob_guest import guest_with_knob
from runners.folder import RunFolder, place
from runners.invoker import Invoker
from runners.options import Options
from runners.progress import Progress

REPOSITORY = Path(__file__).parent.parent.parent
# Larger messages overwrite nothing, they only take long: each repetition of a copy is a step.
LARGEST = 64 << 10
FAST_SIZES = (64,)


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
        kept = Checkpoints(who.cache / "exact-kept")
        station = Station(folder.raw, who, kept, progress, options.knobs)
        try:
            entries = [station.count(one) for one in lanes_of(options.kernels, cells)]
        except KeyboardInterrupt:
            if not kept.count:
                raise
            raise KeyboardInterrupt(
                f"interrupted; {kept.count} finished cells are kept, for the same command to go on."
            ) from None
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
            "missing": missing(options, entries),
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
    placements = [one for one in options.placements if one in CPUS]
    if not placements:
        raise UsageError(f"--exact places the two processes on {' or '.join(CPUS)}.")
    schedulings = options.scheds if options.sched_asked else SCHEDULINGS
    if unknown := [one for one in schedulings if one not in SCHEDULINGS]:
        known = " or ".join(SCHEDULINGS)
        raise UsageError(f"--exact schedules the two processes by {known}, not {unknown[0]}.")
    if options.knobs:
        # A knob's difference is one of the path; what the fair scheduler decides would hide it.
        schedulings = schedulings if options.sched_asked else ("fifo",)
        placements = placements[:1]
    return plan(options.transports, options.sizes, options.messages, placements, schedulings)


def missing(options: Options, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was asked for and exact mode does not give, for each kernel."""
    found = [
        (f"exact cells, {placement}", reason("unpinned"))
        for placement in options.placements
        if placement not in CPUS
    ]
    if options.knobs:
        later = [one for one in options.placements if one in CPUS][1:]
        found += [(f"exact cells, {placement}", reason("one-placement")) for placement in later]
    if any(size < LEAST_SIZE for size in options.sizes):
        why = reason("small-payload", size=LEAST_SIZE)
        found.append(("exact copies of the smallest messages", why))
    return [
        reasons.missing([what], why) | {"lane": entry["folder"]}
        for entry in entries
        for what, why in (
            *found,
            *(
                (f"knob {name}", reason("knob-refused", said=said))
                for name, said in entry["lacking"].items()
            ),
        )
    ]


@dataclass(frozen=True)
class Lane:
    """Cells that share a machine: a kernel, how many CPUs, and more kernel options if any."""

    kernel: str
    cells: tuple[Cell, ...]
    cpus: int = 1
    knobs: str = ""


def lanes_of(kernels: Sequence[str], cells: Sequence[Cell]) -> list[Lane]:
    """Each kernel's cells, by the machine that they need."""
    return [
        Lane(kernel, those, cpus)
        for kernel in kernels
        for cpus in sorted(set(CPUS.values()))
        if (those := tuple(cell for cell in cells if cell.cpus == cpus))
    ]


@dataclass(frozen=True)
class Station:
    """Where lanes are counted into, and what that needs."""

    raw: Path
    who: Invoker
    kept: Checkpoints
    progress: Progress
    knobs: tuple[str, ...] = ()

    def count(self, asked: Lane) -> dict[str, Any]:
        """Count a lane; its entry in run.json. Raises UsageError, RunError."""
        progress = self.progress
        name = asked.kernel if asked.cpus == 1 else f"{asked.kernel} on {asked.cpus} CPUs"
        try:
            with progress.step(f"exact {name}: preparing"):
                guest = prepare_guest(
                    self.who.cache,
                    asked.kernel,
                    progress.say,
                    self.who.drop,
                    cpus=asked.cpus,
                    knobs=asked.knobs,
                )
                work, lacking = self._work(asked, guest)
            release = guest.machine.kernel.release
            out = self.raw / f"exact-{release}{'' if asked.cpus == 1 else f'-{asked.cpus}cpus'}"
            total = len(work)
            with progress.step(f"exact {name}: counting"):
                count_cells(
                    guest,
                    work,
                    out,
                    self.kept,
                    self.who.drop,
                    lambda number, cell: progress.count(number, total, str(cell)),
                )
        except guests.UnknownKernelError as error:
            raise UsageError(f"{error}.") from error
        except guests.GuestError as error:
            raise RunError(str(error)) from error
        return {"folder": out.name, "kernel": release, "runs": total, "lacking": lacking}

    def _work(
        self, asked: Lane, base: ExactGuest
    ) -> tuple[list[tuple[ExactGuest, Cell]], dict[str, str]]:
        """Cells as they are, then with each knob, all with their guests; knob → why it lacks."""
        work = [(base, cell) for cell in asked.cells]
        lacking: dict[str, str] = {}
        say, drop = self.progress.say, self.who.drop
        number = max(cell.id for cell in asked.cells)
        for name in self.knobs:
            try:
                guest, knob = guest_with_knob(
                    self.who.cache, base, asked.kernel, find(name), say, drop
                )
            except LackingError as error:
                lacking[name] = error.sentence
                continue
            for cell in asked.cells:
                number += 1
                most = min(cell.messages, knob.messages or cell.messages)
                work.append((guest, replace(cell, id=number, messages=most, knob=knob)))
        return work, lacking


def run_fast(
    options: Options, raw: Path, scratch: Path, who: Invoker, progress: Progress
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the main job counts beside its probes: unix and tcp on one CPU, as far as asked for.

    Its entries of `exact` and of `missing` in run.json: what cannot be had stops no run.
    """
    transports = [one for one in options.transports if one in SEND]
    sizes = [size for size in options.sizes if size in FAST_SIZES]
    if not (transports and sizes and "pingpong" in options.patterns):
        return [], []
    folder = scratch / "exact"
    folder.mkdir()
    who.own(folder)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    who.make(who.cache / "exact-kept")
    station = Station(raw, who, Checkpoints(who.cache / "exact-kept"), progress)
    done: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    try:
        for one in lanes_of(options.kernels, plan(transports, sizes)):
            try:
                done.append(station.count(one))
            except (RunError, UsageError) as error:
                why = reason("exact-failed", said=str(error).splitlines()[0].rstrip("."))
                missing.append(reasons.missing([f"exact counts on {one.kernel}"], why))
    finally:
        tempfile.tempdir = before
    station.kept.forget()
    return done, missing


def target_of(options: Options) -> Path:
    """Where the run's folder is going to be. Raises UsageError."""
    return place(options.out, REPOSITORY / "reports")
