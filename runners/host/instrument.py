# SPDX-License-Identifier: GPL-2.0-or-later
"""The interface of an instrument: it is attached once for a pass, and told of each cell.

bpftrace, bcc, ftrace and perf differ in how they attach and in how they know the window. The order
of calls is the same: `attach`, `wait`, for each cell `before` and `after`, `ask_to_finish`,
`finish`; `stop` on every way out. An instrument reports what it cannot count by `miss`.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.reasons import ReasonError
from runners.cell import CellRun


class AttachError(ReasonError):
    """Something could not be attached."""


@dataclass(frozen=True)
class Context:
    """What an instrument knows of the run.

    transports  of all cells of the run
    out         the folder for its files
    number      which pass this is
    miss        reports what cannot be counted: an entry made by probes.reasons.missing
    own_kernel  nobody else uses this kernel's tracing
    """

    workload: str
    transports: frozenset[str]
    out: Path
    number: int
    miss: Callable[[dict[str, Any]], None]
    own_kernel: bool = False

    def folder(self, instrument: str) -> Path:
        """The instrument's folder for this pass."""
        folder = self.out / instrument / str(self.number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class WindowOptions:
    """How the workload switches an instrument on and off at the edges of its window: options, and
    descriptors that it inherits.
    """

    options: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Losses:
    """What an instrument lost in one cell.

    lost          events that were lost
    missed        script → events for which its programs were not run; None where nobody knows.
                  Most events of the scheduler, say, have nothing to do with the cell
    calls_missed  the same for the programs on the network's path, which mostly the workload takes
                  (Program.on_path)
    ran           `runs` and `ns` of its BPF programs, as the kernel counted them; None without any
    """

    lost: int = 0
    missed: dict[str, int | None] = field(default_factory=dict)
    calls_missed: dict[str, int | None] = field(default_factory=dict)
    ran: dict[str, int] | None = None


class Instrument:
    """The base class: does nothing. `name` is the instrument's name in every table."""

    name = ""

    def blind(self, script: str) -> Container[str]:
        """Transports whose messages a script that is attached does not see on this kernel."""
        return ()

    def attach(self) -> None:
        """Begin to attach, so that several instruments do so side by side."""

    def wait(self) -> list[str]:
        """Wait for it. Returns the scripts that are attached, and reports the others as missing."""
        return []

    def before(self, run: CellRun) -> WindowOptions:
        """A cell is about to run."""
        return WindowOptions()

    def after(self, run: CellRun) -> Losses:
        """The cell has run, or failed."""
        return Losses()

    def ask_to_finish(self) -> None:
        """Begin to detach, so that several do so side by side."""

    def finish(self) -> None:
        """Wait until detached and everything is written."""

    def stop(self) -> None:
        """End it, in whatever state it is."""
