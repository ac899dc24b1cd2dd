# SPDX-License-Identifier: GPL-2.0-or-later
"""What a rule of the Snakefile runs, in the campaign's folder: store a machine, or count a job."""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from runners.cli import parse
from runners.exact import run as exact
from runners.exact.count import Checkpoints
from runners.host.session import Session
from runners.process import DONE, run_main


def main(argv: list[str]) -> int:
    """Store the machine of a job, or count its cells into runs/. Raises UsageError, RunError."""
    what, name = argv
    job = json.loads(Path(f"jobs/{name}.json").read_text())
    session = Session(parse(job["argv"]))
    options, kept = session.options, Checkpoints(Path("cells").absolute())
    every = exact.by_machine([job["kernel"]], exact.plan_cells(options), options.knobs)
    (cells,) = [cells for _, cpus, cells in every if cpus == job["cpus"]]
    chosen = tuple(cell for cell in cells if str(cell.id) in job["cells"])
    work = job["kernel"], job["cpus"], chosen
    with session.scratch() as scratch:
        if what == "machine":
            exact.Station(Path(), session.invoker, kept, session.progress).prepare(work, {})
            return DONE
        with own_cpu():
            run = Path("runs", name).absolute()
            exact.run(session, run, scratch, part=(work, kept))
    kept.forget()
    return DONE


def own_cpu() -> socket.socket:
    """Run on a CPU that no other job of this host has, where there is one: the lock on it.

    Exact mode puts its QEMUs on the CPUs with the fewest of its own, and does not see other
    processes. The name of a socket is a lock that no killed job leaves behind.
    """
    lock = socket.socket(socket.AF_UNIX)
    for cpu in sorted(os.sched_getaffinity(0)):
        with suppress(OSError):
            lock.bind(f"\0pathcost-campaign-cpu-{cpu}")
            os.sched_setaffinity(0, {cpu})
            break
    return lock


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(sys.argv[1:])))
