# SPDX-License-Identifier: GPL-2.0-or-later
"""One run: set-up, preflight, plan, targets, manifest, analysis."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import guest, leftovers, mounts, preflight, targets
from runners.analyse import analyse, analysis
from runners.errors import RunError
from runners.exact import run as exact
from runners.experiments import Experiments
from runners.folder import RunFolder
from runners.installed import try_tools
from runners.intention import intention
from runners.invoker import Invoker, invoker
from runners.lock import measuring
from runners.manifest import Manifest
from runners.options import Options
from runners.plan.claims import ClaimsPlanner, planner_of
from runners.plan.model import Plan
from runners.plan.planner import Planner, plans_of, targets_of
from runners.plan.refusals import accept, refuse_cells
from runners.progress import Progress
from runners.set_up import set_up


@dataclass
class Session:
    """What every station of a run needs to know."""

    options: Options
    invoker: Invoker = field(default_factory=invoker)
    progress: Progress = field(default_factory=Progress)

    def set_up(self, *arguments: str) -> Path:
        """Run setup.sh; the Python of the analysis. Raises RunError."""
        return set_up(
            *arguments,
            install=self.options.install,
            cache=self.invoker.cache,
            say=self.progress.say,
            note=self.progress.note,
        )


@dataclass(frozen=True)
class Prepared:
    """What set-up and preflight found, and what each target will do."""

    python: Path
    checks: list[preflight.Check]
    planner: Planner
    plans: dict[str, Plan]
    experiments: Experiments


def run(options: Options, argv: list[str]) -> None:
    """The main job. Raises UsageError, RunError."""
    session, destination = Session(options), accept(options)
    measure = measure_exactly if options.exact else measure_with_probes
    python = measure(session, destination, argv)
    analyse(python, session.invoker, destination)


def compare(options: Options) -> int:
    """Compare two stored runs: the exit status of the analysis."""
    session = Session(options)
    with session.progress.step("set-up"):
        python = session.set_up("--analysis")
    out = ["--out", str(options.out.resolve())] if options.out else []
    runs = [str(path.resolve()) for path in options.diff]
    return analysis(python, session.invoker, "--diff", *runs, *out)


def measure_exactly(session: Session, destination: Path, argv: list[str]) -> Path:
    """Count the instructions of an emulated machine. This kernel and its probes take no part."""
    with session.progress.step("set-up"):
        python = session.set_up("--exact")
    exact.run(session.options, session.invoker, destination, session.progress, argv)
    return python


def measure_with_probes(session: Session, destination: Path, argv: list[str]) -> Path:
    """Everything that only one run at a time may do."""
    if os.geteuid() != 0:
        raise RunError(
            "probes need root: run it as sudo ./runners/run.sh (the workload will not be root)."
        )
    who = session.invoker
    who.make(who.cache / "running")
    with measuring(), leftovers.journal(who.cache) as journal:
        for name in leftovers.sweep(who.cache):
            session.progress.note(f"removed what a killed run had left: {name}")
        folder = RunFolder(destination, who, journal)
        scratch = journal.add(Path("/tmp", f"pathcost-{os.getpid()}"))
        # 0711: others may traverse but not list; checks run as another user.
        scratch.mkdir(mode=0o700)
        scratch.chmod(0o711)
        who.own(scratch)
        prepared = prepare(session)
        manifest = Manifest(session.options, argv)
        parts = collect(session, prepared, folder.raw, scratch)
        folder.commit(manifest.text(destination, session.progress.seconds, **parts))
    return prepared.python


def prepare(session: Session) -> Prepared:
    """Packages, environment, workload; what this kernel allows; the plan of each target."""
    options, progress = session.options, session.progress
    with progress.step("set-up"):
        python = session.set_up(*(["--claims"] if options.claims is not None else []))
        mounts.private_mounts()
    experiments = Experiments(options.programs, progress)
    experiments.set_up(session.set_up)
    planner = planner_of(options, lambda: python)
    with progress.step("preflight"):
        checks = preflight.checks()
    probe_level, emulated = preflight.probe_level(checks), preflight.emulated(checks)
    chosen = targets_of(options, planner, probe_level)
    plans = plans_of(planner, chosen, probe_level, session.invoker.drop, emulated=emulated)
    refuse_cells(plans.values())
    if "guest" in plans:
        with progress.step("set-up for the guest"):
            session.set_up("--guest")
    progress.note(intention(options, planner, plans, checks))
    if "host" in plans and (met := preflight.on_loopback(checks)):
        progress.note(f"on TCP's path, and in its figures: {met} (--preflight says more)")
    return Prepared(python, checks, planner, plans, experiments)


def collect(session: Session, prepared: Prepared, raw: Path, scratch: Path) -> dict[str, list[Any]]:
    """Run every target; the parts of run.json. Raises UsageError, RunError."""
    options, who, progress = session.options, session.invoker, session.progress
    try:
        guests = targets.prepare_guests(options, who, progress) if "guest" in prepared.plans else []
        done = run_targets(session, prepared, guests, raw, scratch)
        lacks = prepared.experiments.run(raw / "host", who.drop) if "host" in prepared.plans else []
        # Claims are settled by probes and times: exact mode is not among what they need.
        counting = guests and options.claims is None
        counted, uncounted = count_exactly(session, raw, scratch) if counting else ([], [])
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
    session: Session,
    prepared: Prepared,
    guests: Sequence[guest.Guest],
    raw: Path,
    scratch: Path,
) -> list[targets.FinishedTarget]:
    """Carry out the plan of each target."""
    done, plans, planner = [], prepared.plans, prepared.planner
    if "host" in plans:
        probe_level, emulated = (
            preflight.probe_level(prepared.checks),
            preflight.emulated(prepared.checks),
        )
        uncounted = planner.uncounted("host", probe_level, alone="guest" not in plans)
        where = (probe_level, raw, scratch, session.progress, uncounted)
        done.append(targets.run_plan_on_host(plans["host"], *where, emulated=emulated))
        if isinstance(planner, ClaimsPlanner):
            try_tools(planner.needs["tools"], raw / "host")
    for machine in guests:
        around = (machine, raw, scratch, session.invoker, session.progress)
        uncounted = planner.uncounted("guest", "function", alone=False)
        done.append(targets.run_plan_in_guest(plans["guest"], *around, uncounted))
    return done


def count_exactly(
    session: Session, raw: Path, scratch: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fast form of exact mode, where there is a guest's QEMU anyway."""
    try:
        with session.progress.step("set-up for exact counts"):
            session.set_up("--exact")
    except RunError as error:
        failed = reason("exact-failed", said=str(error).rstrip("."))
        return [], [missing(["exact counts"], failed)]
    return exact.run_fast(session.options, raw, scratch, session.invoker, session.progress)
