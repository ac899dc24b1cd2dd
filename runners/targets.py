# SPDX-License-Identifier: GPL-2.0-or-later
"""Where cells run: this kernel (`host`), or a chosen kernel in a guest under QEMU (`guest`)."""

import json
import os
import select
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from probes.reasons import missing, reason
from runners import guest
from runners.cell import Cell, CellRun, Pass, Plan
from runners.guest.boot import stored_guest
from runners.guest.cache import Cache
from runners.host.root import Root
from runners.options import Options
from runners.process import REPOSITORY, WORKLOAD, Progress, RunError, last_line
from runners.store import Invoker

# What the collector needs beside the workload; in the guest all of it lies in one folder.
PAYLOAD = ("runners", "probes")
GUEST_NOBODY = "65534:65534"
GUEST_FOLDER = Path("/run/pathcost")  # where the payload lies
# A module that does not load costs its transport, which then reports what is missing.
LOAD_MODULES = 'for file in modules/*.ko; do [ ! -e "$file" ] || insmod "$file"; done; exec "$@"'
COLLECT = (
    *("python3", "-B", "-m", "runners.host", "plan.json", "out", "--own-kernel"),
    *("--workload", str(GUEST_FOLDER / WORKLOAD.name), "--user", GUEST_NOBODY),
)
# Some ten times what a guest takes on an idle machine: all instruments, and each cell run.
GUEST_SECONDS, CELL_SECONDS = 600, 10
SILENT_SECONDS = 240  # a cell ends within 70, and what attaches longest within 60
GUEST_MEMORY = 2560  # MiB: each bpftrace takes some 70 while its script is attached


# An entry of `missing` in run.json.
Missing = dict[str, Any]
NO_TIMES: Missing = missing(["times"], reason("emulated-cpu"))


@dataclass(frozen=True)
class FinishedTarget:
    """A target that has run: its entry in run.json, and what is missing from it."""

    entry: dict[str, Any]
    missing: list[Missing]


def run_plan_on_host(
    plan: Plan,
    root: Root,
    probe_level: str,
    raw: Path,
    progress: Progress,
    uncounted: list[Missing],
    *,
    emulated: bool = False,
) -> FinishedTarget:
    """Carry out this plan on this kernel, as root. Raises RunError."""
    missing = [*uncounted, NO_TIMES] if emulated else uncounted
    out = raw / "host"
    with progress.step("host: measuring"), tempfile.TemporaryFile() as complaints:
        collector = root.start("collect", stderr=complaints.fileno())
        with suppress(BrokenPipeError):
            collector.stdin.write(plan.text().encode())
            collector.stdin.close()
        for line in lines(collector.stdout, SILENT_SECONDS):
            follow(line, progress)
        status, results = collector.wait()
        if status != 0 or results is None:
            said = last_line(complaints)
            raise RunError(said or f"the collector ended with status {status}.")
        shutil.copytree(results, out)
    return _finish(plan, out, "host", probe_level, "tcg" if emulated else None, missing)


def lines(stream: IO[bytes], silence: float) -> Iterator[str]:
    """Lines as they come. Raises RunError after so many seconds without one."""
    rest = b""
    while True:
        if not select.select([stream], [], [], silence)[0]:
            raise RunError(f"the collector said nothing for {silence:.0f} s: was it stopped?")
        data = os.read(stream.fileno(), 65536)
        *whole, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
        if not data:
            return


def follow(line: str, progress: Progress) -> None:
    """Show a collector's line `@progress DONE TOTAL TEXT`; ignore any other."""
    if line.startswith("@progress "):
        _, done, total, text = line.rstrip().split(" ", 3)
        progress.count(int(done), int(total), text)


def prepare_guests(options: Options, invoker: Invoker, progress: Progress) -> list[guest.Guest]:
    """A guest for each kernel of --kernel. Raises UsageError for an unknown one, RunError."""
    with progress.step("guest: preparing"):
        return [
            guest.prepare(
                *(invoker.cache, kernel, progress.say),
                note=progress.note,
                transports=options.transports,
                storable=not options.guest_given,  # a run that is likely to be repeated
            )
            for kernel in options.kernels
        ]


def run_plan_in_guest(
    plan: Plan,
    machine: guest.Guest,
    raw: Path,
    progress: Progress,
    uncounted: Sequence[Missing] = (),
    cache: Cache | None = None,
) -> FinishedTarget:
    """Carry out this plan on one kernel under QEMU. Raises RunError.

    With a `cache` a storable guest is stored there with its probes attached, and the next run with
    these scripts and transports starts from there.
    """
    out = raw / f"guest-{machine.release}"
    first = waiting_plan(plan) if cache and machine.drivers else None
    with tempfile.TemporaryDirectory(prefix="pathcost-") as folder:
        payload, order = Path(folder, "payload.tar"), Path(folder, "plan.json")
        order.write_text((first or plan).text(), encoding="utf-8")
        modules = [(file, f"modules/{n:02}-{file.name}") for n, file in enumerate(machine.modules)]
        pack(payload, [(order, order.name), *modules])
        command = ["sh", "-c", LOAD_MODULES, "sh", *COLLECT, *(["--wait"] if first else [])]
        stored = keep(cache, machine, payload, command, progress) if cache and first else None
        with progress.step(f"guest {machine.release}: measuring"):
            machine.run(
                payload,
                out,
                command,
                timeout=GUEST_SECONDS + CELL_SECONDS * plan.runs,
                memory=GUEST_MEMORY,
                on_line=lambda line: follow(line, progress),
                late=plan.text().encode() if first else b"",
                stored=stored,
            )
    return _finish(plan, out, "guest", "function", machine.accelerator, uncounted)


def keep(
    cache: Cache, machine: guest.Guest, payload: Path, command: list[str], progress: Progress
) -> Path | None:
    """The stored guest; None where it cannot be stored, with the reason told: then it boots."""
    try:
        with progress.step(f"guest {machine.release}: preparing"), cache:
            return stored_guest(cache, machine, payload, command, memory=GUEST_MEMORY)
    except (RunError, OSError) as error:
        progress.note(f"this guest boots in each run, as it cannot be stored: {error}")
        return None


def waiting_plan(plan: Plan) -> Plan | None:
    """What a stored guest knows of the plan: its first scripts and its transports.

    None where nothing is attached first.
    """
    scripts = plan.passes[0].scripts
    names = sorted({cell.transport for cell in plan.cells})
    runs = [CellRun(0, Cell(transport=name, pattern="", size=0, placement=""), 0) for name in names]
    return Plan((Pass(scripts, tuple(runs)),)) if scripts else None


def pack(payload: Path, files: Sequence[tuple[Path, str]] = ()) -> None:
    """Write a guest's input: our sources, the workload, and these files with their names there."""
    with tarfile.open(payload, "w") as tar:
        for folder in PAYLOAD:
            tar.add(REPOSITORY / folder, folder, filter=source_only)
        for file, name in ((WORKLOAD, WORKLOAD.name), *files):
            tar.add(file, name)


def source_only(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name).name
    return None if name in ("__pycache__", "build") else entry


def _finish(
    plan: Plan,
    out: Path,
    kind: str,
    probe_level: str,
    accelerator: str | None,
    uncounted: Sequence[Missing],
) -> FinishedTarget:
    environment = json.loads((out / "environment.json").read_text(encoding="utf-8"))
    failed = json.loads((out / "missing.json").read_text(encoding="utf-8"))
    entry = {
        "folder": out.name,
        "kind": kind,
        "kernel": environment["kernel"],
        "probe_level": probe_level,
        "accelerator": accelerator,
        "runs": plan.runs,
    }
    return FinishedTarget(entry, [lack | {"target": out.name} for lack in (*failed, *uncounted)])
