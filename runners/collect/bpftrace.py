# SPDX-License-Identifier: GPL-2.0-or-later
"""Start bpftrace scripts, wait until they are attached, stop them, keep what they printed."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from probes import callsite
from runners.collect.children import command, stop

PROBES = Path(callsite.__file__).parent
# bpftrace prints this when every probe is attached and this variable is set: its own tests use it.
NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
# What it only warns about: an attach point that does not exist, of several (0.23) or alone (0.17).
SKIPPED = re.compile(r"could not attach probe (\S+?),? skipping|tracepoint not found: (\S+)")
TRACEFS = Path("/sys/kernel/tracing")
ATTACH_SECONDS = 90
DETACH_SECONDS = 60


class AttachError(Exception):
    """A script could not be attached; the message is one sentence that says why."""


@dataclass(frozen=True)
class Script:
    """A row of probes/scripts.tsv: one script, or its variant for some kernels."""

    name: str
    file: str
    rung: str
    headline: bool
    kernels: tuple[str, ...]
    quantities: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def path(self) -> Path:
        return PROBES / "bpftrace" / self.file

    def parameters(self, workload: str) -> list[str]:
        """Its positional parameters: the workload, then the offsets of the calls that it needs.

        Raises AttachError with what this kernel lacks.
        """
        offsets = [offset for need in self.needs for offset in _meet(need)]
        return [workload, *map(str, offsets)]


def _meet(need: str) -> list[int]:
    """The offsets that a need stands for; none for a tracepoint that is there."""
    if ">" not in need:
        if not (TRACEFS / "events" / need.replace(":", "/")).is_dir():
            raise AttachError(f"this kernel has no tracepoint {need}")
        return []
    caller, _, called = need.partition(">")
    callee, _, places = called.partition("*")
    try:
        offsets = callsite.call_offsets(caller, callee)
    except callsite.CallSiteError as error:
        raise AttachError(str(error).rstrip(".")) from error
    if len(offsets) != int(places):
        # A probe on some of the calls would count too little.
        raise AttachError(f"{caller} calls {callee} at {len(offsets)} places, not {places}")
    return offsets


def read_scripts() -> dict[str, tuple[Script, ...]]:
    """The rows of each script, in the order of probes/scripts.tsv."""
    scripts: dict[str, tuple[Script, ...]] = {}
    with (PROBES / "scripts.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
        for row in rows:
            script = Script(
                row["script"],
                row["file"],
                row["rung"],
                row["headline"] == "yes",
                tuple(row["kernels"].split()),
                tuple(row["quantities"].split()),
                tuple(row["needs"].split()),
            )
            scripts[script.name] = (*scripts.get(script.name, ()), script)
    return scripts


def choose(rows: Sequence[Script], workload: str) -> tuple[Script, list[str]]:
    """The first row whose needs this kernel meets, and its parameters. Raises AttachError."""
    lacks = []
    for script in rows:
        try:
            return script, script.parameters(workload)
        except AttachError as error:
            lacks.append(str(error))
    raise AttachError(f"{rows[0].name}.bt: {'; '.join(lacks)}.")


def missed(pid: int) -> int | None:
    """Events that the process's programs were not run for, by the kernel's count.

    An event inside another program on the same CPU (an interrupt's, mostly) runs none. The kernel
    counts those for each program, from 5.12 on; before, or with no program, None: nobody knows.
    """
    counts: dict[str, int] = {}
    for file in Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            lines = file.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        if "recursion_misses" in fields:
            counts[fields["prog_id"].strip()] = int(fields["recursion_misses"])
    return sum(counts.values()) if counts else None


@cache
def checking() -> list[str]:
    """The option by which bpftrace reports a map that is full; from 0.19 on it always does."""
    usage = subprocess.run(["bpftrace", "--help"], capture_output=True, text=True, check=False)
    return ["-k"] if "(except read functions)" in usage.stdout + usage.stderr else []


class Tracer:
    """One bpftrace: `start`, `wait_attached`, `ask_to_finish`, `finish`; `stop` on the way out."""

    def __init__(self, rows: Sequence[Script], workload: str, out: Path) -> None:
        self.name = rows[0].name
        self.quantities = rows[0].quantities
        self.output = out / f"{self.name}.json"
        self.errors = out / f"{self.name}.stderr"
        self._rows = rows
        self._workload = workload
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_early = False

    def start(self) -> None:
        """Raises AttachError where this kernel lacks what the script needs."""
        script, parameters = choose(self._rows, self._workload)
        argv = ["bpftrace", *checking(), "-f", "json", "-o", str(self.output), str(script.path)]
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command([*argv, *parameters]),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=os.environ | {NOTIFY: "1"},
                start_new_session=True,
            )

    def wait_attached(self) -> None:
        """Return when every probe of the script is attached; raises AttachError."""
        assert self._process is not None
        deadline = time.monotonic() + ATTACH_SECONDS
        while NOTIFY not in self._complaints():
            if self._process.poll() is not None:
                raise AttachError(f"{self.name}.bt could not be attached: {self._last_line()}")
            if time.monotonic() > deadline:
                raise AttachError(f"{self.name}.bt was not attached in {ATTACH_SECONDS} s.")
            time.sleep(0.02)
        # What such a script counts is too little, and would be taken for a zero.
        if skipped := SKIPPED.findall(self._complaints()):
            names = dict.fromkeys(name for pair in skipped for name in pair if name)
            raise AttachError(f"{self.name}.bt: this kernel has no {', '.join(names)}.")

    def missed(self) -> int | None:
        """Events missed so far: see `missed`."""
        assert self._process is not None
        return missed(self._process.pid)

    def ask_to_finish(self) -> None:
        """Let it begin to detach, so that several do so side by side."""
        assert self._process is not None
        self._ended_early = self._process.poll() is not None
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> None:
        """Wait until it has detached and printed its maps; raises AttachError if it had died."""
        assert self._process is not None
        if self._ended_early:
            raise AttachError(f"{self.name}.bt ended early: {self._last_line()}")
        try:
            status = self._process.wait(DETACH_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AttachError(f"{self.name}.bt did not end in {DETACH_SECONDS} s.") from error
        if status != 0:
            raise AttachError(f"{self.name}.bt failed at its end: {self._last_line()}")

    def stop(self) -> None:
        """End it, whatever its state."""
        if self._process is not None:
            stop(self._process, 2)

    def _complaints(self) -> str:
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def _last_line(self) -> str:
        lines = [line for line in self._complaints().splitlines() if "ERROR" in line]
        return lines[-1].strip() if lines else "it gave no reason."
