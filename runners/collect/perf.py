# SPDX-License-Identifier: GPL-2.0-or-later
"""perf: what it counts and records is data (probes/perf/); here is when.

perf attaches to this process, and the workload inherits its events (perf_event_open(2), inherit).
They are off until the workload itself writes `enable` to perf's control descriptor at the start of
the client's window, and waits for the answer; `disable` at its end (perf-stat(1), --control). The
window is the client's for both processes, and holds three system calls and one sleep of its own:
writing `disable`, waiting for the answer, and the server's word that it has done.
"""

from __future__ import annotations

import csv
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from runners.collect import perf_output
from runners.collect.instrument import AttachError, Context, Instrument, Losses, Window
from runners.collect.scripts import TRACEFS, Script
from runners.plan.model import CellRun
from runners.process import command, stop

ACK = b"ack\n\0"
ANSWER_SECONDS = 60
# After a window this long at most until its counts are printed: perf means to print them as soon as
# it is switched off, and does not (6.1; the result of evlist__ctlfd_process is 0 then).
INTERVAL_MS = 100
LOST = re.compile(r"lost (\d+) (?:chunks|samples|events)", re.IGNORECASE)


class Control:
    """One perf that waits for commands: `--control=fd:CTL,ACK`, both ends."""

    def __init__(self) -> None:
        self._commands, self.commands = os.pipe()
        self.answers, self._answers = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._said = Path()

    def start(self, argv: Sequence[str], said: Path) -> None:
        """Start `perf …`, whose words go to `said`. Raises AttachError where there is no perf."""
        if not shutil.which("perf"):
            raise AttachError("perf is not installed (Debian: linux-perf).")
        control = f"--control=fd:{self._commands},{self._answers}"
        self._said = said
        with said.open("wb") as words:
            self._process = subprocess.Popen(
                command([*argv, "-p", str(os.getpid()), "-D", "-1", control]),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                pass_fds=(self._commands, self._answers),
                start_new_session=True,
            )
        # Ours are closed, so that the end of perf is the end of its answers.
        os.close(self._answers)
        os.close(self._commands)
        self._answers = self._commands = -1

    def say(self, word: str) -> None:
        """Send a command and wait until perf has done it. Raises AttachError."""
        try:
            os.write(self.commands, word.encode() + b"\n")
        except BrokenPipeError:
            raise AttachError(f"perf ended: {self.last_words()}") from None
        ready, _, _ = select.select([self.answers], [], [], ANSWER_SECONDS)
        if not ready:
            raise AttachError(f"perf did not answer in {ANSWER_SECONDS} s.")
        if os.read(self.answers, len(ACK)) != ACK:
            raise AttachError(f"perf ended: {self.last_words()}")

    def window(self) -> Window:
        """What makes the workload switch it on and off."""
        pair = (self.commands, self.answers)
        return Window(("--control", f"{pair[0]},{pair[1]}"), pair)

    def ask_to_finish(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    def finish(self) -> None:
        """Wait for its end, which perf reports as the signal that we sent."""
        if self._process is not None:
            self._process.wait(ANSWER_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, 2)
        for end in (self._commands, self.commands, self.answers, self._answers):
            if end >= 0:
                os.close(end)
        self._commands = self.commands = self.answers = self._answers = -1

    def last_words(self) -> str:
        text = self._said.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if "rror" in line or "nvalid" in line or "ailed" in line]
        return (errors or lines or ["it gave no reason."])[0]


class Stat(Instrument):
    """`perf stat`: attached once, read at the end of each window."""

    name = "perf"

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        ((self._script, *_),) = scripts
        self._context = context
        self._folder = context.folder(self.name)
        self._output = self._folder / "stat.txt"
        self._control = Control()
        self._rows: list[perf_output.Event] = []
        self._read = 0
        self._attached = False
        self._maps: dict[str, dict[str, int]] = {}
        self._unable: dict[str, str] = {}

    def attach(self) -> None:
        rows = perf_output.read_events(self._script.path)
        absent = {row.event for row in rows if ":" in row.event and not _has_event(row.event)}
        lacking = {row.counter: row.event for row in rows if row.event in absent and not row.also}
        for counter, event in lacking.items():
            self._miss(counter, f"this kernel has no tracepoint {event}.")
        self._rows = [r for r in rows if r.event not in absent and r.counter not in lacking]
        argv = ["perf", "stat", "-I", str(INTERVAL_MS), "-x", ";", "-o", str(self._output)]
        for row in self._rows:
            argv += ["-e", row.event, *(("--filter", row.filter) if row.filter else ())]
        try:
            self._control.start(argv, self._folder / "stat.stderr")
        except AttachError as error:
            self._fail(error)

    def wait(self) -> list[str]:
        if self._control.commands < 0 or not self._rows:
            return []
        try:
            self._control.say("ping")
        except AttachError as error:
            self._fail(error)
            return []
        self._attached = True
        return [self._script.name]

    def before(self, run: CellRun) -> Window:
        return self._control.window() if self._attached else Window()

    def after(self, run: CellRun) -> Losses:
        if self._attached:
            try:
                self._take(run.id)
            except AttachError as error:
                self._attached = False
                self._fail(error)
        return Losses()

    def _take(self, cell: int) -> None:
        """Add up what was printed from the last window's end to this one's."""
        self._control.say("disable")
        # Printed after it was switched off, so that it holds the window's last events.
        beyond = len(self._blocks())
        deadline = time.monotonic() + ANSWER_SECONDS
        while len(blocks := self._blocks()) <= beyond:
            if time.monotonic() > deadline:
                raise AttachError(f"perf stat printed nothing for {ANSWER_SECONDS} s.")
            time.sleep(INTERVAL_MS / 5000)
        counted, unable = perf_output.add_up(self._rows, blocks[self._read :])
        self._read = len(blocks)
        for (quantity, key), value in counted.items():
            entry = f"{cell},{key}" if key else str(cell)
            self._maps.setdefault(f"@{quantity}", {})[entry] = value
        for counter, why in unable.items():
            if counter not in self._unable:
                self._unable[counter] = why
                self._miss(counter, why)

    def _blocks(self) -> list[list[perf_output.Reading]]:
        text = self._output.read_text(encoding="utf-8") if self._output.exists() else ""
        return perf_output.read_blocks(text, len(self._rows))

    def ask_to_finish(self) -> None:
        self._control.ask_to_finish()

    def finish(self) -> None:
        self._control.finish()
        if self._maps:
            _write_maps(self._folder / "stat.json", self._maps, 0)

    def stop(self) -> None:
        self._control.stop()

    def _miss(self, counter: str, why: str) -> None:
        self._context.miss(f"{counter} (perf stat)", why)

    def _fail(self, error: AttachError) -> None:
        self._context.miss(f"{', '.join(self._script.quantities)} (perf stat)", str(error))


class Record(Instrument):
    """`perf record` of a recipe: one for each cell, since it leaves one file, and is quick."""

    name = "perf"
    verb = ""

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        ((self._script, *_),) = scripts
        self._context = context
        self._folder = context.folder(self.name)
        self._options: list[str] = []
        self._control: Control | None = None
        self._maps: dict[str, dict[str, int]] = {}
        self._lost = 0

    def attach(self) -> None:
        with self._script.path.open(encoding="utf-8", newline="") as lines:
            kept = (line for line in lines if not line.startswith("#"))
            for row in csv.DictReader(kept, delimiter="\t"):
                self._options += [row["option"], *([row["value"]] if row["value"] else [])]

    def wait(self) -> list[str]:
        """Try it, so that what cannot be attached is missing before any cell runs."""
        try:
            self._start("try")
        except AttachError as error:
            self._miss(str(error))
            return []
        self._end()
        self._data("try").unlink(missing_ok=True)
        return [self._script.name]

    def before(self, run: CellRun) -> Window:
        try:
            return self._start(str(run.id)).window()
        except AttachError as error:
            self._miss(str(error))
            return Window()

    def after(self, run: CellRun) -> Losses:
        lost = 0
        if self._control is not None:
            try:
                self._control.say("disable")
            except AttachError as error:
                self._miss(str(error))
            self._end()
            try:
                lost = self._read(run.id, self._data(str(run.id)))
            except AttachError as error:
                self._miss(str(error))
            self._data(str(run.id)).unlink(missing_ok=True)
        return Losses(lost)

    def finish(self) -> None:
        if self._maps:
            _write_maps(self._folder / f"{self._script.name}.json", self._maps, 0)

    def stop(self) -> None:
        if self._control is not None:
            self._control.stop()

    def _start(self, name: str) -> Control:
        # --no-bpf-event: else it waits a second at its end for news of BPF programs.
        quick = ["perf", "record", "-B", "-N", "-q", "--no-bpf-event"]
        argv = [*quick, "-o", str(self._data(name)), *self._options]
        self._control = control = Control()
        try:
            control.start(argv, self._folder / f"{self._script.name}.stderr")
            control.say("ping")
        except AttachError:
            self.stop()
            self._control = None
            raise
        return control

    def _end(self) -> None:
        if self._control is not None:
            self._control.ask_to_finish()
            self._control.finish()
            self._control.stop()
            self._control = None

    def _data(self, name: str) -> Path:
        return self._folder / f"{self._script.name}-{name}.data"

    def _read(self, cell: int, data: Path) -> int:
        """Make of a cell's file what is kept; how many events were lost."""
        raise NotImplementedError

    def _run(self, *argv: str) -> tuple[str, int]:
        """What a perf that reads a file prints, and how many events it says were lost.

        Raises AttachError where it fails: half of a file would pass for fewer events.
        """
        done = subprocess.run(["perf", *argv], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["failed"])[-1]
            raise AttachError(f"perf {argv[0]}: {why}.")
        return done.stdout + done.stderr, sum(map(int, LOST.findall(done.stderr)))

    def _count(self, quantity: str, cell: int, key: str, value: int) -> None:
        entries = self._maps.setdefault(f"@{quantity}", {})
        entries[f"{cell},{key}"] = entries.get(f"{cell},{key}", 0) + value

    def _miss(self, why: str) -> None:
        what = ", ".join(self._script.quantities)
        self._context.miss(f"{what} (perf {self._script.name})", why)


class Trace(Record):
    """System calls by name, as `perf trace -s` sums them up.

    The sum is ours: `perf trace` 6.12 (Debian 13) crashes on every file.
    """

    def _read(self, cell: int, data: Path) -> int:
        text, lost = self._run("script", "-i", str(data), "-F", "comm,event,trace")
        for name, calls in perf_output.syscalls(text).items():
            self._count("syscalls", cell, name, calls)
        return lost


class Profile(Record):
    """Stacks by a clock, folded: `process;outermost;…;innermost N`."""

    def _read(self, cell: int, data: Path) -> int:
        text, lost = self._run("script", "-i", str(data), "-F", "comm,tid,ip,sym")
        folded = perf_output.fold(text)
        lines = [f"{stack} {count}\n" for stack, count in sorted(folded.items())]
        (self._folder / f"profile-{cell}.folded").write_text("".join(lines), encoding="utf-8")
        self._count("samples", cell, "cpu-clock", sum(folded.values()))
        return lost


def _has_event(event: str) -> bool:
    return (TRACEFS / "events" / event.replace(":", "/")).is_dir()


def _write_maps(path: Path, maps: dict[str, dict[str, int]], lost: int) -> None:
    """As bpftrace prints its maps."""
    lines: list[dict[str, object]] = [{"type": "map", "data": maps}]
    if lost:
        lines.append({"type": "lost_events", "data": {"events": lost}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
