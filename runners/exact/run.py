# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `exact`: build, boot, count. It needs no root, no probe and nothing of this kernel."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from probes import contract, reasons
from probes.cell import Cell, CellRun
from probes.isa import HOST, ISAS, USUAL, Isa
from probes.reasons import Reason, reason
from runners.exact.cells import CPUS, LARGEST_EXACT, SCHEDULERS, cpus_of, impossible, path_of, plan
from runners.exact.count import count_cells
from runners.exact.guest import ExactGuest, guest_for, prepare_guest
from runners.exact.kernel_tree import TreeConfig, is_tree
from runners.exact.knobs import find
from runners.exact.layouts import LayoutStudy, parse_layout
from runners.exact.line_files import named_knob, types_of
from runners.exact.moments import study
from runners.exact.payload import LEAST_SIZE
from runners.guest.kernels import check_name
from runners.guest.store import Cache, LackingError
from runners.host.session import Session
from runners.options import ExactOptions, Options, RunOptions
from runners.process import RunError, UsageError
from runners.store.folders import Scratch
from runners.store.report import Manifest, RunFolder, place

if TYPE_CHECKING:
    from analysis.paths.document import FieldDocument

# Counted beside probes: size → schedulers. The payload of large messages takes long to follow.
FAST = {64: SCHEDULERS, LARGEST_EXACT: ("other",)}


class MachineCells(NamedTuple):
    """A kernel, a number of CPUs, an architecture, and the cells to count on such a machine."""

    kernel: str
    cpus: int
    cells: tuple[CellRun, ...]
    isa: Isa = USUAL

    @property
    def name(self) -> str:
        arch = "" if self.isa is USUAL else f" for {self.isa.name}"
        return f"{self.kernel}{arch}{'' if self.cpus == 1 else f' on {self.cpus} CPUs'}"

    @property
    def short(self) -> str:
        """The name in lines of progress: of a file or a tree, without its folder."""
        return self.name.rpartition("/")[2]


Counted = tuple[dict[str, Any], dict[Cell, Reason]]
"""The machine's entry in run.json, and the cells that it cannot run."""
Entries = list[dict[str, Any]]


def exact(options: ExactOptions) -> int:
    """Count, and make the report: the exit status. Raises UsageError, RunError."""
    destination, session = place(options.out), Session(options)
    plan_cells(options)
    set_up(session, options.archs)
    documents = read_documents(options.document) if options.document else []
    layouts = LayoutStudy(parse_layout(options.layout)) if options.layout else None
    with session.scratch() as scratch:
        run(session, destination, scratch, layouts=layouts)
    status = session.report(destination)
    if options.lines:
        need_lines(destination)
    if layouts:
        say(session, destination / contract.LAYOUT, layouts.report())
    if documents:
        show_differences(session, destination, documents)
    return status


def check_machines(options: ExactOptions) -> None:
    """Raises UsageError where a kernel is not for an architecture, or that cannot do something."""
    for isa in (ISAS[name] for name in options.archs):
        for kernel in options.kernels:
            if not is_tree(kernel):
                check_name(kernel, isa)
        if options.every_moment and isa.no_moments:
            raise UsageError(f"--every-moment is not for {isa.name}: {isa.no_moments}.")
        if options.priced and isa is not HOST:
            raise UsageError(f"--priced is of this machine's CPU, and counts are of {isa.name}.")
    for knob in options.knobs:
        lacks = [why for name in options.archs if (why := _lacking(knob, ISAS[name]))]
        if len(lacks) == len(options.archs):
            raise UsageError(f"--knob {lacks[0]}.")


def _lacking(knob: str, isa: Isa) -> str:
    """Say why an architecture has not this knob; nothing where it has."""
    try:
        find(knob, isa)
    except LackingError as error:
        return str(error)
    return ""


def words_for(archs: Sequence[str]) -> list[str]:
    """What makes set-up compile for these architectures, too."""
    return [f"--{name}" for name in archs if ISAS[name] is not HOST]


def set_up(session: Session[Any], archs: Sequence[str], name: str = "set-up") -> None:
    """Make what exact mode needs, with the programs for other architectures. Raises RunError."""
    session.set_up_step("--exact", *words_for(archs), name=name)


def read_documents(place: Path) -> "list[FieldDocument]":
    """The kernel's tables of fields, before anything is counted. Raises UsageError."""
    from analysis.paths import document

    return document.read_documents(place)


def show_differences(
    session: Session[ExactOptions], run: Path, documents: "Sequence[FieldDocument]"
) -> None:
    """Print where the documents and this run part, and keep it there. Raises RunError."""
    from analysis.paths.cells import read_exact
    from analysis.paths.document import report
    from analysis.raw.run import read_run

    say(session, run / contract.DOCUMENT, report(read_exact(read_run(run)), documents))


def need_lines(run: Path) -> None:
    """Raises RunError where no cell of a run has lines, as each of them failed to count them."""
    from analysis.paths.cells import read_exact
    from analysis.raw.run import read_run

    cells = read_exact(read_run(run))
    errors = [cell.lines_error for cell in cells if cell.lines_error]
    if errors and not any(cell.lines for cell in cells):
        raise RunError(f"no cell of this run has cache lines: {errors[0]}")


def say(session: Session[ExactOptions], file: Path, text: str) -> None:
    """Keep a table, and print it where the result is read by people."""
    file.write_text(text, encoding="utf-8")
    if session.options.show is None:
        print(text, end="")


def run(
    session: Session[ExactOptions],
    destination: Path,
    scratch: Scratch,
    moved_to: Path | None = None,
    layouts: LayoutStudy | None = None,
    cells: Sequence[CellRun] = (),
) -> None:
    """Count the exact cells of the options into `destination`, which the caller may move later.

    `layouts` replays them with other layouts; `cells` are counted instead of those of the options.

    Where a machine of several fails, its cells are missing; a gate, which moves its runs, needs
    all. Raises UsageError, RunError.
    """
    options = session.options
    todo = by_machine(options.kernels, cells or plan_cells(options), options.knobs, options.archs)
    folder = RunFolder(destination, scratch)
    folder.raw.mkdir()
    manifest = Manifest(options.recorded, options.argv)
    need = len(todo) if moved_to else 1
    counted, failed = count_all(session, folder.raw, todo, need, layouts)
    entries = [entry for entry, _ in counted]
    lacks = [*missing(counted, options.sizes), *failed]
    if not any(entry["runs"] for entry in entries):
        why = next(why for _, absent in counted for why in absent.values())
        raise UsageError(f"no cell can be counted: {why}.")
    text = manifest.text(
        moved_to or destination, session.progress.seconds, exact=entries, missing=lacks
    )
    folder.write_manifest(text)
    folder.move()


def plan_cells(options: ExactOptions) -> list[CellRun]:
    """Return the cells of each kernel. Raises UsageError for what exact mode cannot do."""
    # A difference is one of the path; what the fair scheduler decides would hide it.
    path_alone = bool(options.knobs) or options.lesions is not None
    placements = options.placements or (("same-cpu",) if path_alone else tuple(CPUS))
    schedulers = options.scheds or (("fifo",) if path_alone else SCHEDULERS)
    cells = plan(
        options.transports,
        options.sizes,
        options.messages,
        placements,
        schedulers,
        patterns=options.patterns,
        waits=options.waits,
        additions=options.also,
        in_flight=options.in_flight,
        clients=options.clients,
    )
    reasons_against = [impossible(run.cell) for run in cells]
    if all(reasons_against):
        raise UsageError(f"no cell can be counted: {reasons_against[0]}.")
    return cells


def missing(counted: list[Counted], sizes: Sequence[int] = ()) -> Entries:
    """Return what exact mode does not give of the cells, and of messages of these sizes."""
    lacks: Entries = []
    for entry, absent in counted:
        rows = [(f"exact cell {cell}", why) for cell, why in absent.items()]
        rows += [
            (f"knob {name}", reason("knob-refused", said=why))
            for name, why in entry["lacking"].items()
        ]
        if any(size < LEAST_SIZE for size in sizes):
            why = reason("small-payload", size=LEAST_SIZE)
            rows.append(("exact copies of the smallest messages", why))
        for what, why in rows:
            reasons.add(lacks, reasons.missing([what], why) | {"target": entry["folder"]})
    return lacks


def by_machine(
    kernels: Sequence[str],
    cells: Sequence[CellRun],
    knobs: Sequence[str] = (),
    archs: Sequence[str] = (USUAL.name,),
) -> list[MachineCells]:
    """Each kernel's cells by the machine that they need, without and then with each knob.

    The cells with a knob, of those that can be counted, have numbers of their own.
    """
    works = []
    for kernel, arch, cpus in itertools.product(kernels, archs, sorted(set(CPUS.values()))):
        chosen = [run for run in cells if cpus_of(run.cell) == cpus]
        if possible := [run for run in chosen if not impossible(run.cell)]:
            numbers = itertools.count(max(run.id for run in chosen) + 1)
            chosen += [
                replace(run, id=next(numbers), cell=replace(run.cell, knob=name))
                for name in knobs
                for run in possible
            ]
            works.append(MachineCells(kernel, cpus, tuple(chosen), ISAS[arch]))
    return works


def count_all(
    session: Session[Options],
    raw: Path,
    todo: Sequence[MachineCells],
    need: int,
    layouts: LayoutStudy | None = None,
) -> tuple[list[Counted], Entries]:
    """Count on each machine; also the entries of `missing` in run.json for those that failed.

    Raises RunError where fewer than `need` of the machines can be had.
    """
    counted: list[Counted] = []
    failed: Entries = []
    for left, work in zip(reversed(range(len(todo))), todo, strict=True):
        try:
            counted.append(count(session, raw, work, layouts))
        except (RunError, UsageError, OSError) as error:
            if len(counted) + left < need or (need and isinstance(error, UsageError)):
                raise
            session.progress.note(f"{work.name}: {error}")
            why = reason("exact-failed", said=str(error).splitlines()[0].rstrip("."))
            failed.append(reasons.missing([f"exact counts on {work.name}"], why))
    return counted, failed


def count(
    session: Session[Options], raw: Path, work: MachineCells, layouts: LayoutStudy | None = None
) -> Counted:
    """Count the cells of a machine. Raises UsageError, RunError."""
    progress = session.progress
    absent = {run.cell: why for run in work.cells if (why := impossible(run.cell))}
    with progress.step(f"exact {work.short}: preparing"):
        guest, todo, lacking = prepare(session, work, absent)
        named = named_guests(session, guest, todo)
        if layouts:
            layouts.check(guest.machine.kernel.release, types_of(guest.machine))
    release, total = guest.machine.kernel.release, len(todo)
    arch = "" if work.isa is USUAL or work.isa.debian in release else f"-{work.isa.name}"
    out = raw / f"exact-{release}{arch}{'' if work.cpus == 1 else f'-{work.cpus}cpus'}"
    with progress.step(f"exact {work.short}: counting"):
        refused = count_cells(
            guest,
            todo,
            out,
            lambda number, cell: progress.count(number, total, str(cell)),
            named,
            layouts,
        )
    options = session.options
    if isinstance(options, ExactOptions) and (step := options.every_moment):
        able = [(guest, run) for guest, run in todo if run not in refused]
        with progress.step(f"exact {work.short}: every moment"):
            store = Cache(session.invoker.cache, progress.say)
            study(able, step, out / "moments.csv", store, progress)
    absent |= {run.cell: reason("exact-refused", said=why) for run, why in refused.items()}
    runs = total - len(refused)
    return {"folder": out.name, "kernel": release, "runs": runs, "lacking": lacking}, absent


def prepare(
    session: Session[Options], work: MachineCells, absent: dict[Cell, Reason]
) -> tuple[ExactGuest, list[tuple[ExactGuest, CellRun]], dict[str, str]]:
    """Return the machine's guest, its cells each with their own; knob → why it is missing.

    A cell whose transport needs what the kernel lacks goes to `absent`. Raises RunError.
    """
    cache, say = session.invoker.cache, session.progress.say
    options = session.options
    how = TreeConfig()
    if isinstance(options, ExactOptions):
        how = TreeConfig(own=options.config, types=options.lines)
    base = prepare_guest(cache, work.kernel, say, cpus=work.cpus, how=how, isa=work.isa)
    todo: list[tuple[ExactGuest, CellRun]] = []
    lacking: dict[str, str] = {}
    # Those with one knob that need the same kernel modules and programs, together.
    groups: dict[tuple[object, ...], list[CellRun]] = {}
    for run in work.cells:
        if run.cell not in absent:
            path = path_of(run.cell)
            groups.setdefault((run.cell.knob, path.modules, path.programs), []).append(run)
    for (name, *_), group in groups.items():
        try:
            knob = find(str(name), base.machine.isa)
            guest = guest_for(cache, base, path_of(group[0].cell), knob, say)
        except LackingError as error:
            if name:
                lacking[str(name)] = str(error)
            else:
                absent |= {run.cell: reason("exact-refused", said=str(error)) for run in group}
            continue
        for run in group:
            most = min(run.cell.messages, knob.messages or run.cell.messages)
            todo.append((guest, replace(run, cell=replace(run.cell, messages=most))))
    return base, todo, lacking


def named_guests(
    session: Session[Options], base: ExactGuest, todo: Sequence[tuple[ExactGuest, CellRun]]
) -> dict[CellRun, ExactGuest]:
    """With --lines: cell → the guest in which its lines are counted. Raises RunError."""
    options = session.options
    if not (isinstance(options, ExactOptions) and options.lines):
        return {}
    cache, say = session.invoker.cache, session.progress.say
    types_of(base.machine)
    return {
        run: guest_for(cache, base, path_of(run.cell), knob, say)
        for guest, run in todo
        if (knob := named_knob(run.cell, guest.knob))
    }


def fast_cells(options: RunOptions, knob: str = "") -> list[CellRun]:
    """What the main job counts beside its probes: its transports on one CPU, in ping-pong.

    The smallest messages are counted again with the `knob` that the prices of events are of.
    """
    if "pingpong" not in options.patterns:
        return []
    sizes = [size for size in options.sizes if size in FAST]
    runs = plan(options.transports, sizes)
    cells = [run for run in runs if run.cell.sched in FAST[run.cell.size]]
    if knob:
        cells += with_knob([run for run in cells if run.cell.size == min(FAST)], knob, len(runs))
    return cells


def with_knob(cells: Sequence[CellRun], knob: str, numbered: int = 0) -> list[CellRun]:
    """The same cells with a knob, after so many that have numbers."""
    return [
        replace(run, id=number, cell=replace(run.cell, knob=knob))
        for number, run in enumerate(cells, numbered + 1)
    ]


def run_fast(session: Session[RunOptions], raw: Path, knob: str = "") -> tuple[Entries, Entries]:
    """Count `fast_cells`.

    Returns the entries of `exact` and of `missing` in run.json: a failure stops no run.
    """
    options = session.options
    work = by_machine(options.kernels, fast_cells(options, knob), archs=[options.arch])
    counted, failed = count_all(session, raw, work, need=0)
    return [entry for entry, _ in counted], [*missing(counted), *failed]
