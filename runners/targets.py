# SPDX-License-Identifier: GPL-2.0-or-later
"""The targets of the verb `run`: each carries out its plan.

A target is this kernel (`host`), or a chosen kernel in a guest under QEMU (`guest`).
"""

import json
import os
import select
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from probes.cell import Plan
from probes.contract import ENVIRONMENT, MISSING
from probes.isa import ISAS, USUAL, Isa
from probes.reasons import missing, reason
from runners import guest
from runners.checks import try_tools
from runners.exact.machine import built_for
from runners.guest.boot import stored_guest
from runners.guest.store import Cache
from runners.host import preflight
from runners.host.session import Session
from runners.host.waiting import waiting_plan
from runners.options import RunOptions
from runners.plan import GUEST_GIVEN, Missing, Planner
from runners.process import REPOSITORY, WORKLOAD, Progress, RunError, last_line
from runners.programs.experiments import Experiments
from runners.store.folders import publish

# What the collector needs beside the workload; in the guest all of it lies in one folder.
COLLECTOR_FOLDERS = ("runners", "probes")
GUEST_NOBODY = "65534:65534"
GUEST_FOLDER = Path("/run/pathcost")  # where the payload lies
# A module that does not load costs its transport, which then reports what is missing.
LOAD_MODULES = 'for file in modules/*.ko; do [ ! -e "$file" ] || insmod "$file"; done; exec "$@"'
COLLECT = (
    *("python3", "-B", "-m", "runners.host", "plan.json", "out"),
    "--own-kernel",
    *("--workload", str(GUEST_FOLDER / WORKLOAD.name)),
    *("--user", GUEST_NOBODY),
)
GUEST_SECONDS, CELL_SECONDS = 600, 10  # ten times what a guest and a cell take
SILENT_SECONDS = 240  # a cell ends within 70, and what attaches longest within 60
GUEST_MEMORY = 2560  # MiB: each bpftrace takes some 70 while its script is attached
STORED_MEMORY = 1024  # of a guest that is stored, for which free memory is made blank
NO_TIMES: Missing = missing(["times"], reason("emulated-cpu"))
Target = tuple[dict[str, Any], list[Missing]]  # an entry of `targets`, and what it lacks


@dataclass(frozen=True)
class Prepared:
    """What set-up and preflight found, and what each target will do."""

    checks: list[preflight.Check]
    planner: Planner
    plans: dict[str, Plan]
    experiments: Experiments
    no_guest: str = ""  # why set-up could not bring what a guest needs


def run_on_host(session: Session[RunOptions], prepared: Prepared, raw: Path) -> Target:
    """Carry out this kernel's plan. Nothing else runs meanwhile: it has the times."""
    planner, plan = prepared.planner, prepared.plans["host"]
    probe_level = preflight.probe_level(prepared.checks)
    lacks = planner.uncounted("host", prepared.plans, probe_level)
    emulated = preflight.emulated(prepared.checks)
    lacks += [NO_TIMES] if emulated else []
    with session.progress.step("host: measuring"), tempfile.TemporaryFile() as complaints:
        collector = session.starter.start("collect", stderr=complaints.fileno())
        with suppress(BrokenPipeError):
            collector.stdin.write(plan.text().encode())
            collector.stdin.close()
        for line in lines(collector.stdout, SILENT_SECONDS):
            follow(line, session.progress)
        status, results = collector.wait()
        if status != 0 or results is None:
            raise RunError(last_line(complaints) or f"the collector ended with status {status}.")
        shutil.copytree(results, raw / "host")
        publish(raw / "host")  # which root kept for this user
    if planner.needs is not None:
        try_tools(planner.needs["tools"], raw / "host")
    return finish(plan, raw / "host", "host", probe_level, "tcg" if emulated else None, lacks)


def lines(stream: IO[bytes], silence: float) -> Iterator[str]:
    """Yield lines as they come. Raises RunError after so many seconds without one."""
    rest = b""
    while True:
        if not select.select([stream], [], [], silence)[0]:
            raise RunError(f"the collector said nothing for {silence:.0f} s: was it stopped?")
        data = os.read(stream.fileno(), 65536)
        *complete, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in complete)
        if not data:
            return


def follow(line: str, progress: Progress) -> None:
    """Show a collector's line `@progress DONE TOTAL TEXT`; ignore any other."""
    if line.startswith("@progress "):
        _, done, total, text = line.rstrip().split(" ", 3)
        progress.count(int(done), int(total), text)


def prepare_guests(session: Session[RunOptions], refused: str = "") -> list[guest.Guest]:
    """Prepare a guest for each kernel. Raises UsageError, RunError: also what set-up `refused`."""
    if refused:
        raise RunError(refused)
    options, progress = session.options, session.progress
    storable = not options.given & GUEST_GIVEN  # a run that is likely to be repeated
    parallel = "spin" in options.waits or options.claims is not None
    with progress.step("guest: preparing"):
        return [
            replace(
                guest.prepare(
                    session.invoker.cache,
                    kernel,
                    progress.say,
                    transports=options.transports,
                    storable=storable,
                    isa=ISAS[options.arch],
                ),
                parallel=parallel,
            )
            for kernel in options.kernels
        ]


def run_in_guests(
    session: Session[RunOptions], prepared: Prepared, guests: Sequence[guest.Guest], raw: Path
) -> list[Target]:
    """Carry out the guests' plan on each kernel. Raises RunError."""
    if not guests:
        return []
    plan, progress = prepared.plans["guest"], session.progress
    lacks = prepared.planner.uncounted("guest", prepared.plans, "function")
    cache = Cache(session.invoker.cache, progress.say)
    return [run_in_guest(plan, machine, raw, progress, lacks, cache) for machine in guests]


def run_in_guest(
    plan: Plan,
    machine: guest.Guest,
    raw: Path,
    progress: Progress,
    uncounted: Sequence[Missing] = (),
    cache: Cache | None = None,
) -> Target:
    """Carry out this plan on one kernel under QEMU. Raises RunError.

    With a `cache` a storable guest is stored with its probes attached, for the next such run.
    """
    out = raw / f"guest-{machine.release}"
    first = waiting_plan(plan) if cache and machine.drivers else None
    memory = STORED_MEMORY if first else GUEST_MEMORY
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        payload, order = Path(folder, "payload.tar"), Path(folder, "plan.json")
        order.write_text((first or plan).text(), encoding="utf-8")
        modules = [(file, f"modules/{n:02}-{file.name}") for n, file in enumerate(machine.modules)]
        pack(payload, [(order, order.name), *modules], machine.kernel.isa)
        command = ["sh", "-c", LOAD_MODULES, "sh", *COLLECT]
        if first:
            command.append("--wait")
        stored: Path | None = None
        if cache and first:
            try:
                with progress.step(f"guest {machine.release}: preparing"):
                    stored = stored_guest(cache, machine, payload, command, memory)
            except (RunError, OSError) as error:
                progress.note(f"this guest boots in each run, as it cannot be stored: {error}")
        with progress.step(f"guest {machine.release}: measuring"):
            machine.run(
                payload,
                out,
                command,
                timeout=GUEST_SECONDS + CELL_SECONDS * plan.runs,
                memory=memory,
                on_line=lambda line: follow(line, progress),
                late=plan.text().encode() if first else b"",
                stored=stored,
            )
    return finish(plan, out, "guest", "function", machine.accelerator, uncounted)


def source_only(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what was built."""
    return None if Path(entry.name).name in ("__pycache__", "build") else entry


def pack(payload: Path, files: Sequence[tuple[Path, str]] = (), isa: Isa = USUAL) -> None:
    """Write a guest's input: our sources, its workload, and these files with their names there."""
    with tarfile.open(payload, "w") as tar:
        for folder in COLLECTOR_FOLDERS:
            tar.add(REPOSITORY / folder, folder, filter=source_only)
        for file, name in ((built_for(isa, WORKLOAD), WORKLOAD.name), *files):
            tar.add(file, name)


def finish(
    plan: Plan,
    out: Path,
    kind: str,
    probe_level: str,
    accelerator: str | None,
    uncounted: Sequence[Missing],
) -> Target:
    """Read what a collector has left."""
    environment = json.loads((out / ENVIRONMENT).read_text(encoding="utf-8"))
    failed = json.loads((out / MISSING).read_text(encoding="utf-8"))
    entry = {
        "folder": out.name,
        "kind": kind,
        "kernel": environment["kernel"],
        "probe_level": probe_level,
        "accelerator": accelerator,
        "runs": plan.runs,
    }
    return entry, [lack | {"target": out.name} for lack in (*failed, *uncounted)]
