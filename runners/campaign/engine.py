# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts Snakemake on a campaign's jobs, and says why a job left nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.messages import shown
from runners.campaign.plan import Plan
from runners.process import UsageError, command, last_words

HERE = Path(__file__).parent
LOG = Path("logs/snakemake.log")
SEVERAL = 100  # jobs that a queue may have at once
# Executor → its name among Snakemake's plugins, the program that it needs here, and its package.
EXECUTORS = {
    "local": ("local", "sh", "dash"),
    "ssh": ("cluster-sync", "ssh", "openssh-client"),
    "slurm": ("slurm", "sbatch", "slurm-client"),
    "cluster-generic": ("cluster-generic", "sh", "dash"),
}


@dataclass(frozen=True)
class Engine:
    """How jobs run: `theirs` are further options for Snakemake."""

    executor: str
    plan: Plan
    jobs: int | None
    theirs: Sequence[str]

    def check(self) -> None:
        """Raises UsageError where this executor cannot work here."""
        _, program, package = EXECUTORS[self.executor]
        if self.executor == "local":
            timed = self.plan.timed.hosts if self.plan.timed else ()
            if far := sorted(set(timed) - {"localhost", os.uname().nodename}):
                raise UsageError(f"--executor local times localhost alone, not {shown(far[0])}.")
        elif not shutil.which(program):
            needs = f"--executor {self.executor} needs {program}, which is not installed here"
            raise UsageError(f"{needs} (apt-get install {package}).")
        elif self.executor == "ssh" and not self.plan.hosts:
            raise UsageError("--executor ssh needs hosts: name them in the plan, hosts: [a, b].")

    @property
    def at_once(self) -> int:
        """How many jobs run at once, where that is known; otherwise 1."""
        known = {
            "local": len(os.sched_getaffinity(0)),
            "ssh": len(self.plan.hosts) * self.plan.at_once,
        }
        return self.jobs or known.get(self.executor, 1)

    def run(self, folder: Path, targets: Sequence[str], on_tick: Callable[[], None]) -> None:
        """Run the jobs that make these files: all that can, whatever becomes of the others."""
        (folder / LOG).parent.mkdir(exist_ok=True)
        with (folder / LOG).open("a") as log:
            process = subprocess.Popen(
                command(self._argv(folder, targets)), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                while process.poll() is None:
                    on_tick()
                    time.sleep(0.2)
            except KeyboardInterrupt:  # its jobs are of its session, or it cancels them
                os.killpg(process.pid, signal.SIGINT)
                process.wait()
                raise KeyboardInterrupt(
                    "interrupted; finished cells are kept, for the same command to go on."
                ) from None

    def _argv(self, folder: Path, targets: Sequence[str]) -> list[str]:
        plugin = EXECUTORS[self.executor][0]
        how = ["--jobs", str(self.jobs or SEVERAL)]
        if self.executor == "local":
            how = ["--cores", str(self.at_once)]
        elif self.executor == "ssh":
            places = f"{self.plan.at_once} {','.join(self.plan.hosts)}"
            if targets[0].startswith("timed/"):
                places = "1 {resources.host}"
            how = [
                "--jobs",
                str(self.at_once),
                "--cluster-sync-submit-cmd",
                f"{HERE}/ssh.sh {places}",
            ]
            how += ["--seconds-between-status-checks", "1"]  # of a process here
        return [
            *(sys.executable, "-P", "-m", "snakemake", *targets, "--executor", plugin, *how),
            *("--snakefile", f"{HERE}/Snakefile", "--directory", str(folder)),
            *("--keep-going", "--nolock", "--rerun-triggers", "mtime", *self.theirs),
        ]


def why(folder: Path, *names: str) -> str:
    """What the last of these jobs that complained said last, or that said anything."""
    silent = ", ".join(sorted(file.stem for file in folder.glob("hosts/*.silent")))
    last = f"{silent} did not answer ssh" if silent else f"it was not started (see {LOG})"
    files = [folder / f"logs/{name}.txt" for name in names]
    texts = [file.read_text(errors="replace") for file in files if file.exists()]
    lines = "".join(texts).splitlines()
    return last_words("\n".join([ln for ln in lines if ln.startswith("pathcost: ")] or lines), last)
