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
from runners.errors import UsageError
from runners.paths import REPOSITORY
from runners.process import command, last_words

HERE = REPOSITORY / "runners/campaign"
LOG = Path("logs/snakemake.log")
SEVERAL = 100  # jobs that a queue may have at once
# Executor → its name among Snakemake's plugins, and the program that it needs here.
EXECUTORS = {
    "local": ("local", ""),
    "ssh": ("cluster-sync", "ssh"),
    "slurm": ("slurm", "sbatch"),
    "cluster-generic": ("cluster-generic", ""),
}
PACKAGES = {"ssh": "openssh-client", "sbatch": "slurm-client"}


@dataclass(frozen=True)
class Engine:
    """How jobs run: `theirs` are further options for Snakemake."""

    executor: str
    plan: Plan
    jobs: int | None
    theirs: Sequence[str]

    def check(self) -> None:
        """Raises UsageError where this executor cannot work here."""
        program = EXECUTORS[self.executor][1]
        if program and not shutil.which(program):
            raise UsageError(
                f"--executor {self.executor} needs {program}, which is not installed here "
                f"(apt-get install {PACKAGES[program]})."
            )
        if self.executor == "ssh" and not self.plan.hosts:
            raise UsageError("--executor ssh needs hosts: name them in the plan, hosts: [a, b].")
        here = {"localhost", os.uname().nodename}
        if self.executor == "local" and (far := set(self.plan.timed_hosts) - here):
            raise UsageError(
                f"--executor local times this machine alone, not {shown(sorted(far)[0])}: "
                "take --executor ssh or slurm, or name localhost."
            )

    @property
    def at_once(self) -> int:
        """How many jobs run at once, where that is known; otherwise 1."""
        if self.jobs:
            return self.jobs
        if self.executor == "local":
            return len(os.sched_getaffinity(0))
        return len(self.plan.hosts) * self.plan.at_once if self.executor == "ssh" else 1

    def run(self, folder: Path, rule: str, lock: int, on_tick: Callable[[], None]) -> None:
        """Run a rule's jobs: all that can, whatever becomes of the others."""
        (folder / LOG).parent.mkdir(exist_ok=True)
        with (folder / LOG).open("a") as log:
            process = subprocess.Popen(
                command(self._argv(folder, rule)), pass_fds=(lock,),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
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

    def _argv(self, folder: Path, rule: str) -> list[str]:
        plugin = EXECUTORS[self.executor][0]
        argv = [
            sys.executable,
            "-P",
            "-m",
            "snakemake",
            rule,
            "--snakefile",
            str(HERE / "Snakefile"),
        ]
        argv += ["--directory", str(folder), "--executor", plugin, "--keep-going", "--nolock"]
        argv += ["--rerun-triggers", "mtime"]
        if self.executor == "local":
            argv += ["--cores", str(self.at_once)]
        else:
            most = self.at_once if self.executor == "ssh" else SEVERAL
            argv += ["--jobs", str(self.jobs or most)]
        if self.executor == "ssh":
            hosts = "{resources.host}" if rule == "times" else ",".join(self.plan.hosts)
            at_once = 1 if rule == "times" else self.plan.at_once
            argv += ["--cluster-sync-submit-cmd", f"{HERE / 'ssh.sh'} {at_once} {hosts}"]
            argv += ["--seconds-between-status-checks", "1"]  # of a process here
        return [*argv, *self.theirs]


def why(folder: Path, *names: str) -> str:
    """What the first of these jobs that complained said last; the last of them said anything."""
    silent = ", ".join(sorted(file.stem for file in folder.glob("hosts/*.silent")))
    last = f"{silent} did not answer ssh" if silent else f"it was not started (see {LOG})"
    for name in names:
        file = folder / f"logs/{name}.txt"
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        if said := [line for line in lines if line.startswith("pathcost: ")]:
            return last_words(said[-1])
        last = last_words("\n".join(lines), last)
    return last
