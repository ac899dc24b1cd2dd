# SPDX-License-Identifier: GPL-2.0-or-later
"""A started run.sh: its processes while it lives, what it said, and what is wrong with its end."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil

from tests.faults.machine import descendants, reap, role
from tests.faults.sandbox import Sandbox

OUTLIVE = 30.0
TICK = 0.03
TRACEBACK = re.compile(r"Traceback|Exception ignored|Fatal Python error|: line \d+: ")
number = itertools.count()


@dataclass
class Started:
    """One run. Its output goes to files, as a process that is left would hold a pipe open."""

    process: subprocess.Popen[bytes]
    out: Path
    stderr: Path
    checkout: Path
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    @property
    def status(self) -> int | None:
        return self.process.returncode

    @property
    def text(self) -> str:
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        if self.process.poll() is not None and not self.ended:
            self.ended = time.monotonic()
        return not self.ended

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *descendants(self.process.pid)]

    def of_role(self, name: str) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return [process for process in self.processes() if role(process) == name]
        return []

    def watch(self, until: Callable[[], bool], patience: float) -> bool:
        """Wait for its end or `until`; whether `until` came."""
        deadline = time.monotonic() + patience
        while self.alive() and time.monotonic() < deadline:
            if until():
                return True
            time.sleep(TICK)
        return False

    def wait(self, patience: float) -> bool:
        """Whether it ended by itself; where it hangs, it and its children are killed."""
        self.watch(lambda: False, patience)
        if self.ended:
            return True
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        self.alive()
        return False


def start(
    sandbox: Sandbox, arguments: Sequence[str], *, wrap: Sequence[str] = (),
    environment: Mapping[str, str | None] | None = None, name: str = "",
) -> Started:  # fmt: skip
    """Start run.sh as `sudo` does. An entry of `environment` that is None is taken away."""
    count = next(number)
    out = sandbox.out / (name or f"run{os.getpid()}-{count}")
    stderr = sandbox.state / f"run{count % 20}.stderr"
    changed = {**sandbox.environment(sandbox.cache), **(environment or {})}
    words = [str(sandbox.checkout / "runners/run.sh"), "--no-install", "--out", str(out)]
    with stderr.open("wb") as errors, stderr.with_suffix(".stdout").open("wb") as output:
        process = subprocess.Popen(
            [*wrap, *words, *arguments], cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            env={name: value for name, value in changed.items() if value is not None},
        )  # fmt: skip
    return Started(process, out, stderr, sandbox.checkout)


def hit(run: Started, target: psutil.Process | None, name: str) -> bool:
    """Send a signal to a process, or to the group, as a terminal does; whether it was there."""
    how = signal.Signals[f"SIG{name}"]
    try:
        if target is None:
            os.killpg(run.process.pid, how)
        else:
            target.send_signal(how)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
    return True


def last_ones_end() -> list[str]:
    """Wait until nothing is left of any run; what outlives it by far is a failure, and killed."""
    began = time.monotonic()
    while (left := descendants()) and time.monotonic() - began < OUTLIVE:
        reap()
        time.sleep(TICK)
    names = ", ".join(sorted(role(process) for process in left))
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    time.sleep(TICK)
    reap()
    return [f"outlives its run by {OUTLIVE:.0f} s: {names}"] if left else []


def wrong(
    run: Started, *, signalled: Sequence[str] = (),
    statuses: Sequence[int] = (0, 1, 2), heard: bool = True, seen: bool = True,
) -> Iterator[str]:  # fmt: skip
    """What is wrong with the end of a run. `heard`: its output could be written;
    `seen`: its folder can be looked at.
    """
    status, text = run.status, run.text
    assert status is not None
    killed = {-signal.Signals[f"SIG{name}"] for name in signalled}
    allowed = {*statuses, *killed, *(128 - number for number in killed)}
    if status not in allowed | ({130} if signalled else set()):
        yield f"status {status}"
    if TRACEBACK.search(text + run.stderr.with_suffix(".stdout").read_text(errors="replace")):
        yield "traceback"
    if heard and status > 0 and not re.search(r"^pathcost: \S+ \S+", text, re.MULTILINE):
        yield f"status {status} without a sentence"
    if seen:
        yield from _wrong_with_folder(run)


def _wrong_with_folder(run: Started) -> Iterator[str]:
    """A folder is whole or absent, and can be analysed again."""
    out = run.out
    try:
        names = sorted(path.name for path in out.iterdir())
    except OSError:  # no folder, or a name that is too long for one
        names = []
    if not names:
        if run.status == 0:
            yield "status 0 without a folder"
        return
    if "run.json" not in names:
        yield f"half a folder: {', '.join(names)}"
        return
    again = subprocess.run(
        [sys.executable, "-B", "-m", "analysis", "--quiet", str(out)],
        cwd=run.checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if again.returncode not in (0, 1) or TRACEBACK.search(again.stderr):
        yield f"analysis of its folder: status {again.returncode}: {last(again.stderr)}"
    elif run.status == 0 and (
        again.returncode
        or not pd.read_csv(out / "measurements.csv", low_memory=False)["valid"].any()
    ):
        yield f"status 0 without figures: {last(again.stderr or run.text)}"


def last(text: str, lines: int = 1) -> str:
    """The last lines, each shortened."""
    return " | ".join(line[:200] for line in (text.strip().splitlines() or ["(nothing)"])[-lines:])
