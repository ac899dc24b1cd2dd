# SPDX-License-Identifier: GPL-2.0-or-later
"""campaign.sh: read the plan, have Snakemake count what lacks, gather, report."""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from probes import reasons
from probes.reasons import reason
from runners import cli
from runners.campaign.engine import EXECUTORS, Engine, why
from runners.campaign.gather import MOST_REPORTED, Gathered, gather
from runners.campaign.jobs import (
    Wanted,
    find_counted,
    group,
    read_job,
    wanted_cells,
    write_job,
    write_whole,
)
from runners.campaign.plan import Plan, read
from runners.campaign.work import alone
from runners.cli import Parser
from runners.exact.run import folder_of, missing, plan_cells
from runners.folder import Manifest, RunFolder
from runners.leftovers import Journal
from runners.paths import REPOSITORY
from runners.plan.refusals import accept
from runners.session import Session
from runners.values import choice, path, whole_number

DESCRIPTION = """\
Count the exact cells of a plan as jobs of Snakemake, here or on other machines, and gather them.

Start it again to go on: no cell that was counted is counted twice."""
STATUS = (
    "Exit status: 0 done, 1 something is missing, 2 the request is impossible, 130 interrupted."
)
USAGE = "./runners/campaign.sh PLAN [option …] [-- option of snakemake …]"


@dataclass
class Campaign:
    """A campaign in its folder."""

    plan: Plan
    session: Session
    folder: Path
    wanted: list[Wanted]

    def prepare(self, engine: Engine) -> dict[str, list[Wanted]]:
        """Write campaign.json and the jobs that it names; their cells."""
        counted = find_counted(self.folder / "jobs")
        lacking = {
            cell.key: cell
            for cell in self.wanted
            if cell.key not in counted or counted[cell.key].failed
        }
        jobs = dict(self._earlier(lacking))
        left = {cell.key for cells in jobs.values() for cell in cells}
        rest = [cell for key, cell in lacking.items() if key not in left]
        for cells in group(rest, engine.at_once):
            jobs[write_job(self.folder / "jobs", self.plan.argv, cells)] = cells
        campaign = {
            "jobs": {name: cells[0].machine for name, cells in jobs.items()},
            "machines": {cells[0].machine: name for name, cells in jobs.items()},
            "timed": [str(path) for path in self.timed()],
            "timed_argv": " ".join(self.plan.timed),
            "python": sys.executable,
            "repository": str(REPOSITORY),
        }
        write_whole(self.folder / "campaign.json", json.dumps(campaign, indent=1))
        for name in jobs:  # where all of its cells have failed
            (self.folder / f"jobs/{name}.parquet").unlink(missing_ok=True)
        return jobs

    def _earlier(self, lacking: dict[str, Wanted]) -> Iterator[tuple[str, list[Wanted]]]:
        """Jobs of the last start that still lack: they may be at work without their controller."""
        file = self.folder / "campaign.json"
        for name in json.loads(file.read_text())["jobs"] if file.exists() else ():
            job = read_job(self.folder / f"jobs/{name}.json")
            if job["argv"] == list(self.plan.argv) and set(job["cells"].values()) <= set(lacking):
                yield name, [lacking[key] for key in job["cells"].values()]

    def timed(self) -> list[Path]:
        """The folders of the timed runs, named after what is timed, and where."""
        what = hashlib.sha256(" ".join(self.plan.timed).encode()).hexdigest()[:8]
        return [Path("timed", what, host) for host in self.plan.timed_hosts]

    def count(self, engine: Engine, jobs: dict[str, list[Wanted]], lock: int) -> None:
        """Run the jobs, and then the timed runs, which share their hosts with none."""
        progress, total = self.session.progress, sum(map(len, jobs.values()))
        # What is there is whole and named by its inputs, so the last start's notes are not needed.
        # With those that a full disk cuts off, Snakemake leaves out jobs.
        for name in ("hosts", "logs", ".snakemake"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

        def tick() -> None:
            done = [name for name in jobs if (self.folder / f"jobs/{name}.parquet").exists()]
            progress.count(sum(len(jobs[n]) for n in done), total, f"cells of {len(jobs)} jobs")
            for name in done:
                self._forget(name)

        if jobs:
            with progress.step("counting"):
                engine.run(self.folder, "cells", lock, tick)
            tick()
        if not all((self.folder / path).exists() for path in self.timed()):
            with progress.step("timing"):
                engine.run(self.folder, "times", lock, lambda: None)

    def _forget(self, job: str) -> None:
        """Remove the cells that a job would have gone on with, once Snakemake takes it for whole.

        It removes the job's run then. Before that, a queue whose node dies starts the job again.
        """
        used = self.folder / f"cells/{job}.used"
        if used.exists() and not (self.folder / f"runs/{job}").exists():
            for name in used.read_text(encoding="utf-8").split("\0"):
                Path(name).unlink(missing_ok=True)
            used.unlink()

    def gather(self, journal: Journal, jobs: dict[str, list[Wanted]]) -> tuple[Gathered, list[str]]:
        """Make the run of all that was counted, in place of the last one; what is lost, and why."""
        counted = find_counted(self.folder / "jobs")
        run = RunFolder(self.folder / "run", journal)
        manifest = Manifest(self.session.options, list(self.plan.argv))
        with self.session.progress.step("gathering"):
            found = gather(run.path, "run", self.wanted, counted)
        lost = [f"{cell}: {error}" for cell, error in found.failed.items()]
        for name, cells in jobs.items():
            if what := [f"{c.cell} on {c.kernel}" for c in cells if c.key not in counted]:
                names = (f"{name}.table", name, f"{cells[0].machine}.machine")
                said = why(self.folder, *names)
                entry = reasons.missing(what, reason("campaign-job", said=said))
                reasons.add(found.missing, entry)
                lost.append(f"{'; '.join(what)}: {said}")
        entries = sorted(found.entries.values(), key=lambda entry: str(entry["folder"]))
        every = plan_cells(self.plan.options)
        absent = [
            {
                cell: why_not
                for cell in every
                if (why_not := cell.impossible)
                and folder_of(cell, entry["kernel"]) == entry["folder"]
            }
            for entry in entries
        ]
        for entry in missing(self.plan.options, list(zip(entries, absent, strict=True))):
            reasons.add(found.missing, entry)
        text = manifest.text(
            run.destination, self.session.progress.seconds, exact=entries, missing=found.missing
        )
        if run.destination.exists():
            run.destination.rename(journal.add(self.folder, ".earlier"))
        run.commit(text)
        return found, lost


def main(argv: list[str]) -> int:
    ours, theirs = argv, []
    if "--" in argv:
        ours, theirs = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    parser = Parser("campaign.sh", DESCRIPTION, STATUS)
    parser.usage = USAGE
    parser.add_argument("plan", metavar="PLAN", type=path, help="the plan, a YAML file")
    parser.add_argument(
        "--executor", type=choice("executor", EXECUTORS), default="local", metavar="NAME",
        help=f"run jobs by {', '.join(EXECUTORS)} (default: local)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=whole_number("--jobs"), metavar="N",
        help="run N jobs at once (default: by executor)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="the campaign's folder (default: reports/<plan>)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the jobs that lack, and run none"
    )
    given = parser.parse(ours)
    plan = read(given.plan)
    folder = (given.out or REPOSITORY / "reports" / given.plan.stem).absolute()
    accept(replace(plan.options, out=folder / "new"))
    engine = Engine(given.executor, plan, given.jobs, theirs)
    engine.check()
    session = Session(plan.options)
    with session.progress.step("planning"):
        wanted = wanted_cells(plan.options)
    with alone(folder / "lock", f"another campaign works in {folder}: wait for its end.") as lock:
        campaign = Campaign(plan, session, folder, wanted)
        jobs = campaign.prepare(engine)
        if given.dry_run:
            for name, cells in jobs.items():
                print(f"{name}: {len(cells)} cells, {sum(cell.seconds for cell in cells):.0f} s")
            return cli.DONE
        return carry_out(campaign, engine, jobs, lock)


def carry_out(campaign: Campaign, engine: Engine, jobs: dict[str, list[Wanted]], lock: int) -> int:
    """Count, gather, report: the exit status."""
    session, progress, folder = campaign.session, campaign.session.progress, campaign.folder
    total, lacking = len(campaign.wanted), sum(map(len, jobs.values()))
    progress.note(f"{total} cells, {total - lacking} counted already; {len(jobs)} jobs")
    with session.journal() as journal:
        campaign.count(engine, jobs, lock)
        found, lost = campaign.gather(journal, jobs)
    status = report(campaign, found) if found.entries else cli.FAILED
    times = [folder / path for path in campaign.timed()]
    there = [str(path) for path in times if path.exists()]
    if len(there) > 1:
        session.analyse(Path(sys.executable), "--pool", *there)
    for run in times:
        if not run.exists():
            lost.append(f"times of {run.name}: {why(folder, f'{run.name}.{run.parent.name}')}")
    for sentence in lost:
        progress.note(f"missing: {sentence}")
    return status or (cli.FAILED if lost else cli.DONE)


def report(campaign: Campaign, found: Gathered) -> int:
    """Make the report of the gathered run, unless it is too large: the analysis' status."""
    run = campaign.folder / "run"
    if found.raw:
        return campaign.session.analyse(Path(sys.executable), str(run))
    print(
        f"{run}/measurements.parquet has all rows. A report holds {MOST_REPORTED} cells at most: "
        "take part of the plan, with the same --out."
    )
    return cli.DONE


if __name__ == "__main__":
    sys.exit(cli.run_main(lambda: main(sys.argv[1:])))
