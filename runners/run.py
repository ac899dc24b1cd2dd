# SPDX-License-Identifier: GPL-2.0-or-later
"""One run: set-up, preflight, plan, targets, manifest, analysis."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import guest, targets
from runners.cell import Plan
from runners.exact import run as exact
from runners.experiments import Experiments
from runners.guest.cache import Cache
from runners.guest.qemu import stopping
from runners.host import preflight
from runners.host.root import Root
from runners.options import Options
from runners.plan.claims import ClaimsPlanner, planner_of
from runners.plan.planner import OptionsPlanner, plans_of, targets_of
from runners.plan.refusals import accept, refuse_cells
from runners.process import RunError, attempt
from runners.session import Session
from runners.show import intention
from runners.store import Manifest, RunFolder

ANSWER_SECONDS = 10  # of a tool whose options claims name
COMPLAINTS = ("unrecognized", "unknown", "invalid option", "unexpected argument", "illegal option")


@dataclass(frozen=True)
class Prepared:
    """What set-up and preflight found, and what each target will do."""

    python: Path
    checks: list[preflight.Check]
    planner: OptionsPlanner
    plans: dict[str, Plan]
    experiments: Experiments


def run(options: Options, argv: list[str]) -> int:
    """The main job; its exit status is the analysis', which fails without figures.

    Raises UsageError, RunError.
    """
    session, destination = Session(options), accept(options)
    measure = measure_exactly if options.exact else measure_with_probes
    python = measure(session, destination, argv)
    again = f"the raw files are in {destination}; try again with python -m analysis {destination}."
    try:
        status = session.analyse(python, *session.report_of(destination))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; measured, but not analysed: {again}") from None
    except RunError as error:
        raise RunError(f"measured, but {str(error).rstrip('.')}: {again}") from None
    if status != 0 and not (destination / "report.html").exists():
        raise RunError(f"measured, but not analysed: {again}")
    return status


def compare(options: Options) -> int:
    """Compare stored runs, or pool them: the exit status of the analysis."""
    session = Session(options)
    with session.progress.step("set-up"):
        python = session.set_up("--analysis")
    out = ["--out", str(options.out.resolve())] if options.out else []
    what = "--diff" if options.diff else "--pool"
    runs = [str(path.resolve()) for path in options.diff or options.pool]
    return session.analyse(python, what, *runs, *out)


def measure_exactly(session: Session, destination: Path, argv: list[str]) -> Path:
    """Count the instructions of an emulated machine. This kernel and its probes take no part."""
    with session.progress.step("set-up"):
        python = session.set_up("--exact")
    with session.scratch() as scratch:
        exact.run(session, destination, scratch, argv)
    return python


def measure_with_probes(session: Session, destination: Path, argv: list[str]) -> Path:
    """Everything that only one run at a time may do."""
    root = session.need_root()
    root.mounts()
    for name in root.lock():
        session.note_removed(name)
    with session.scratch() as scratch:
        folder = RunFolder(destination, scratch)
        prepared = prepare(session)
        manifest = Manifest(session.options.effective(), argv)
        parts = collect(session, prepared, root, folder, manifest)
        folder.commit(manifest.text(destination, session.progress.seconds, **parts))
    return prepared.python


def prepare(session: Session) -> Prepared:
    """Packages, environment, workload; what this kernel allows; the plan of each target."""
    options, progress = session.options, session.progress
    with progress.step("set-up"):
        python = session.set_up(*(["--claims"] if options.claims is not None else []))
    experiments = Experiments(options.programs, progress, session.invoker.cache)
    experiments.set_up(session.set_up)
    planner = planner_of(options, lambda: python)
    with progress.step("preflight"):
        checks = session.preflight()
    probe_level, emulated = preflight.probe_level(checks), preflight.emulated(checks)
    chosen = targets_of(options, planner, probe_level)
    plans = plans_of(planner, chosen, probe_level, emulated=emulated)
    refuse_cells(plans.values())
    if "guest" in plans:
        with progress.step("set-up for the guest"):
            session.set_up("--guest")
    progress.note(intention(options, planner, plans, checks))
    if "host" in plans and (met := preflight.on_loopback(checks)):
        progress.note(f"on TCP's path, and in its figures: {met} (--preflight says more)")
    return Prepared(python, checks, planner, plans, experiments)


def collect(
    session: Session, prepared: Prepared, root: Root, folder: RunFolder, manifest: Manifest
) -> dict[str, list[Any]]:
    """Run every target; the parts of run.json. Raises UsageError, RunError."""
    options, who, progress, raw = session.options, session.invoker, session.progress, folder.raw
    done, lacks, counted, uncounted = [], list[Any](), list[Any](), list[Any]()
    guests = targets.prepare_guests(options, who, progress) if "guest" in prepared.plans else []
    if "host" in prepared.plans:
        done.append(run_on_host(session, prepared, root, raw))
        lacks = prepared.experiments.run(raw / "host", root)
    # Claims are settled by probes and times: exact mode is not among what they need.
    if guests and options.claims is None:
        so_far = manifest.text(folder.path, {}, targets=[target.entry for target in done])
        with beside(exact_counting(session, prepared.python, folder, so_far)) as counting:
            done += run_in_guests(session, prepared, guests, raw)
        counted, uncounted = counting.result()
    else:
        done += run_in_guests(session, prepared, guests, raw)
    checks = [*prepared.checks, *(preflight.of_guest(machine) for machine in guests[:1])]
    return {
        "targets": [target.entry for target in done],
        **({"exact": counted} if counted else {}),
        "preflight": [asdict(check) for check in checks],
        "missing": [*(lack for target in done for lack in target.missing), *lacks, *uncounted],
    }


def run_on_host(
    session: Session, prepared: Prepared, root: Root, raw: Path
) -> targets.FinishedTarget:
    """Carry out this kernel's plan. Nothing else runs meanwhile: it has the times."""
    checks, planner = prepared.checks, prepared.planner
    probe_level, emulated = preflight.probe_level(checks), preflight.emulated(checks)
    uncounted = planner.uncounted(
        "host", prepared.plans["host"], probe_level, alone="guest" not in prepared.plans
    )
    where = (root, probe_level, raw, session.progress, uncounted)
    done = targets.run_plan_on_host(prepared.plans["host"], *where, emulated=emulated)
    if isinstance(planner, ClaimsPlanner):
        try_tools(planner.needs["tools"], raw / "host")
    return done


def run_in_guests(
    session: Session, prepared: Prepared, guests: Sequence[guest.Guest], raw: Path
) -> list[targets.FinishedTarget]:
    """Carry out the guests' plan on each kernel."""
    if not guests:
        return []
    uncounted = prepared.planner.uncounted(
        "guest", prepared.plans["guest"], "function", alone=False
    )
    progress = session.progress
    kept = Cache(session.invoker.cache, progress.say, progress.note)
    return [
        targets.run_plan_in_guest(prepared.plans["guest"], machine, raw, progress, uncounted, kept)
        for machine in guests
    ]


Exact = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""The entries of `exact` and of `missing` in run.json."""


@contextmanager
def beside(work: Callable[[], Exact]) -> Iterator[Future[Exact]]:
    """Do `work` in a thread of its own meanwhile. What ends us early ends its QEMUs."""
    with ThreadPoolExecutor(1) as pool:
        try:
            future = pool.submit(work)
            yield future
            future.exception()  # waits, where a signal can still end it
        except BaseException:
            stopping.set()
            raise


def exact_counting(
    session: Session, python: Path, folder: RunFolder, so_far: str
) -> Callable[[], Exact]:
    """The first answer, and the fast form of exact mode: counts do not mind what runs beside them.

    Set-up asks root's process, so it does not run in the thread.
    """
    failed: Exact | None = None
    try:
        with session.progress.step("set-up for exact counts"):
            session.set_up("--exact")
    except RunError as error:
        why = reason("exact-failed", said=str(error).rstrip("."))
        failed = [], [missing(["exact counts"], why)]

    folder.write_manifest(so_far)
    answer = session.first_answer(python, folder.path, *session.report_of(folder.destination))

    def work() -> Exact:
        with answer:
            if first := answer.read().strip():
                session.progress.note(first)
        return failed or exact.run_fast(session, folder.raw)

    return work


def try_tools(tools: Mapping[str, Sequence[str]], out: Path) -> None:
    """Try which of these options each tool takes; tools.jsonl gets a line for each tool."""
    rows = [_try_tool(name, options) for name, options in tools.items()]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (out / "tools.jsonl").write_text(text, encoding="utf-8")


def _try_tool(name: str, wanted: Sequence[str]) -> dict[str, Any]:
    if shutil.which(name) is None:
        why = f"{name} is not installed (apt-get install {name})"
        return {"tool": name, "help": "", "options": {}, "error": why}
    options = {}
    for option in wanted:
        printed = _printed_by([name, f"{option}=x" if option.startswith("--") else option])
        options[option] = not any(word in printed.lower() for word in COMPLAINTS)
    return {"tool": name, "help": _printed_by([name, "--help"]), "options": options, "error": None}


def _printed_by(argv: list[str]) -> str:
    try:
        done = attempt(argv, timeout=ANSWER_SECONDS, env=os.environ | {"LC_ALL": "C"})
    except OSError as error:
        return str(error)
    return done.stdout + done.stderr
