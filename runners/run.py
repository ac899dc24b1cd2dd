# SPDX-License-Identifier: GPL-2.0-or-later
"""One run: set-up, preflight, plan, targets, manifest, analysis."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import guest, preflight, targets
from runners.errors import RunError
from runners.exact import run as exact
from runners.experiments import Experiments
from runners.folder import Manifest, RunFolder
from runners.options import Options
from runners.plan.claims import ClaimsPlanner, planner_of
from runners.plan.model import Plan
from runners.plan.planner import OptionsPlanner, plans_of, targets_of
from runners.plan.refusals import accept, refuse_cells
from runners.process import attempt
from runners.root import Root
from runners.session import Session
from runners.show import intention

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
    shown = [options.shown] if options.shown else []
    try:
        status = session.analyse(python, str(destination), *shown)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; measured, but not analysed: {again}") from None
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
    with session.journal() as journal:
        exact.run(session, destination, journal, argv)
    return python


def measure_with_probes(session: Session, destination: Path, argv: list[str]) -> Path:
    """Everything that only one run at a time may do."""
    root = session.need_root()
    root.mounts()
    removed = root.lock()
    with session.journal(removed) as journal:
        folder = RunFolder(destination, journal)
        prepared = prepare(session)
        manifest = Manifest(session.options, argv)
        parts = collect(session, prepared, root, folder.raw)
        folder.commit(manifest.text(destination, session.progress.seconds, **parts))
    return prepared.python


def prepare(session: Session) -> Prepared:
    """Packages, environment, workload; what this kernel allows; the plan of each target."""
    options, progress = session.options, session.progress
    with progress.step("set-up"):
        python = session.set_up(*(["--claims"] if options.claims is not None else []))
    experiments = Experiments(options.programs, progress)
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


def collect(session: Session, prepared: Prepared, root: Root, raw: Path) -> dict[str, list[Any]]:
    """Run every target; the parts of run.json. Raises UsageError, RunError."""
    options, who, progress = session.options, session.invoker, session.progress
    try:
        guests = targets.prepare_guests(options, who, progress) if "guest" in prepared.plans else []
        done = run_targets(session, prepared, guests, root, raw)
        lacks = prepared.experiments.run(raw / "host", root) if "host" in prepared.plans else []
        # Claims are settled by probes and times: exact mode is not among what they need.
        counting = guests and options.claims is None
        counted, uncounted = count_exactly(session, raw) if counting else ([], [])
    except guest.GuestError as error:
        raise RunError(str(error)) from error
    checks = [*prepared.checks, *(preflight.of_guest(machine) for machine in guests[:1])]
    return {
        "targets": [target.entry for target in done],
        **({"exact": counted} if counted else {}),
        "preflight": [asdict(check) for check in checks],
        "missing": [*(lack for target in done for lack in target.missing), *lacks, *uncounted],
    }


def run_targets(
    session: Session, prepared: Prepared, guests: Sequence[guest.Guest], root: Root, raw: Path
) -> list[targets.FinishedTarget]:
    """Carry out the plan of each target."""
    done, plans, planner = [], prepared.plans, prepared.planner
    if "host" in plans:
        checks = prepared.checks
        probe_level = preflight.probe_level(checks)
        uncounted = planner.uncounted("host", probe_level, alone="guest" not in plans)
        where = (root, probe_level, raw, session.progress, uncounted)
        emulated = preflight.emulated(checks)
        done.append(targets.run_plan_on_host(plans["host"], *where, emulated=emulated))
        if isinstance(planner, ClaimsPlanner):
            try_tools(planner.needs["tools"], raw / "host")
    for machine in guests:
        around = (machine, raw, session.progress)
        uncounted = planner.uncounted("guest", "function", alone=False)
        done.append(targets.run_plan_in_guest(plans["guest"], *around, uncounted))
    return done


def count_exactly(session: Session, raw: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fast form of exact mode, where there is a guest's QEMU anyway."""
    try:
        with session.progress.step("set-up for exact counts"):
            session.set_up("--exact")
    except RunError as error:
        failed = reason("exact-failed", said=str(error).rstrip("."))
        return [], [missing(["exact counts"], failed)]
    return exact.run_fast(session, raw)


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
    except (subprocess.TimeoutExpired, OSError) as error:
        return str(error)
    return done.stdout + done.stderr
