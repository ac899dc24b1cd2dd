# SPDX-License-Identifier: GPL-2.0-or-later
"""`exact -- ./bench ARGS`: what the kernel executes for a program of the user's, by system call.

The program runs in the exact machine, from its execve to its end; bench_calls.py finds its calls in
the record. analysis/report/bench.py prints them, and compares them with another run's.
"""

import datetime
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from probes.contract import BENCH, BENCH_FORMAT
from probes.isa import USUAL
from probes.messages import PROGRAM
from probes.transports import PAIR, read_transports
from runners.exact.bench_files import LAUNCH, Bench, find_bench
from runners.exact.count import RECORD
from runners.exact.digest import tree_lines
from runners.exact.elf import UserCode
from runners.exact.guest import ExactGuest, guest_for, prepare_guest
from runners.exact.iterations import RecordError
from runners.exact.knobs import find
from runners.exact.machine import digest, scratch
from runners.exact.record import read_record
from runners.host.session import Session
from runners.options import ExactOptions
from runners.process import RunError, UntoldError, UsageError, version
from runners.store.report import RunFolder, place

TREE_FILE, OUTPUT_FILE, COMPARED = "tree.tsv", "output.txt", "against"
MOST_WORDS = 400_000_000  # of a record: 1.6 GB, some 2,000 million instructions
# What a failure of the guest's means: a regular expression, and what to add.
HINTS = {
    r"signal 4 ": "the emulated CPU lacks an instruction: add --knob cpu=max",
    r"signal 9 |no room in the guest's memory|[Oo]ut.of.memory": (
        "the exact machine has 512 MiB of memory: give it less to do"
    ),
    r"signal 25 ": "it writes more than 32 MiB: have it write less",
    r"[Tt]erminal|\btty|Inappropriate ioctl": (
        "the exact machine has no terminal, and an empty input"
    ),
    r"No such file|cannot open|not found|can't open": "name what it reads with --file",
    r"did not end within": "a program that serves for ever goes to --with",
}
# The record's limits, by what the recorder says it has no room for.
FULL = {
    "code: it runs on": "the program ran on after some 2,000 million instructions: give it less",
    "tasks": "the program begins too many processes: a record has room for 1,024 at a time",
    "blocks": "the program runs too much different code: a record has room for 2 million blocks",
}


def bench(options: ExactOptions) -> int:
    """Count a program's calls, and compare them: the exit status. Raises UsageError, RunError."""
    if len(options.kernels) > 1 or len(options.knobs) > 1:
        raise UsageError("a program runs on one kernel, with one knob at most: name one.")
    destination, session = place(options.out), Session(options)
    found = find_bench(options.command, options.beside, options.file, USUAL)
    base = other_bench(options, found)
    session.set_up_step("--exact")
    from analysis.paths.bench import read_bench
    from analysis.report.bench import show_bench

    if options.against and not base:
        read_bench(options.against)  # before anything is counted for it
    with session.scratch() as scratch_folder:
        folder = RunFolder(destination, scratch_folder)
        guest = prepared_guest(session)
        if base:
            (folder.path / COMPARED).mkdir()
            try:
                count_bench(session, guest, base, folder.path / COMPARED, destination / COMPARED)
            except RunError as error:
                raise UntoldError(f"of --against: {error}", error.console) from None
        count_bench(session, guest, found, folder.path, destination)
        folder.move()
    against = (destination / COMPARED) if base else options.against
    return show_bench(destination, options.show, against, options.tolerance)


def other_bench(options: ExactOptions, found: Bench) -> Bench | None:
    """Return the program of --against in the place of the other; None without one, or for a run."""
    if options.against is None:
        return None
    if (options.against / BENCH).is_file():
        return None
    if options.against.is_dir():
        raise UsageError(
            f"--against {options.against} is no run of a program: name the folder of one, or "
            "another build of the program."
        )
    other = find_bench(
        [str(options.against.absolute()), *options.command[1:]],
        options.beside,
        options.file,
        USUAL,
    )
    files = dict(other.files)
    # In the same place, and called by the same name: a path's length has a cost.
    files[found.words[0]] = files.pop(other.words[0])
    return replace(other, words=found.words, files=files)


def prepared_guest(session: Session[ExactOptions]) -> ExactGuest:
    """Return the guest in which the program runs. Raises UsageError, RunError."""
    options, progress = session.options, session.progress
    cache = session.invoker.cache
    with progress.step(f"exact {options.kernels[0]}: preparing"):
        base = prepare_guest(cache, options.kernels[0], progress.say)
        knob = find(next(iter(options.knobs), ""))
        return guest_for(cache, base, read_transports()[PAIR[0]], knob, progress.say)


def count_bench(
    session: Session[ExactOptions], guest: ExactGuest, found: Bench, out: Path, moved_to: Path
) -> None:
    """Run a program in the guest, and write what it left to `out`. Raises UsageError, RunError."""
    began, started = time.monotonic(), datetime.datetime.now(datetime.UTC)
    files, steps = found.order(session.options.warm)
    ready = replace(guest, files={**guest.files, **files})
    with scratch() as folder:
        try:
            with session.progress.step("exact: running the program"):
                ready.boot([*guest.steps, *steps], folder, guest.stored, {"most": str(MOST_WORDS)})
        except RunError as error:
            raise explained(error) from None
        output = (folder / "output").read_bytes()
        with session.progress.step("exact: replaying"):
            written = replayed(ready, found, folder, out)
    (out / OUTPUT_FILE).write_bytes(output)
    entry = {
        "format": BENCH_FORMAT,
        "name": moved_to.name,
        "pathcost": version(),
        "command": [PROGRAM, *session.options.argv],
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 1),
        "program": list(found.words[1:]),
        "server": list(found.server[1:]),
        "warm": session.options.warm,
        "knob": guest.knob.name,
        "environment": guest.environment(),
        "files": {path: digest(file.read_bytes()) for path, file in sorted(found.files.items())},
        **written,
    }
    text = json.dumps(entry, indent=1, ensure_ascii=False) + "\n"
    (out / BENCH).write_text(text, encoding="utf-8")


def replayed(guest: ExactGuest, found: Bench, folder: Path, out: Path) -> Mapping[str, Any]:
    """Replay the record in `folder`: its part of bench.json. The call tree goes to `out`."""
    # numpy is there after set-up
    from runners.exact.bench_calls import BenchReplay
    from runners.exact.bench_sums import BenchSums

    isa = guest.machine.isa
    record = read_record(folder, isa)
    code = UserCode(record.blocks, found.programs, isa)
    try:
        program = BenchReplay(record, guest.symbols_in(folder), code)
    except RecordError as error:
        raise RunError(f"{error}.") from None
    sums = BenchSums(program)
    (out / TREE_FILE).write_text("".join(tree_lines(*sums.tree())), encoding="utf-8")
    return {
        "record_sha256": digest(b"".join((folder / name).read_bytes() for name in RECORD)),
        "windows": program.windows,
        "steps": program.steps,
        "sums": sums.by_owner(),
        "rows": sums.rows(),
    }


def explained(error: RunError) -> RunError:
    """Return a failure of the guest's with what to do about it."""
    sentence = str(error).removeprefix(f"{LAUNCH}: ").rstrip(".")
    for what, means in FULL.items():
        if sentence == f"the record has no room for more {what}":
            return RunError(f"{means}.")
    console = [line for line in error.console if line and not line.startswith("pathcost: ")]
    if "did not finish within" in sentence:
        sentence = "the program did not end within 300 s here: give it less to do"
    for pattern, hint in HINTS.items():
        if re.search(pattern, sentence):
            return RunError(f"{sentence}; {hint}.", console)
    return RunError(f"{sentence}.", console)
