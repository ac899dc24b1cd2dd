# SPDX-License-Identifier: GPL-2.0-or-later
"""campaign.sh: read the plan, have Snakemake count what lacks, gather, report."""

import fcntl
import hashlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from probes import reasons
from probes.reasons import reason
from runners.campaign.engine import EXECUTORS, Engine, why
from runners.campaign.gather import MOST_REPORTED, Gathered, gather
from runners.campaign.jobs import Wanted, find_counted, jobs_for, wanted_cells
from runners.campaign.plan import read
from runners.cli import one_of, path, whole
from runners.exact.cells import impossible
from runners.exact.run import plan_cells
from runners.host.session import Session, analyse
from runners.process import DONE, FAILED, REPOSITORY, Parser, RunError, run_main
from runners.store import Manifest, RunFolder, Scratch, place

DESCRIPTION = """\
Count the exact cells of a plan as jobs of Snakemake, here or on other machines, and gather them.

Start it again to go on: no cell that was counted is counted twice."""
STATUS = (
    "Exit status: 0 done, 1 something is missing, 2 the request is impossible, 130 interrupted."
)
USAGE = "./runners/campaign.sh PLAN [option …] [-- option of snakemake …]"


@dataclass(frozen=True)
class Campaign:
    """A campaign in its folder. `jobs` are those that lack, with their cells."""

    engine: Engine
    session: Session
    folder: Path
    wanted: list[Wanted]
    jobs: dict[str, list[Wanted]]

    def carry_out(self) -> int:
        """Count, time, gather, report: the exit status."""
        progress = self.session.progress
        lacking = sum(map(len, self.jobs.values()))
        counted = len(self.wanted) - lacking
        progress.note(f"{len(self.wanted)} cells, {counted} counted already; {len(self.jobs)} jobs")
        with self.session.scratch() as scratch:
            self.count(lacking)
            times = self.time()
            found, lost = self.gather(scratch)
        run, status = self.folder / "run", FAILED
        if found.entries and found.raw:
            status = analyse(str(run))
        elif found.entries:
            status = DONE
            most = f"A report holds {MOST_REPORTED} cells at most"
            print(f"{run}/measurements.parquet has all rows. {most}: take part of the plan.")
        there = [str(run) for run in times if run.exists()]
        if len(there) > 1:
            analyse("--pool", *there)
        for run in times:
            if not run.exists():
                said = why(self.folder, f"{run.name}.{run.parent.name}")
                lost.append(f"times of {run.name}: {said}")
        for sentence in lost:
            progress.note(f"missing: {sentence}")
        return status or (FAILED if lost else DONE)

    def count(self, lacking: int) -> None:
        """Run the jobs."""
        # With notes of the last start that a full disk cut off, Snakemake leaves out jobs.
        for name in ("done", "hosts", "logs", ".snakemake"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

        def tick() -> None:
            done = [n for n in self.jobs if (self.folder / f"jobs/{n}.parquet").exists()]
            counted = sum(len(self.jobs[name]) for name in done)
            self.session.progress.count(counted, lacking, f"cells of {len(self.jobs)} jobs")

        if self.jobs:
            with self.session.progress.step("counting"):
                targets = [f"done/{name}" for name in self.jobs]
                self.engine.run(self.folder, targets, tick)

    def time(self) -> list[Path]:
        """Make the timed runs, after all jobs, whose hosts they need alone: their folders."""
        if not (timed := self.engine.plan.timed):
            return []
        argv = " ".join(timed.argv)
        what = Path("timed", hashlib.sha256(argv.encode()).hexdigest()[:8])
        (self.folder / "timed").mkdir(exist_ok=True)
        (self.folder / f"{what}.options").write_text(argv)
        if lack := [f"{what}/{h}" for h in timed.hosts if not (self.folder / what / h).exists()]:
            with self.session.progress.step("timing"):
                self.engine.run(self.folder, lack, lambda: None)
        return [self.folder / what / host for host in timed.hosts]

    def gather(self, scratch: Scratch) -> tuple[Gathered, list[str]]:
        """Make the run of all that was counted, in place of the last one; what is lost, and why."""
        counted = find_counted(self.folder / "jobs")
        run = RunFolder(self.folder / "run", scratch)
        manifest = Manifest(self.session.options.recorded, self.engine.plan.argv)
        with self.session.progress.step("gathering"):
            found = gather(run.path, "run", self.wanted, counted)
        lost = [f"{cell}: {error.splitlines()[0]}" for cell, error in found.failed.items()]
        for name, cells in self.jobs.items():
            if what := [f"{c.run.cell} on {c.kernel}" for c in cells if c.key not in counted]:
                said = why(self.folder, f"{cells[0].machine}.machine", name)
                entry = reasons.missing(what, reason("campaign-job", said=said))
                reasons.add(found.missing, entry)
                lost.append(f"{'; '.join(what)}: {said}")
        for cell in (run.cell for run in plan_cells(self.session.options)):
            if why_not := impossible(cell):
                entry = reasons.missing([f"exact cell {cell}"], why_not)
                reasons.add(found.missing, entry)
        entries = sorted(found.entries.values(), key=lambda entry: str(entry["folder"]))
        seconds = self.session.progress.seconds
        text = manifest.text(run.destination, seconds, exact=entries, missing=found.missing)
        if run.destination.exists():
            run.destination.rename(scratch.folder(self.folder, ".earlier"))
        run.commit(text)
        return found, lost


def main(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else len(argv)
    parser = Parser("campaign.sh", USAGE, DESCRIPTION, STATUS)
    add = parser.add_argument
    add("plan", metavar="PLAN", type=path, help="the plan, a YAML file")
    names = ", ".join(EXECUTORS)
    add("--executor", type=one_of("executor", EXECUTORS), default="local", metavar="NAME",
        help=f"run jobs by {names} (default: local)")  # fmt: skip
    add("--jobs", type=whole(1), metavar="N",
        help="run N jobs at once (default: by executor)")  # fmt: skip
    add("--out", type=path, metavar="DIR", help="the campaign's folder (default: reports/<plan>)")
    add("--dry-run", action="store_true", help="show the jobs that lack, and run none")
    given = parser.parse_args(argv[:split])
    plan = read(given.plan)
    folder = (given.out or REPOSITORY / "reports" / given.plan.stem).absolute()
    place(folder / "new", folder)
    engine = Engine(given.executor, plan, given.jobs, argv[split + 1 :])
    engine.check()
    session = Session(plan.options)
    with session.progress.step("planning"):
        wanted = wanted_cells(plan.options)
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another campaign works in {folder}: wait for its end.") from None
        jobs = jobs_for(folder / "jobs", plan.argv, wanted, engine.at_once)
        if not given.dry_run:
            return Campaign(engine, session, folder, wanted, jobs).carry_out()
    for name, cells in jobs.items():
        print(f"{name}: {len(cells)} cells, {sum(cell.seconds for cell in cells):.0f} s")
    return DONE


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(sys.argv[1:])))
