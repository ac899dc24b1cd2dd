# SPDX-License-Identifier: GPL-2.0-or-later
"""Where cells run: this kernel (`host`), or a chosen kernel in a guest under QEMU (`guest`)."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.reasons import missing, reason
from runners import guest
from runners.errors import RunError, UsageError
from runners.invoker import Invoker
from runners.options import Options
from runners.plan.model import Plan
from runners.process import stop
from runners.progress import Progress

REPOSITORY = Path(__file__).parent.parent
WORKLOAD = REPOSITORY / "runners/workload/build/pathcost-workload"
# What the collector needs beside the workload; in the guest all of it lies in one folder.
PAYLOAD = ("runners", "probes")
GUEST_NOBODY = (65534, 65534)
GUEST_FOLDER = Path("/run/pathcost")  # where the payload lies
# A module that does not load costs its transport, which then reports what is missing.
LOAD_MODULES = 'for file in modules/*.ko; do [ ! -e "$file" ] || insmod "$file"; done; exec "$@"'
COLLECT = ("python3", "-B", "-m", "runners.collect", "plan.json", "out")
GUEST_SECONDS = 600  # some ten times what all instruments take on an idle machine
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
    probe_level: str,
    raw: Path,
    scratch: Path,
    progress: Progress,
    uncounted: list[Missing],
    *,
    emulated: bool = False,
) -> FinishedTarget:
    """Carry out this plan on this kernel. Raises RunError."""
    missing = [*uncounted, NO_TIMES] if emulated else uncounted
    plan.dump(scratch / "plan.json")
    out = raw / "host"
    errors = scratch / "collect.stderr"
    with progress.step("host: measuring"), errors.open("wb") as complaints:
        collector = subprocess.Popen(
            [sys.executable, "-B", "-m", "runners.collect", str(scratch / "plan.json"), str(out)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=REPOSITORY,
            env=os.environ | {"TMPDIR": str(scratch)},
            start_new_session=True,
        )
        try:
            assert collector.stdout is not None
            for line in collector.stdout:
                follow(line.decode(errors="replace"), progress)
            status = collector.wait()
        finally:
            stop(collector)
    if status != 0:
        lines = errors.read_text(errors="replace").strip().splitlines()
        raise RunError(lines[-1] if lines else f"the collector ended with status {status}.")
    return _finish(plan, out, "host", probe_level, "tcg" if emulated else None, missing)


def follow(line: str, progress: Progress) -> None:
    """Show a collector's line `@progress DONE TOTAL TEXT`; ignore any other."""
    if line.startswith("@progress "):
        _, done, total, text = line.rstrip().split(" ", 3)
        progress.count(int(done), int(total), text)


def prepare_guests(options: Options, invoker: Invoker, progress: Progress) -> list[guest.Guest]:
    """A guest for each kernel of --kernel. Raises UsageError for an unknown one, GuestError."""
    with progress.step("guest: preparing"):
        try:
            return [
                guest.prepare(
                    *(invoker.cache, kernel, progress.say, invoker.drop),
                    note=progress.note,
                    transports=options.transports,
                )
                for kernel in options.kernels
            ]
        except guest.UnknownKernelError as error:
            raise UsageError(f"{error}.") from error


def run_plan_in_guest(
    plan: Plan,
    machine: guest.Guest,
    raw: Path,
    scratch: Path,
    invoker: Invoker,
    progress: Progress,
    uncounted: Sequence[Missing] = (),
) -> FinishedTarget:
    """Carry out this plan on one kernel under QEMU. Raises GuestError."""
    plan.dump(scratch / "plan.json")
    payload = scratch / "payload.tar"
    modules = [(file, f"modules/{n}-{file.name}") for n, file in enumerate(machine.modules)]
    pack(payload, [(scratch / "plan.json", "plan.json"), *modules])
    out = raw / f"guest-{machine.release}"
    with progress.step(f"guest {machine.release}: measuring"):
        machine.run(
            payload,
            out,
            ["sh", "-c", LOAD_MODULES, "sh", *COLLECT],
            timeout=GUEST_SECONDS,
            memory=GUEST_MEMORY,
            on_line=lambda line: follow(line, progress),
            user=invoker.drop,
        )
    return _finish(plan, out, "guest", "function", machine.accelerator, uncounted)


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
