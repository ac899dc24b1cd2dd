# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts the events of the cells that have the prices of events (docs/time-explained.md)."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from probes.cell import CellRun
from probes.contract import CELLS
from runners.exact.cells import plan
from runners.exact.run import by_machine, count
from runners.host.session import Session
from runners.options import ExactOptions

SCHEDULER = "other"  # as the host has it


class Named(NamedTuple):
    """What names a cell among those that have prices."""

    transport: str
    pattern: str
    size: int
    placement: str


def count_events(
    session: Session[ExactOptions],
    cells: Iterable[Named],
    scheduler: str = SCHEDULER,
    knob: str = "",
) -> tuple[str, dict[Named, dict[str, Any]]]:
    """The kernel's release, and the events of each cell that could be counted, with this knob.

    Raises RunError.
    """
    events: dict[Named, dict[str, Any]] = {}
    release = ""
    runs = list(cell_runs(cells, scheduler, knob))
    with session.scratch(), tempfile.TemporaryDirectory(prefix="pathcost-priced-") as name:
        for work in by_machine(session.options.kernels[:1], runs):
            entry, _ = count(session, Path(name), work)
            release = entry["kernel"]
            text = (Path(name) / entry["folder"] / CELLS).read_text(encoding="utf-8")
            for line in map(json.loads, text.splitlines()):
                if not line["error"] and line["valid"]:
                    events[Named(*(line[field] for field in Named._fields))] = line["events"]
    return release, events


def cell_runs(cells: Iterable[Named], scheduler: str, knob: str) -> Iterator[CellRun]:
    """Exact mode's cells: its own numbers of messages."""
    for number, cell in enumerate(cells, 1):
        (run,) = plan(
            [cell.transport],
            [cell.size],
            placements=[cell.placement],
            schedulers=[scheduler],
            patterns=[cell.pattern],
        )
        yield CellRun(number, replace(run.cell, knob=knob), 0)
