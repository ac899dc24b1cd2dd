# SPDX-License-Identifier: GPL-2.0-or-later
"""What a rule of the Snakefile runs, in the campaign's folder: store a machine, or count a job."""

import fcntl
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runners import cli
from runners.campaign.jobs import read_job, write_whole
from runners.errors import RunError
from runners.exact import run as exact
from runners.exact.machine.checkpoints import Checkpoints
from runners.options import parse
from runners.session import Session

JOBS, CELLS = Path("jobs"), Path("cells")


def main(argv: list[str]) -> int:
    what, name, *out = argv
    job = read_job(JOBS / f"{name}.json")
    session = Session(parse(job["argv"]))
    if what == "machine":
        with exact.told(), session.journal():
            station = exact.Station(Path(), session.invoker, _kept(), session.progress)
            station.prepare(_work(session, job), {})
    else:
        count(session, job, Path(out[0]))
    return cli.DONE


def count(session: Session, job: Mapping[str, Any], out: Path) -> None:
    """Count a job's cells into the run folder `out`. Raises UsageError, RunError.

    A job may outlive the Snakemake that started it. The next one then waits here for its result.
    """
    out = out.absolute()
    with alone(CELLS / f"{out.name}.lock"), own_cpu():
        if (out / "run.json").exists():
            return
        with session.journal() as journal:
            kept = _kept()
            exact.run(session, out, journal, job["argv"], part=(_work(session, job), kept))
        write_whole(CELLS / f"{out.name}.used", "\0".join(map(str, kept.used)))


def _kept() -> Checkpoints:
    return Checkpoints(CELLS.absolute())


def _work(session: Session, job: Mapping[str, Any]) -> exact.Work:
    options = session.options
    every = exact.by_machine([job["kernel"]], exact.plan_cells(options), options.knobs)
    (cells,) = [cells for _, cpus, cells in every if cpus == job["cpus"]]
    chosen = tuple(cell for cell in cells if str(cell.id) in job["cells"])
    return job["kernel"], job["cpus"], chosen


@contextmanager
def alone(path: Path, refusal: str = "") -> Iterator[int]:
    """Nobody else, on any host that sees this file, is in here: we wait, or raise RunError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError:
            raise RunError(refusal) from None
        yield file.fileno()


@contextmanager
def own_cpu() -> Iterator[None]:
    """Run on a CPU that no other job of this host has, where there is one.

    Exact mode puts its QEMUs on the CPUs with the fewest of its own, and does not see other
    processes. The name of a socket is a lock that no killed job leaves behind.
    """
    allowed = os.sched_getaffinity(0)
    with socket.socket(socket.AF_UNIX) as lock:
        for cpu in sorted(allowed):
            with suppress(OSError):
                lock.bind(f"\0pathcost-campaign-cpu-{cpu}")
                os.sched_setaffinity(0, {cpu})
                break
        try:
            yield
        finally:
            os.sched_setaffinity(0, allowed)


if __name__ == "__main__":
    sys.exit(cli.run_main(lambda: main(sys.argv[1:])))
