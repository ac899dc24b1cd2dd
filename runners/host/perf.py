# SPDX-License-Identifier: GPL-2.0-or-later
"""perf: counts lines of counters.tsv, and samples stacks.

perf attaches to this process, and the workload inherits its events. They are off until the workload
writes `enable` to perf's control descriptor at the start of the client's window, and `disable` at
its end (perf-stat(1), --control). The window is the client's for both processes. It holds three
system calls and one sleep that are not the workload's.
"""

import json
import os
import re
import select
import shutil
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from probes import callsite
from probes.bcc import frame
from probes.cell import CellRun
from probes.counters import Counter
from probes.reasons import Reason, ReasonError, reason
from probes.scripts import Script
from runners.host.instrument import Child, Context, Instrument, Losses, WindowOptions
from runners.process import attempt, last_words

ACK = b"ack\n\0"
PERF_SECONDS = 60
INTERVAL_MS = 100  # perf prints counts at most this long after the end of a window
LOST = re.compile(r"lost (\d+) (?:chunks|samples|events)", re.IGNORECASE)
UNITS = {"": 1.0, "ns": 1.0, "msec": 1e6}
ALL_OF_THE_TIME = 99.995  # per cent, as perf prints it with two places
FRAME = re.compile(r"^\s+[0-9a-f]+ (.+)$")
# Words of counters.tsv as perf's filters have them (Documentation/trace/events.rst).
FILTER = ((r"\bargs->", ""), (r"\bown\b", 'comm ~ "pathcost-*"'), (r"\blo\b", 'name == "lo"'))
# cpu-clock is a timer: it needs no PMU. The rate is no divisor of a timer tick. Without
# --no-bpf-event perf waits a second at its end.
PROFILE = ("-B", "-N", "-q", "--no-bpf-event", "-e", "cpu-clock", "-F", "1999", "-g", "-m", "1024")


class Control(Child):
    """A perf process that waits for commands. Raises ReasonError where there is no perf."""

    def __init__(self, argv: Sequence[str], words: Path) -> None:
        super().__init__("perf", "perf", words, words)
        if not shutil.which("perf"):
            raise ReasonError(reason("not-installed", program="perf", package="linux-perf"))
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.descriptors = (commands, answers)
        self._argv = argv

    def argv(self) -> list[str]:
        control = "--control=fd:{},{}".format(*self.descriptors)
        return [*self._argv, "-p", str(os.getpid()), "-D", "-1", control]

    def start(self) -> None:
        super().start()
        # Our copies are closed, so that answers end when perf ends.
        for end in self.descriptors:
            os.close(end)

    def say(self, word: str) -> None:
        """Send a command and wait until perf has done it. Raises ReasonError."""
        try:
            os.write(self.commands, word.encode() + b"\n")
        except BrokenPipeError:
            raise self.attach_error("ended-early", said=self.last_complaint()) from None
        ready, _, _ = select.select([self.answers], [], [], PERF_SECONDS)
        if not ready:
            raise self.attach_error("no-answer", seconds=PERF_SECONDS)
        if os.read(self.answers, len(ACK)) != ACK:
            raise self.attach_error("ended-early", said=self.last_complaint())

    def window(self) -> WindowOptions:
        """What makes the workload switch perf on and off."""
        pair = self.commands, self.answers
        return WindowOptions(("--control", "{},{}".format(*pair)), pair)

    def finish(self) -> None:
        """Wait for its end. Its status is the signal that we sent."""
        self.process.wait(PERF_SECONDS)

    def stop(self) -> None:
        super().stop()
        os.close(self.commands)
        os.close(self.answers)

    def last_complaint(self) -> str:
        lines = [line.strip() for line in self.printed().splitlines() if line.strip()]
        errors = [line for line in lines if "rror" in line or "nvalid" in line or "ailed" in line]
        return (errors or lines or ["it gave no reason"])[0]


class Perf(Instrument):
    """One script, and maps as bpftrace prints them. Where a step fails, perf is stopped."""

    name = "perf"

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        (self.script,) = scripts
        self.folder = context.folder(self.name)
        self._maps: frame.Maps = {}
        self._control: Control | None = None

    def start(self, argv: Sequence[str], name: str) -> None:
        """Start perf, which prints to a file of this name. Raises ReasonError."""
        self._control = Control(argv, self.folder / f"{name}.stderr")
        self._control.start()

    def do(self, step: Callable[[Control], None]) -> None:
        """Do a step of perf, if it runs."""
        if (control := self._control) and not self.attempt(partial(step, control), self.quantities):
            self.stop()

    def stop(self) -> None:
        if self._control is not None:
            self._control.stop()
            self._control = None

    def finish(self) -> None:
        if self._maps:
            line = json.dumps({"type": "map", "data": self._maps})
            (self.folder / f"{self.script.name}.json").write_text(line + "\n", encoding="utf-8")


class Reading(NamedTuple):
    """A line of `perf stat -x -I`: an event's count, in `share` per cent of an interval."""

    value: str
    unit: str
    share: float


class Stat(Perf):
    """`perf stat`: attached once, read at the end of each window."""

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        self._output = self.folder / "stat.txt"
        self._counters: list[Counter] = []
        self._read = 0
        self._unable: set[tuple[str, str]] = set()

    def attach(self) -> None:
        argv = ["perf", "stat", "-I", str(INTERVAL_MS), "-x", ";", "-o", str(self._output)]
        for counter in self.script.counters:
            if ":" in counter.hook and not callsite.has_event(counter.hook):
                self._miss(counter.quantity, reason("no-tracepoint", event=counter.hook))
                continue
            self._counters.append(counter)
            argv += ["-e", counter.hook]
            argv += ["--filter", only] if (only := condition(counter)) else []
        if self._counters:
            self.attempt(lambda: self.start(argv, "stat"), self.quantities)

    def _miss(self, quantity: str, why: Reason) -> None:
        self.miss({self.script.name: [quantity]}, ReasonError(why))

    def wait(self) -> list[str]:
        self.do(lambda control: control.say("ping"))
        return [self.script.name] if self._control else []

    def before(self, run: CellRun) -> WindowOptions:
        return self._control.window() if self._control else WindowOptions()

    def after(self, run: CellRun) -> Losses:
        self.do(lambda control: self._take(control, run.id))
        return Losses()

    def _take(self, control: Control, cell: int) -> None:
        """Add up what was printed from the last window's end to this one's."""
        control.say("disable")
        # Printed after it was switched off, so that it holds the window's last events.
        beyond = len(self._blocks())
        deadline = time.monotonic() + PERF_SECONDS
        while len(blocks := self._blocks()) <= beyond:
            if time.monotonic() > deadline:
                raise ReasonError(reason("no-answer", tool="perf stat", seconds=PERF_SECONDS))
            time.sleep(INTERVAL_MS / 5000)
        counts, unable = add_up(self._counters, blocks[self._read :])
        self._read = len(blocks)
        for (quantity, key), value in counts.items():
            frame.add(self._maps, quantity, cell, key, value)
        for name, why in unable.items():
            if name not in self._unable:
                self._miss(name[0], why)
        self._unable |= unable.keys()

    def _blocks(self) -> list[list[Reading]]:
        text = self._output.read_text(encoding="utf-8") if self._output.exists() else ""
        return read_blocks(text, len(self._counters))

    def ask_to_finish(self) -> None:
        self.do(Control.ask_to_finish)

    def finish(self) -> None:
        self.do(Control.finish)
        super().finish()


def condition(counter: Counter) -> str:
    """The filter of a counter's event."""
    text = counter.only
    for word, replacement in FILTER:
        text = re.sub(word, replacement, text)
    return text


def read_blocks(text: str, events: int) -> list[list[Reading]]:
    """The complete intervals in the text: a line for each event, in their order."""
    readings = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        fields = line.split(";")
        if len(fields) >= 6 and not line.startswith("#"):
            share = float(fields[5]) if fields[5] else 0.0
            readings.append(Reading(fields[1], fields[2], share))
    number = len(readings) // events if events else 0
    return [readings[at * events : (at + 1) * events] for at in range(number)]


def add_up(
    counters: Sequence[Counter], blocks: Iterable[Sequence[Reading]]
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], Reason]]:
    """(quantity, key) → count over the intervals, and (quantity, key) → why it has none."""
    totals: dict[tuple[str, str], float] = {}
    unable: dict[tuple[str, str], Reason] = {}
    for block in blocks:
        for counter, reading in zip(counters, block, strict=True):
            if reading.value == "<not supported>":
                unable[counter.name] = reason("no-hardware-event", event=counter.hook)
                continue
            if reading.value == "<not counted>":  # none of the processes ran while it was on
                continue
            if reading.share < ALL_OF_THE_TIME:
                share = f"{reading.share:.0f}"
                unable[counter.name] = reason("shared-counter", event=counter.hook, share=share)
            value = float(reading.value) * UNITS[reading.unit]
            totals[counter.name] = totals.get(counter.name, 0.0) + value
    return {name: round(total) for name, total in totals.items() if name not in unable}, unable


class StackProfile(Perf):
    """`perf record`: stacks by a clock. A process for each cell: each writes one file, quickly."""

    def wait(self) -> list[str]:
        """Try it, so that what cannot be attached is missing before any cell runs."""
        if not self._start("try"):
            return []
        self._end("try")
        return [self.script.name]

    def before(self, run: CellRun) -> WindowOptions:
        control = self._start(str(run.id))
        return control.window() if control else WindowOptions()

    def after(self, run: CellRun) -> Losses:
        if self._control is None:
            return Losses()
        self.do(lambda control: control.say("disable"))
        return Losses(self._end(str(run.id), run.id))

    def _start(self, name: str) -> Control | None:
        argv = ["perf", "record", "-o", str(self._data(name)), *PROFILE]
        self.attempt(lambda: self.start(argv, self.script.name), self.quantities)
        self.do(lambda control: control.say("ping"))
        return self._control

    def _end(self, name: str, cell: int | None = None) -> int:
        """End perf, and read its file if it is of a cell. Returns how many events were lost."""
        if self._control is not None:
            self._control.ask_to_finish()
            self._control.finish()
            self.stop()
        lost = 0 if cell is None else self._fold(cell, self._data(name))
        self._data(name).unlink(missing_ok=True)
        return lost

    def _data(self, name: str) -> Path:
        return self.folder / f"{self.script.name}-{name}.data"

    def _fold(self, cell: int, data: Path) -> int:
        """Fold a cell's stacks; none where `perf script` fails. Return how many were lost."""
        done = attempt(["perf", "script", "-i", data, "-F", "comm,tid,ip,sym"])
        if done.returncode != 0:
            why = reason("tool-said", tool="perf script", said=last_words(done.stderr))
            self.miss(self.quantities, ReasonError(why))
            return 0
        stacks = fold(done.stdout)
        lines = [f"{stack} {count}\n" for stack, count in sorted(stacks.items())]
        (self.folder / f"profile-{cell}.folded").write_text("".join(lines), encoding="utf-8")
        frame.add(self._maps, "samples", cell, "cpu-clock", sum(stacks.values()))
        return sum(map(int, LOST.findall(done.stderr)))


def fold(text: str) -> dict[str, int]:
    """`process;outermost;…;innermost` → samples, by what `perf script` prints."""
    stacks: Tally[str] = Tally()
    for sample in text.split("\n\n"):
        head, *frames = sample.strip("\n").splitlines() or [""]
        names = [match[1].strip() for line in frames if (match := FRAME.match(line))]
        if names:
            stacks[";".join([head.split()[0], *reversed(names)])] += 1
    return dict(stacks)
