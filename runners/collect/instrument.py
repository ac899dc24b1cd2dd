# SPDX-License-Identifier: GPL-2.0-or-later
"""What an instrument is to the collector: attached once for a pass, asked about each cell.

bpftrace, bcc, ftrace and perf differ in how they attach and in how they know the window; the order
of calls is the same for all: `attach`, `wait`, for each cell `before` and `after`, `ask_to_finish`,
`finish`; `stop` on every way out. Whatever it cannot give it says by `miss`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runners.plan.model import CellRun


class AttachError(Exception):
    """Something could not be attached; the message is one sentence that says why."""


@dataclass(frozen=True)
class Context:
    """What an instrument is told of the run. `number` is the pass's; files go below `out`.

    `own_kernel`: nobody else uses this kernel's tracing.
    """

    workload: str
    out: Path
    number: int
    miss: Callable[[str, str], None]
    own_kernel: bool = False

    def folder(self, instrument: str) -> Path:
        """The instrument's own folder of this pass."""
        folder = self.out / instrument / str(self.number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class Window:
    """What the workload needs for one cell: more options, and descriptors that it inherits."""

    options: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ran:
    """How often an instrument's BPF programs ran, and for how long, by the kernel's count."""

    runs: int = 0
    ns: int = 0

    def __add__(self, other: Ran) -> Ran:
        return Ran(self.runs + other.runs, self.ns + other.ns)


@dataclass(frozen=True)
class Losses:
    """Of one cell: events that were lost, and script → events missed (None: nobody knows).

    `missed` counts all programs, most of whose events have nothing to do with the cell;
    `calls_missed` those on the network's path, which is mostly the workload's (Program.on_path).
    `ran` is what its programs did meanwhile, None where it has none.
    """

    lost: int = 0
    missed: dict[str, int | None] = field(default_factory=dict)
    calls_missed: dict[str, int | None] = field(default_factory=dict)
    ran: Ran | None = None


class Instrument:
    """The base: does nothing. `name` is the instrument's word in every table."""

    name = ""

    def attach(self) -> None:
        """Begin to attach, so that several instruments do so side by side."""

    def wait(self) -> list[str]:
        """The scripts that are attached now; the others have been reported as missing."""
        return []

    def before(self, run: CellRun) -> Window:
        """A cell is about to run."""
        return Window()

    def after(self, run: CellRun) -> Losses:
        """It has run, or failed."""
        return Losses()

    def ask_to_finish(self) -> None:
        """Begin to detach, so that several do so side by side."""

    def finish(self) -> None:
        """Wait until detached and everything is written."""

    def stop(self) -> None:
        """End it, whatever its state."""
