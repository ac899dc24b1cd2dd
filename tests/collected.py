# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading what a collector left, for tests: straight from the files, without the analysis."""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        self._counts = {name: self._read_maps(name) for name in ("bpftrace", "bcc", "perf")}

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
        return self._counts[instrument][str(cell["id"])]

    def running(self, script: str) -> list[dict[str, Any]]:
        """Cell runs that had `script` attached."""
        return [cell for cell in self.cells if script in cell["scripts"]]

    def functions(self, cell: dict[str, Any]) -> Counts:
        """Function → calls, of one cell run under ftrace."""
        lines = (self.folder / "ftrace" / f"{cell['id']}.tsv").read_text().splitlines()
        return {name: int(calls) for name, calls in (line.split("\t") for line in lines)}

    def _read_maps(self, instrument: str) -> dict[str, Counts]:
        counts: dict[str, Counts] = defaultdict(dict)
        for file in self.folder.glob(f"{instrument}/*/*.json"):
            for line in filter(None, file.read_text(encoding="utf-8").splitlines()):
                record = json.loads(line)
                if record["type"] == "map":
                    for name, entries in record["data"].items():
                        for keys, value in entries.items():
                            cell, _, key = keys.partition(",")
                            counts[cell][f"{name.lstrip('@')} {key}".strip()] = value
        return counts


def switches(cell: dict[str, Any]) -> dict[str, int]:
    """Both processes' context switches by getrusage, over the window."""
    usages = [cell["result"][side]["rusage"] for side in ("client", "server")]
    return {kind: sum(usage[kind] for usage in usages) for kind in ("voluntary", "involuntary")}


def out_segments(cell: dict[str, Any]) -> int:
    """TCP segments sent over the window, those sent again included, by /proc/net/snmp."""
    return _delta(cell, "Tcp", "OutSegs") + segments_again(cell)


def sent_elsewhere(cell: dict[str, Any]) -> int:
    """Packets that other devices than lo sent over the window: the machine's own traffic."""
    before, after = (
        sum(
            int(counts.split()[9])
            for device, _, counts in (line.partition(":") for line in text.splitlines())
            if counts and device.strip() != "lo"
        )
        for text in cell["result"]["proc"]["/proc/net/dev"]
    )
    return after - before


def segments_again(cell: dict[str, Any]) -> int:
    """TCP segments sent again over the window: a starved guest's timers send one now and then."""
    return _delta(cell, "Tcp", "RetransSegs")


def datagrams(cell: dict[str, Any]) -> tuple[int, int]:
    """UDP datagrams sent and received over the window, by /proc/net/snmp."""
    return _delta(cell, "Udp", "OutDatagrams"), _delta(cell, "Udp", "InDatagrams")


def _delta(cell: dict[str, Any], protocol: str, counter: str) -> int:
    texts = cell["result"]["proc"]["/proc/net/snmp"]
    before, after = (_row(text, protocol)[counter] for text in texts)
    return after - before


def _row(text: str, protocol: str) -> dict[str, int]:
    lines = (line for line in text.splitlines() if line.startswith(f"{protocol}:"))
    names, values = (line.split()[1:] for line in lines)
    return dict(zip(names, map(int, values), strict=True))
