# SPDX-License-Identifier: GPL-2.0-or-later
"""Start bpftrace scripts, wait until they are attached, stop them, keep what they printed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from probes import callsite
from runners.collect.children import command, stop

PROBES = Path(callsite.__file__).parent
# bpftrace prints this when every probe is attached and this variable is set: its own tests use it.
NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
ATTACH_SECONDS = 90
DETACH_SECONDS = 60


class AttachError(Exception):
    """A script could not be attached; the message is one sentence that says why."""


@dataclass(frozen=True)
class Script:
    """A row of probes/scripts.tsv. `rung` is the weakest rung that allows it."""

    name: str
    rung: str
    quantities: tuple[str, ...]
    call_site: str

    @property
    def path(self) -> Path:
        return PROBES / "bpftrace" / f"{self.name}.bt"

    def parameters(self, workload: str) -> list[str]:
        """The script's positional parameters: the workload, the call site's offset."""
        if not self.call_site:
            return [workload]
        caller, callee = self.call_site.split(">")
        return [workload, str(callsite.call_offset(caller, callee))]


def read_scripts() -> dict[str, Script]:
    """All scripts by name, in the order of probes/scripts.tsv."""
    with (PROBES / "scripts.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
        return {
            row["script"]: Script(
                row["script"], row["rung"], tuple(row["quantities"].split()), row["call_site"]
            )
            for row in rows
        }


class Tracer:
    """One bpftrace: `start`, `wait_attached`, `ask_to_finish`, `finish`; `stop` on the way out."""

    def __init__(self, script: Script, workload: str, out: Path) -> None:
        self.script = script
        self.output = out / f"{script.name}.json"
        self.errors = out / f"{script.name}.stderr"
        self._argv = ["bpftrace", "-f", "json", "-o", str(self.output), str(script.path)]
        self._workload = workload
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_early = False

    def start(self) -> None:
        """Raises AttachError where the call site is not found or there is no bpftrace."""
        try:
            argv = [*self._argv, *self.script.parameters(self._workload)]
        except callsite.CallSiteError as error:
            raise AttachError(f"{self.script.name}.bt: {error}") from error
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command(argv),
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
                raise AttachError(
                    f"{self.script.name}.bt could not be attached: {self._last_line()}"
                )
            if time.monotonic() > deadline:
                raise AttachError(f"{self.script.name}.bt was not attached in {ATTACH_SECONDS} s.")
            time.sleep(0.02)

    def ask_to_finish(self) -> None:
        """Let it begin to detach, so that several do so side by side."""
        assert self._process is not None
        self._ended_early = self._process.poll() is not None
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> None:
        """Wait until it has detached and printed its maps; raises AttachError if it had died."""
        assert self._process is not None
        if self._ended_early:
            raise AttachError(f"{self.script.name}.bt ended early: {self._last_line()}")
        try:
            status = self._process.wait(DETACH_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AttachError(
                f"{self.script.name}.bt did not end in {DETACH_SECONDS} s."
            ) from error
        if status != 0:
            raise AttachError(f"{self.script.name}.bt failed at its end: {self._last_line()}")

    def stop(self) -> None:
        """End it, whatever its state."""
        if self._process is not None:
            stop(self._process, 2)

    def _complaints(self) -> str:
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def _last_line(self) -> str:
        lines = [line for line in self._complaints().splitlines() if "ERROR" in line]
        return lines[-1].strip() if lines else "it gave no reason."
