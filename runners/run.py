# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs that measure, compare and report.

For `run`: set-up, preflight, plan, each target, run.json, report.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from probes.contract import PRICES, Kind, Status, kind_of
from probes.isa import ISAS
from probes.messages import PROGRAM
from probes.reasons import missing, reason
from probes.transports import PAIR
from runners import guest, show
from runners.exact import lesion_study
from runners.exact import run as exact
from runners.exact.bench import bench
from runners.exact.priced import Named, count_events
from runners.gate.verb import gate
from runners.guest.store import write_json
from runners.host import preflight
from runners.host.session import Session
from runners.options import DiffOptions, ExactOptions, GateOptions, ReportOptions, RunOptions
from runners.plan import Missing, planner_of, refuse_cells
from runners.process import Progress, RunError, stopping
from runners.programs.experiments import Experiments
from runners.programs.prices import (
    event_cells,
    for_report,
    keep_events,
    kept_for_events,
    knob_of,
    of_events,
)
from runners.programs.watch import report_with_own_prices
from runners.store.report import Manifest, RunFolder, place
from runners.targets import Prepared, Target, prepare_guests, run_in_guests, run_on_host

GIVES_WAY = 10  # how nice what runs beside is
Returned = TypeVar("Returned")
Exact = tuple[list[dict[str, Any]], list[Missing]]  # of `exact` and `missing` in run.json


def run(options: RunOptions) -> int:
    """Measure, and make the report: the exit status. Raises UsageError, RunError."""
    session, destination = Session(options), place(options.out)
    session.try_mounts()
    for name in session.starter.lock():
        session.note_removed(name)
    with session.scratch() as scratch:
        folder = RunFolder(destination, scratch)
        prepared = prepare(session)
        manifest = Manifest(options.recorded, options.argv)
        parts = collect(session, prepared, folder, manifest)
        folder.write_manifest(manifest.text(destination, session.progress.seconds, **parts))
        folder.move()
    return session.report(destination)


def diff(options: DiffOptions) -> int:
    """Compare two stored runs: the exit status. Raises RunError."""
    set_up_analysis(options)
    from analysis.diff.report import make_diff

    make_diff(options.runs, options.out and options.out.resolve(), options.show)
    return Status.DONE


def report(options: ReportOptions) -> int:
    """Show again what verbs have left, or pool several runs: the exit status. Raises RunError.

    What watch has left without prices is told by this machine's.
    """
    watched = len(options.runs) == 1 and kind_of(options.runs[0]) is Kind.WATCH
    if watched and not options.prices and not (options.runs[0] / PRICES).exists():
        return report_with_own_prices(options, options.runs[0])
    set_up_analysis(options)
    from analysis.__main__ import show_stored

    show_stored(options.runs, options.show, options.prices)
    return Status.DONE


def set_up_analysis(options: DiffOptions | ReportOptions) -> None:
    """Make the packages of the analysis ours. Raises RunError."""
    Session(options).set_up_step("--analysis")


def prepare(session: Session[RunOptions]) -> Prepared:
    """Packages, workload; what this kernel allows; the plan of each target."""
    options, progress = session.options, session.progress
    for kernel in options.kernels:
        guest.check_booted(kernel, ISAS[options.arch])
    session.set_up_step("--claims" if options.claims is not None else "--no-python")
    planner = planner_of(options)
    with progress.step("preflight"):
        checks = session.preflight()
    plans = planner.plans(preflight.probe_level(checks), emulated=preflight.emulated(checks))
    refuse_cells(plans.values())
    no_guest = ""
    if "guest" in plans:
        try:
            others = exact.words_for([options.arch])
            words = ["--guest", *others, "--no-python"]
            session.set_up_step(*words, name="set-up for the guest")
        except RunError as error:
            if "host" not in plans:
                raise
            no_guest = str(error)
    progress.note(show.intention(options, planner, plans, checks, session.unprobed))
    if "host" in plans and (met := preflight.on_loopback(checks)):
        progress.note(f"on TCP's path, and in its figures: {met} ({PROGRAM} preflight says more)")
    experiments = Experiments(options.programs, progress, session.invoker.cache)
    experiments.set_up(session.set_up)
    return Prepared(checks, planner, plans, experiments, no_guest)


def collect(
    session: Session[RunOptions], prepared: Prepared, folder: RunFolder, manifest: Manifest
) -> dict[str, list[Any]]:
    """Run every target; the parts of run.json. Raises UsageError, RunError.

    Times come first, while nothing else runs. The Python environment is made, and the first answer
    said, beside the preparation of guests. If no guest can be prepared, the host's part alone is a
    run.
    """
    raw, plans = folder.raw, prepared.plans
    raw.mkdir()
    done: list[Target] = []
    lacks: list[Missing] = []
    if "host" in plans:
        done.append(run_on_host(session, prepared, raw))
        price_cold_path(session, raw / "host", prepared)
        lacks = prepared.experiments.run(raw / "host", session.starter)
    # Claims are settled by probes and times: exact mode is not among what they need.
    wants_exact = "guest" in plans and session.options.claims is None
    prepare: Callable[[], list[guest.Guest]] = list  # none
    if "guest" in plans:
        prepare = partial(prepare_guests, session, prepared.no_guest)
    with in_thread(prepare) as preparing:
        session.set_up_step(name="set-up of Python")
        if wants_exact:
            so_far = [entry for entry, _ in done]
            folder.write_manifest(manifest.text(folder.path, {}, targets=so_far))
            from analysis.__main__ import first_answer

            if answer := first_answer(folder.path):
                session.progress.note(answer)
        with in_thread(exact_work(session, folder, wants_exact)) as counting:
            try:
                guests = preparing.result()
            except RunError as error:
                if not done:
                    raise
                session.progress.note(f"without a guest: {error}")  # what the host gave stands
                said = str(error).splitlines()[0].rstrip(".")
                lacks.append(missing(["counts in a guest"], reason("guest-failed", said=said)))
                guests = []
            done += run_in_guests(session, prepared, guests, raw)
    exact_cells, exact_lacks = counting.result()
    checks = [*prepared.checks, *(show.of_guest(machine) for machine in guests[:1])]
    of_targets = [lack for _, lacking in done for lack in lacking]
    return {
        "targets": [entry for entry, _ in done],
        **({"exact": exact_cells} if exact_cells else {}),
        "preflight": [asdict(check) for check in checks],
        "missing": of_targets + lacks + exact_lacks,
    }


def price_cold_path(session: Session[RunOptions], out: Path, prepared: Prepared) -> None:
    """Store what a small message costs after other work: by it the report decides.

    Without it the report decides by the hot path, and says so.
    """
    options = session.options
    compares = {*PAIR} <= {*options.transports} and "pingpong" in options.patterns
    if not compares or options.claims is not None or preflight.emulated(prepared.checks):
        return
    with session.progress.step("host: a cold path"):
        try:
            write_json(out / PRICES, for_report(session.invoker.cache))
        except RunError as error:
            session.progress.note(f"the report decides by a hot path: {error}")


def exact_and_prices(options: ExactOptions) -> int:
    """The verb `exact`; with --priced it first finds out what events cost on this machine.

    Returns the exit status. Raises UsageError, RunError.
    """
    if options.command:
        return bench(options)
    exact.check_machines(options)
    if options.priced:
        session = Session(options)
        session.set_up_step("--exact")
        cache = session.invoker.cache
        with session.progress.step("prices of events"):
            listed = of_events(cache, session.progress.note)
        named = [Named(*cell.names.values()) for cell in event_cells()]
        keep_events(cache, listed, *count_events(session, named, knob=knob_of(listed)))
    return lesion_study.exact(options)


def gate_and_prices(options: GateOptions) -> int:
    """The verb `gate`, with the prices of events where this machine's are kept: the exit status.

    Raises UsageError, UntoldError.
    """
    prices, why = kept_for_events(Session(options).invoker.cache)
    if why:
        Progress().note(f"no time is told: {why}")
    return gate(options, prices)


@contextmanager
def in_thread(work: Callable[[], Returned]) -> Iterator[Future[Returned]]:
    """Do `work` in a thread of its own meanwhile. What ends us early ends what it runs.

    It gives way to what somebody waits for: on Linux a thread is nice with all that it starts.
    """
    with ThreadPoolExecutor(1, initializer=os.nice, initargs=(GIVES_WAY,)) as pool:
        try:
            future = pool.submit(work)
            yield future
            future.exception()  # waits, where a signal can still end it
        except BaseException:
            stopping.set()
            raise


def exact_work(
    session: Session[RunOptions], folder: RunFolder, wanted: bool
) -> Callable[[], Exact]:
    """What a thread is to do for fast exact counts; nothing where they are not wanted.

    Set-up asks root, so it is not in the thread.
    """
    if not wanted:
        return lambda: ([], [])
    try:
        exact.set_up(session, [session.options.arch], "set-up for exact counts")
    except RunError as error:
        why = reason("exact-failed", said=str(error).rstrip("."))
        return lambda: ([], [missing(["exact counts"], why)])
    prices, _ = kept_for_events(session.invoker.cache)
    return lambda: exact.run_fast(session, folder.raw, knob_of(prices))
