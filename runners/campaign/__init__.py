# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `campaign`: a plan's exact cells as jobs of Snakemake, gathered into one table.

A job is one run of `run.sh exact`: a kernel, a transport, a pattern and a size. Its name is made of
all that decides its figures, so a run that is there is never made again (docs/campaigns.md).
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path

from probes.contract import MANIFEST, Status
from probes.files import read_toml
from probes.isa import HOST
from probes.messages import shown
from probes.transports import PAIR
from runners.exact.count import code_digest
from runners.exact.machine import digest, programs
from runners.exact.run import plan_cells
from runners.host.session import Session
from runners.options import CampaignOptions, ExactOptions, Options
from runners.process import REPORTS, RUN_SH, RunError, UsageError, command, last_words
from runners.store.locks import lock, open_lock

SNAKEFILE = Path(__file__).with_name("Snakefile")
SPLIT = ("kernel", "transports", "patterns", "sizes")  # each job has one of each
Parse = Callable[[list[str]], Options]


def campaign(options: CampaignOptions, parse: Parse) -> int:
    """Count what lacks, and write the table: the exit status. Raises UsageError, RunError."""
    try:
        return carry_out(options, parse)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted; finished cells are kept, for the same command to go on."
        ) from None


def carry_out(options: CampaignOptions, parse: Parse) -> int:
    """Do the work of `campaign`. Raises UsageError, RunError."""
    folder = (options.out or REPORTS / options.plan.stem).absolute()
    session = Session(options)
    session.set_up_step("--exact")
    commands, lacks = dict[str, str](), list[str]()
    for argv in jobs(options.plan):
        try:
            asked = parse(argv)
            assert isinstance(asked, ExactOptions)  # a job is a command of `exact`
            plan_cells(asked)
        except UsageError as error:
            lacks.append(f"{shlex.join(argv)}: {error}")
            continue
        name = name_of(argv)
        out = ["--quiet", "--no-install", "--out", str(folder / "runs" / name)]
        commands[name] = shlex.join([str(RUN_SH), *argv, *out])
    if not commands:
        raise UsageError(f"no job of {options.plan} can run: {lacks[0]}")
    todo = {name: words for name, words in commands.items() if not is_whole(folder, name)}
    if options.dry_run:
        print("".join(f"{words}\n" for words in todo.values()), end="")
        return Status.DONE
    for name in ("runs", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "locks").mkdir(exist_ok=True)
    (folder / "locks").chmod(0o700)  # no other user can open a job's lock, and so hold it
    with os.fdopen(open_lock(folder / "lock")) as held:
        lock(held.fileno(), f"another campaign works in {folder}: wait for its end.")
        session.progress.note(f"{len(commands)} jobs, {len(commands) - len(todo)} counted already")
        if todo:
            count(session, folder, todo)
        for name in (name for name in commands if not is_whole(folder, name)):
            log = folder / "logs" / f"{name}.txt"
            why = last_words(log.read_text(errors="replace") if log.exists() else "")
            lacks.append(f"{name}: {why}")
        with session.progress.step("gathering"):
            session.set_up("--analysis")
            table = write_table(folder, commands)
    for lack in lacks:
        session.progress.note(f"missing: {lack}")
    print(table)
    return Status.FAILED if lacks else Status.DONE


def jobs(file: Path) -> Iterator[list[str]]:
    """The command line of each job of a plan. Raises UsageError."""
    plan = read_toml(file)
    if "kernel" not in plan:
        raise UsageError(f"{file} names no kernel.")
    usual = {"transports": list(PAIR), "patterns": ["pingpong"], "sizes": [64]}
    values = {key: values_of(file, key, value) for key, value in (usual | plan).items()}
    rest = [f"--{key}={','.join(values[key])}" for key in values if key not in SPLIT]
    for chosen in product(*(values[key] for key in SPLIT)):
        words = [f"--{key}={value}" for key, value in zip(SPLIT, chosen, strict=True)]
        yield ["exact", *words, *rest]


def values_of(file: Path, key: str, value: object) -> list[str]:
    """The words of a plan's line. Raises UsageError."""
    words = value if isinstance(value, list) else [value]
    if not words:
        raise UsageError(f"{file}: {key} is an empty list, so there is nothing to count.")
    if wrong := [word for word in words if type(word) not in (str, int)]:
        raise UsageError(
            f"{file}: {key} takes a text, a whole number or a list of these, not {shown(wrong[0])}."
        )
    return [str(word) for word in words]


def name_of(argv: list[str]) -> str:
    """A name for people, and a digest of everything that decides the job's figures."""
    chosen = [word.partition("=")[2] for word in argv[1 : 1 + len(SPLIT)]]
    kernel = Path(chosen[0])
    made_from = [argv, code_digest(), {name: digest(data) for name, data in programs(HOST).items()}]
    if kernel.is_file():
        made_from.append(digest(kernel.read_bytes()))
    key = digest(json.dumps(made_from).encode())[:10]
    return re.sub("[^A-Za-z0-9.+_-]+", "_", "-".join([kernel.name, *chosen[1:], key]))


def is_whole(folder: Path, name: str) -> bool:
    return (folder / "runs" / name / MANIFEST).is_file()


def count(session: Session[CampaignOptions], folder: Path, commands: dict[str, str]) -> None:
    """Have Snakemake run the jobs, one after the other: each uses all processors."""
    session.set_up_step("--campaign", name="set-up of Snakemake")
    packages = next(path for path in sys.path if Path(path, "snakemake").is_dir())
    for name in ("done", ".snakemake"):  # what Snakemake noted of an earlier start
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "jobs.json").write_text(json.dumps(commands), encoding="utf-8")
    python = Path(packages).parents[2] / "bin/python"
    argv = [
        *(str(python), "-P", "-m", "snakemake"),
        *(f"done/{name}" for name in commands),
        *("--snakefile", str(SNAKEFILE)),
        *("--directory", str(folder)),
        *("--cores", "1"),
        "--keep-going",
        "--nolock",
        *("--quiet", "all"),
    ]
    own = os.environ | {"TMPDIR": tempfile.gettempdir()}  # a folder of ours, which is removed
    with (
        session.progress.step("counting"),
        (folder / "logs/snakemake.txt").open("w") as log,
        subprocess.Popen(
            command(argv),
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            while process.poll() is None:
                done = sum(is_whole(folder, name) for name in commands)
                session.progress.count(done, len(commands), "jobs")
                time.sleep(0.5)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise


def write_table(folder: Path, names: Iterable[str]) -> Path:
    """Write the tidy tables of the jobs that are whole as one; each job is a `run` of it."""
    import pandas as pd

    runs = [folder / "runs" / name for name in sorted(names) if is_whole(folder, name)]
    if not runs:
        raise RunError(f"no job left a run: see {folder}/logs.")
    partial = folder / "measurements.partial"
    with partial.open("w", encoding="utf-8") as table:
        for run in runs:
            rows = pd.read_csv(run / "measurements.csv", dtype=str, keep_default_na=False)
            rows.assign(run=run.name).to_csv(table, index=False, header=run == runs[0])
    return partial.replace(folder / "measurements.csv")
