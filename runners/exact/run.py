# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh --exact: build, boot, count. It needs no root, no probe and nothing of this kernel."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probes import reasons
from probes.reasons import Reason, reason
from runners.exact.cells import CPUS, SCHEDULINGS, ExactCell, plan
from runners.exact.count import count_cells
from runners.exact.decode.payload import LEAST_SIZE
from runners.exact.knobs import Knob, find
from runners.exact.machine.checkpoints import Checkpoints
from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.exact.machine.knob_guest import guest_with_knob
from runners.guest.errors import LackingError
from runners.options import Options
from runners.process import Progress, RunError, UsageError
from runners.session import Session
from runners.store import Invoker, Manifest, RunFolder, Scratch

# Larger messages overwrite nothing, they only take long: each repetition of a copy is a step.
LARGEST = 64 << 10
# Counted beside probes: size → schedulings. The payload of large messages takes long to follow.
FAST = {64: SCHEDULINGS, LARGEST: ("other",)}


Work = tuple[str, int, tuple[ExactCell, ...]]
"""A kernel, a number of CPUs, and the cells to count on such a machine."""
Counted = tuple[dict[str, Any], dict[ExactCell, Reason]]
"""The machine's entry in run.json, and the cells that it cannot run."""


def run(
    session: Session,
    destination: Path,
    scratch: Scratch,
    argv: list[str],
    moved_to: Path | None = None,
    part: tuple[Work, Checkpoints] | None = None,
) -> None:
    """Count the exact cells of the options into `destination`, which the caller may move later.

    A job of a campaign counts a `part` of them. Where a machine of several fails, its cells are
    missing; a gate, which moves its runs, and a job need all. Raises UsageError, RunError.
    """
    options = session.options
    todo = by_machine(options.kernels, plan_cells(options), options.knobs)
    folder = RunFolder(destination, scratch)
    manifest = Manifest(options.effective(), argv)
    (work, kept) = ([part[0]], part[1]) if part else (todo, stored_results(session.invoker))
    station = Station(folder.raw, session.invoker, kept, session.progress)
    try:
        counted, failed = station.count_all(work, need_all=bool(part or moved_to))
    except KeyboardInterrupt:
        if not kept.count:
            raise
        raise KeyboardInterrupt(
            f"interrupted; {kept.count} finished cells are kept, for the same command to go on."
        ) from None
    entries = [entry for entry, _ in counted]
    lacks = [*missing(options, counted), *failed]
    if not any(entry["runs"] for entry in entries):
        first = next(why for cells in [absent for _, absent in counted] for why in cells.values())
        raise UsageError(f"no cell can be counted: {first}.")
    text = manifest.text(
        moved_to or destination, session.progress.seconds, exact=entries, missing=lacks
    )
    folder.commit(text)
    if not part and not failed:
        kept.forget()


def machine(work: Work) -> str:
    """A machine's name, for people."""
    kernel, cpus, _ = work
    return kernel if cpus == 1 else f"{kernel} on {cpus} CPUs"


def _failed(work: Work, error: Exception) -> dict[str, Any]:
    """The entry of `missing` in run.json for a machine that failed."""
    why = reason("exact-failed", said=str(error).splitlines()[0].rstrip("."))
    return reasons.missing([f"exact counts on {machine(work)}"], why)


def stored_results(who: Invoker) -> Checkpoints:
    """The results of earlier cells, in the cache."""
    return Checkpoints(who.cache / "exact-kept")


def plan_cells(options: Options) -> list[ExactCell]:
    """The cells of each kernel. Raises UsageError for what exact mode cannot do."""
    for size in options.sizes:
        if size > LARGEST:
            raise UsageError(f"--exact counts messages of up to {LARGEST >> 10}K, not of {size} B.")
    if options.messages is not None and options.messages < 20:
        raise UsageError("--exact needs at least 20 messages to tell the steady round trip.")
    placements = [name for name in options.placements if name in CPUS]
    if not placements:
        raise UsageError(f"--exact places the two processes on {' or '.join(CPUS)}.")
    schedulings = options.scheds if options.sched_given else SCHEDULINGS
    if unknown := [name for name in schedulings if name not in SCHEDULINGS]:
        known = " or ".join(SCHEDULINGS)
        raise UsageError(f"--exact schedules the two processes by {known}, not {unknown[0]}.")
    if options.knobs or options.against:
        # Their difference is one of the path; what the fair scheduler decides would hide it.
        schedulings = schedulings if options.sched_given else ("fifo",)
        placements = placements[:1]
    cells = plan(
        *(options.transports, options.sizes, options.messages, placements, schedulings),
        patterns=options.patterns,
        waits=options.waits,
        in_flight=options.in_flight,
        clients=options.clients,
    )
    reasons_against = [cell.impossible for cell in cells]
    if all(reasons_against):
        raise UsageError(f"no cell can be counted: {reasons_against[0]}.")
    return cells


def missing(options: Options, counted: list[Counted]) -> list[dict[str, Any]]:
    """What the options name and exact mode does not give, for each kernel."""
    found = [
        (f"exact cells, {placement}", reason("unpinned"))
        for placement in options.placements
        if placement not in CPUS
    ]
    if options.knobs:
        later = [name for name in options.placements if name in CPUS][1:]
        found += [(f"exact cells, {placement}", reason("one-placement")) for placement in later]
    if any(size < LEAST_SIZE for size in options.sizes):
        why = reason("small-payload", size=LEAST_SIZE)
        found.append(("exact copies of the smallest messages", why))
    lacks: list[dict[str, Any]] = []
    for entry, absent in counted:
        knobs = [(f"knob {name}", reason("knob-refused", said=why))
                 for name, why in entry["lacking"].items()]  # fmt: skip
        for what, why in (*found, *knobs, *((f"exact cell {c}", why) for c, why in absent.items())):
            reasons.add(lacks, reasons.missing([what], why) | {"target": entry["folder"]})
    return lacks


def by_machine(
    kernels: Sequence[str], cells: Sequence[ExactCell], knobs: Sequence[str] = ()
) -> list[Work]:
    """Each kernel's cells by the machine that they need, without and then with each knob."""
    return [
        (kernel, cpus, (*chosen, *_with_knobs(chosen, knobs)))
        for kernel in kernels
        for cpus in sorted(set(CPUS.values()))
        if (chosen := tuple(cell for cell in cells if cell.cpus == cpus))
        if not all(cell.impossible for cell in chosen)
    ]


def _with_knobs(cells: Sequence[ExactCell], knobs: Sequence[str]) -> Iterator[ExactCell]:
    """The cells that can be counted, with each knob, under numbers of their own."""
    numbers = itertools.count(max(cell.id for cell in cells) + 1)
    for name in knobs:
        for cell in cells:
            if not cell.impossible:
                yield replace(cell, id=next(numbers), knob=find(name))


@dataclass(frozen=True)
class Station:
    """Where cells are counted into, and what that needs."""

    raw: Path
    who: Invoker
    kept: Checkpoints
    progress: Progress

    def count_all(
        self, todo: Sequence[Work], *, need_all: bool
    ) -> tuple[list[Counted], list[dict[str, Any]]]:
        """Count on each machine; also the entries of `missing` in run.json for those that failed.

        Raises UsageError, and RunError where all failed, or one that is needed.
        """
        counted: list[Counted] = []
        failed: list[dict[str, Any]] = []
        for number, work in enumerate(todo, 1):
            try:
                counted.append(self.count(work))
            except RunError as error:
                if need_all or (number == len(todo) and not counted):
                    raise
                self.progress.note(f"{machine(work)}: {error}")
                failed.append(_failed(work, error))
        return counted, failed

    def count(self, work: Work) -> Counted:
        """Count the cells of a machine. Raises UsageError, RunError."""
        cells = work[2]
        progress, name = self.progress, machine(work)
        absent = {cell: cell.impossible for cell in cells if cell.impossible}
        with progress.step(f"exact {name}: preparing"):
            guest, todo, lacking = self.prepare(work, absent)
        release = guest.machine.kernel.release
        out = self.raw / folder_of(cells[0], release)
        total = len(todo)
        with progress.step(f"exact {name}: counting"):
            refused = count_cells(
                *(guest, todo, out, self.kept),
                lambda number, cell: progress.count(number, total, str(cell)),
            )
        absent |= {cell: reason("exact-refused", said=why) for cell, why in refused.items()}
        runs = total - len(refused)
        return {"folder": out.name, "kernel": release, "runs": runs, "lacking": lacking}, absent

    def prepare(
        self, work: Work, absent: dict[ExactCell, Reason]
    ) -> tuple[ExactGuest, list[tuple[ExactGuest, ExactCell]], dict[str, str]]:
        """The machine's guest, its cells each with their own; knob → why it is missing.

        A cell whose transport needs what the kernel lacks goes to `absent`. Raises RunError.
        """
        kernel, cpus, cells = work
        around = (self.progress.say, self.progress.note)
        base = prepare_guest(self.who.cache, kernel, around[0], note=around[1], cpus=cpus)
        todo: list[tuple[ExactGuest, ExactCell]] = []
        lacking: dict[str, str] = {}
        for (knob, *needs), group in _by_needs([cell for cell in cells if cell not in absent]):
            try:
                guest, turned = guest_with_knob(self.who.cache, base, knob, *around, *needs)
            except LackingError as error:
                if knob.name:
                    lacking[knob.name] = str(error)
                else:
                    why = reason("exact-refused", said=str(error))
                    absent |= dict.fromkeys(group, why)
                continue
            for cell in group:
                most = min(cell.messages, turned.messages or cell.messages)
                todo.append((guest, replace(cell, messages=most, knob=turned)))
        return base, todo, lacking


def folder_of(cell: ExactCell, release: str) -> str:
    """The folder of the machine that counts a cell, in raw/."""
    return f"exact-{release}{'' if cell.cpus == 1 else f'-{cell.cpus}cpus'}"


def _by_needs(
    cells: Sequence[ExactCell],
) -> Iterator[tuple[tuple[Knob, Sequence[str], Sequence[str]], list[ExactCell]]]:
    """Cells with one knob that need the same kernel modules and programs, together."""
    groups: dict[tuple[Knob, Sequence[str], Sequence[str]], list[ExactCell]] = {}
    for cell in cells:
        groups.setdefault((cell.knob, cell.path.modules, cell.path.programs), []).append(cell)
    yield from groups.items()


def fast_cells(options: Options) -> list[ExactCell]:
    """What the main job counts beside its probes: its transports on one CPU, in ping-pong."""
    if "pingpong" not in options.patterns:
        return []
    sizes = [size for size in options.sizes if size in FAST]
    return [cell for cell in plan(options.transports, sizes) if cell.scheduling in FAST[cell.size]]


def run_fast(session: Session, raw: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Count `fast_cells`.

    Returns the entries of `exact` and of `missing` in run.json: a failure stops no run.
    """
    options = session.options
    if not (cells := fast_cells(options)):
        return [], []
    station = Station(raw, session.invoker, stored_results(session.invoker), session.progress)
    done: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for work in by_machine(options.kernels, cells):
        try:
            entry, absent = station.count(work)
            done.append(entry)
            for cell, why in absent.items():
                found = reasons.missing([f"exact cell {cell}"], why)
                reasons.add(missing, found | {"target": entry["folder"]})
        except (RunError, UsageError) as error:
            missing.append(_failed(work, error))
    station.kept.forget()
    return done, missing
