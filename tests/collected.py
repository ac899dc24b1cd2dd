# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading what a collector left, for tests: as the audit does, without the analysis."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.audit.probes import Scripts
from tests.audit.workload import both, others, sum_of

Counts = dict[str, int]


class Collected:
    """A `raw/<target>/` folder."""

    def __init__(
        self, folder: Path, chosen: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> None:
        self.folder = folder
        lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
        self.cells: list[dict[str, Any]] = [*filter(chosen, map(json.loads, lines))]
        self.missing: list[dict[str, Any]] = json.loads((folder / "missing.json").read_text())
        self._scripts = Scripts(folder).by_name

    def probed(
        self, transport: str | None = None, instrument: str = "bpftrace"
    ) -> list[dict[str, Any]]:
        """Cell runs that had `instrument` attached, of the usual way to be scheduled and joined."""
        return [
            cell
            for cell in self.cells
            if instrument in cell["instruments"]
            and transport in (None, cell["transport"])
            and cell not in self.unusual()
        ]

    def unusual(self) -> list[dict[str, Any]]:
        """Cell runs under another scheduler, or with a connection for each direction."""
        return [c for c in self.cells if (c["sched"], c["topology"]) != ("other", "one")]

    def counts(self, cell: dict[str, Any], instrument: str = "bpftrace") -> Counts:
        """`quantity key` → value, of one probed cell run."""
        return {
            f"{quantity} {key}".strip(): value
            for name in cell["scripts"]  # another is blind to its transport, and left zeros
            if (script := self._scripts.get(name)) and script.instrument == instrument
            for (quantity, key), value in script.counts[cell["id"]].items()
        }

    def running(self, script: str) -> list[dict[str, Any]]:
        """Cell runs that had `script` attached."""
        return [cell for cell in self.cells if script in cell["scripts"]]

    def functions(self, cell: dict[str, Any]) -> Counts:
        """Function → calls, of one cell run under ftrace."""
        lines = (self.folder / "ftrace" / f"{cell['id']}.tsv").read_text().splitlines()
        return {name: int(calls) for name, calls in (line.split("\t") for line in lines)}


def switches(cell: dict[str, Any]) -> dict[str, int]:
    """Both processes' context switches by getrusage, over the window."""
    return {kind: both(cell["result"], "rusage", kind) for kind in ("voluntary", "involuntary")}


def out_segments(cell: dict[str, Any]) -> int:
    """TCP segments sent over the window, those sent again included, by /proc/net/snmp."""
    return _grown(cell, "snmp", sum_of("Tcp", "OutSegs", "RetransSegs"))


def sent_elsewhere(cell: dict[str, Any]) -> int:
    """Packets that other devices than lo sent over the window: the machine's own traffic."""
    return _grown(cell, "dev", others)


def segments_again(cell: dict[str, Any]) -> int:
    """TCP segments sent again over the window: a starved guest's timers send one now and then."""
    return _grown(cell, "snmp", sum_of("Tcp", "RetransSegs"))


def datagrams(cell: dict[str, Any]) -> tuple[int, int]:
    """UDP datagrams sent and received over the window, by /proc/net/snmp."""
    sent, received = (sum_of("Udp", f"{way}Datagrams") for way in ("Out", "In"))
    return _grown(cell, "snmp", sent), _grown(cell, "snmp", received)


def _grown(cell: dict[str, Any], name: str, read: Callable[[str], int]) -> int:
    before, after = map(read, cell["result"]["proc"][f"/proc/net/{name}"])
    return after - before
