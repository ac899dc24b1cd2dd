# SPDX-License-Identifier: GPL-2.0-or-later
"""One run: set-up, preflight, lanes, manifest, analysis."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import claims, guest, lanes, leftovers, mounts, preflight, show
from runners.cells import EMULATED, HOST
from runners.collect.children import command
from runners.errors import RunError
from runners.exact import run as exact
from runners.folder import RunFolder, place
from runners.invoker import Invoker, invoker
from runners.lock import measuring
from runners.options import Options
from runners.programs.probes import Probes
from runners.progress import Progress

FORMAT = 1
VERSION = "0.1.0"


@dataclass
class Session:
    """What every station of a run needs to know."""

    options: Options
    invoker: Invoker
    progress: Progress
    checks: list[preflight.Check]
    rung: str = "counters"
    needs: claims.Needs | None = None  # of --claims
    lacking: dict[str, str] = field(default_factory=dict)  # of --apps: why it was not built

    @property
    def lanes(self) -> tuple[str, ...]:
        """Which lanes run: `auto` takes a guest where this kernel allows no function probes."""
        if self.options.lane != "auto":
            return (self.options.lane,)
        if self.needs is not None and not claims.in_guest(self.needs):
            return ("host",)
        return ("host",) if self.rung == "function" else ("host", "vm")


def run(options: Options, argv: list[str]) -> int:
    """The main job. Raises UsageError, RunError; the exit status otherwise."""
    who = invoker()
    target = place(options.out, lanes.REPOSITORY / "reports")
    if options.exact:
        return _run_exact(options, who, target, argv)
    _need_root()
    who.make(who.cache / "running")
    with measuring(), leftovers.journal(who.cache) as journal:
        session = Session(options, who, Progress(), [])
        _sweep(session)
        folder = RunFolder(target, who, journal)
        scratch = journal.add(Path("/tmp", f"pathcost-{os.getpid()}"))
        # Others may pass through, and see nothing: what a check asks as another user lies below.
        scratch.mkdir(mode=0o700)
        scratch.chmod(0o711)
        who.own(scratch)
        python = _set_up(session)
        _measure(session, folder, scratch, argv)
    return _analyse(session, python, target)


def _run_exact(options: Options, who: Invoker, target: Path, argv: list[str]) -> int:
    """Instructions of an emulated machine: this kernel and its probes have no part in it."""
    session = Session(options, who, Progress(), [])
    exact.plan_cells(options)
    with session.progress.step("set-up"):
        python = _setup_sh(session, "--exact") / "bin/python"
    exact.run(options, who, target, session.progress, argv)
    return _analyse(session, python, target)


def compare(options: Options) -> int:
    """Two runs that are there: the analysis alone, whose exit status is the answer."""
    session = Session(options, invoker(), Progress(), [])
    with session.progress.step("set-up"):
        python = _setup_sh(session, "--analysis") / "bin/python"
    out = ["--out", str(options.out.resolve())] if options.out else []
    runs = [str(path.resolve()) for path in options.diff]
    return _analysis(python, session.invoker, "--diff", *runs, *out)


def _need_root() -> None:
    if os.geteuid() != 0:
        raise RunError(
            "probes need root: run it as sudo ./runners/run.sh (the workload will not be root)."
        )


def _sweep(session: Session) -> None:
    for name in leftovers.sweep(session.invoker.cache):
        session.progress.note(f"removed what a killed run had left: {name}")


def _set_up(session: Session) -> Path:
    """Packages, environment, workload; then what this kernel allows. The environment's python."""
    with session.progress.step("set-up"):
        wanted = ["--claims"] if session.options.claims is not None else []
        environment = _setup_sh(session, *wanted)
        mounts.private_mounts()
    _set_up_apps(session)
    if session.options.claims is not None:
        session.needs = claims.read_needs(environment / "bin/python", session.options)
    with session.progress.step("preflight"):
        session.checks = preflight.checks()
        session.rung = preflight.rung(session.checks)
    if "vm" in session.lanes:
        with session.progress.step("set-up for the guest"):
            _setup_sh(session, "--guest")
    session.progress.note(_intention(session))
    if "host" in session.lanes and (met := preflight.on_loopback(session.checks)):
        session.progress.note(f"on TCP's path, and in its figures: {met} (--preflight says more)")
    return environment / "bin/python"


def _set_up_apps(session: Session) -> None:
    """Each by itself: where one cannot be built here, the others run all the same."""
    for app in session.options.apps:
        try:
            with session.progress.step(f"set-up for {app}"):
                _setup_sh(session, f"--{app}")
        except RunError as error:
            session.lacking[app] = str(error).rstrip(".")
            session.progress.note(f"without {app}: {error}")


def _setup_sh(session: Session, *arguments: str) -> Path:
    options = [] if session.options.install else ["--no-install"]
    script = lanes.REPOSITORY / "runners/setup.sh"
    process = subprocess.Popen(
        command([str(script), *options, *arguments]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PATHCOST_CACHE": str(session.invoker.cache)},
    )
    assert process.stdout is not None
    line = ""
    try:
        for line in process.stdout:
            session.progress.say(line.strip())
        complaint = process.communicate()[1]
    finally:
        process.kill()
    if process.returncode != 0:
        lines = complaint.strip().splitlines()
        for line in lines[-6:-1]:  # of a compiler
            session.progress.note(line)
        raise RunError(lines[-1].removeprefix("pathcost: ") if lines else "set-up failed.")
    return Path(line.strip())


def _intention(session: Session) -> str:
    options = session.options
    if session.needs is not None:
        return show.claims_note(session.needs, options, session.lanes, session.rung)
    where = {
        ("host",): "everything on this kernel",
        ("vm",): "counts in a guest; no times",
        ("host", "vm"): "times and tracepoints on this kernel, kernel functions in a guest",
    }[session.lanes]
    if preflight.emulated(session.checks) and "host" in session.lanes:
        where += "; no times, as its CPU is emulated"
    lack = preflight.why_not_function(session.checks)
    return (
        f"{', '.join(options.transports)} · {', '.join(options.patterns)} · "
        f"{', '.join(map(str, options.sizes))} B · {', '.join(options.placements)}\n"
        f"this kernel allows {preflight.rung_words(session.rung)}"
        f"{f' ({lack})' if lack else ''}: {where}"
    )


def _measure(session: Session, folder: RunFolder, scratch: Path, argv: list[str]) -> None:
    started, began = datetime.datetime.now().astimezone(), time.monotonic()
    options, who, progress = session.options, session.invoker, session.progress
    # Claims are settled by probes and times: exact mode is not among what they need.
    counting = "vm" in session.lanes and session.needs is None
    try:
        guests = lanes.prepare_guests(options, who, progress) if "vm" in session.lanes else []
        session.checks += [preflight.of_guest(machine) for machine in guests[:1]]
        done = []
        done = _run_lanes(session, guests, folder.raw, scratch)
        lacks = _run_apps(session, folder.raw)
        counted, uncounted = _count_exactly(session, folder, scratch) if counting else ([], [])
    except guest.GuestError as error:
        raise RunError(str(error)) from error
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "name": folder.target.name,
        "pathcost": VERSION,
        "command": ["./runners/run.sh", *argv],
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 1),
        "seconds_by_step": progress.seconds,
        "options": asdict(options) | {"out": str(folder.target)},
        "lanes": [lane.entry for lane in done],
        **({"exact": counted} if counted else {}),
        "preflight": [asdict(check) for check in session.checks],
        "missing": [*(entry for lane in done for entry in lane.missing), *lacks, *uncounted],
    }
    folder.commit(manifest)


def _run_lanes(
    session: Session, guests: Sequence[guest.Guest], raw: Path, scratch: Path
) -> list[lanes.Lane]:
    """Every lane's cells: those of the options, or those that claims need."""
    options, needs, rung = session.options, session.needs, session.rung
    around = (raw, scratch, session.invoker, session.progress)
    cpu = {"emulated": preflight.emulated(session.checks)}
    done = []
    if "host" in session.lanes and needs is None:
        usual = EMULATED if cpu["emulated"] else HOST
        plan = lanes.plan_for(options, usual, rung, lanes.WORKLOAD, session.invoker.drop)
        lacks = lanes.beyond(options, "host", rung)
        lane = lanes.run_plan_on_host(plan, rung, raw, scratch, session.progress, lacks, **cpu)
        done.append(lane)
    elif "host" in session.lanes and needs is not None:
        plan = claims.host_plan(needs, options, rung, not guests, session.invoker)
        lacks = [] if guests else claims.lacking(needs, rung)
        lane = lanes.run_plan_on_host(plan, rung, raw, scratch, session.progress, lacks, **cpu)
        claims.ask_tools(needs, raw / "host")
        done.append(lane)
    for machine in guests:
        if needs is None:
            done.append(lanes.run_guest(options, machine, *around))
        else:
            plan = claims.guest_plan(needs, options)
            done.append(lanes.run_plan_in_guest(plan, machine, *around))
    return done


def _run_apps(session: Session, raw: Path) -> list[dict[str, Any]]:
    """The articles' experiments, on this kernel; what could not run, for the manifest."""
    lacks: list[dict[str, Any]] = []
    probes = Probes()
    for app in session.options.apps if (raw / "host").is_dir() else ():
        module = import_module(f"runners.programs.{app}")
        why = session.lacking.get(app) or module.lack()
        around = (session.invoker.drop, session.progress.say, probes)
        with session.progress.step(f"host: {app}"):
            try:
                for record in () if why else module.run(*around):
                    with (raw / "host/apps.jsonl").open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(record) + "\n")
            except (RunError, OSError) as error:  # its server may be gone
                why = str(error)
        if why:
            said = reason("program-failed", said=why.rstrip("."))
            lacks.append(missing([f"the experiment {app}"], said))
    return [lack | {"lane": "host"} for lack in [*lacks, *probes.lacks]]


def _count_exactly(
    session: Session, folder: RunFolder, scratch: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fast form of exact mode, where there is a guest's QEMU anyway."""
    try:
        with session.progress.step("set-up for exact counts"):
            _setup_sh(session, "--exact")
    except RunError as error:
        said = str(error).rstrip(".")
        return [], [missing(["exact counts"], reason("exact-failed", said=said))]
    return exact.run_fast(session.options, folder.raw, scratch, session.invoker, session.progress)


def _analyse(session: Session, python: Path, target: Path) -> int:
    if _analysis(python, session.invoker, str(target)) != 0:
        raise RunError(
            f"measured, but not analysed: the raw files are in {target}; "
            f"try again with python -m analysis {target}."
        )
    return 0


def _analysis(python: Path, who: Invoker, *arguments: str) -> int:
    """The analysis needs no root and gets none."""
    return subprocess.run(
        command([str(python), "-B", "-m", "analysis", *arguments], who.drop),
        cwd=lanes.REPOSITORY,
        env=os.environ | {"HOME": str(who.home), "MPLCONFIGDIR": str(who.cache / "matplotlib")},
        check=False,
    ).returncode
