# SPDX-License-Identifier: GPL-2.0-or-later
"""What bpftrace, bcc, perf and ftrace counted in a cell: their files, added up again."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Instrument, quantity, key, total over the window.
Count = tuple[str, str, str, float]
LOST = re.compile(r"\b[Ll]ost (\d+) events|\b(?:[Mm]ap full|map_update_elem)")


class Script:
    """All that one script of one instrument counted on a kernel, whatever its passes."""

    def __init__(self, instrument: str) -> None:
        self.instrument = instrument
        self.counts: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        self.functions: list[str] = []  # watched: seen in any cell
        self.lost: dict[str, int] = defaultdict(int)  # pass → events that it lost
        self.cells: dict[str, set[int]] = defaultdict(set)  # pass → cells that it counted in

    def read(self, path: Path) -> None:
        """Add the maps of one pass, and what it says it lost."""
        stderr = path.with_suffix(".stderr")
        said = stderr.read_text(encoding="utf-8", errors="replace") if stderr.exists() else ""
        lost = sum(int(number or 1) for number in LOST.findall(said))
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            message = json.loads(line)
            if message["type"] == "lost_events":
                lost += message["data"]["events"]
            elif message["type"] == "helper_error":
                lost += bool(LOST.search(line))
            elif message["type"] == "map":
                self._maps(path.parent.name, message["data"])
        self.lost[path.parent.name] += lost

    def _maps(self, part: str, maps: dict[str, dict[str, int]]) -> None:
        for name, entries in maps.items():
            if name.startswith("@helper"):
                continue
            for entry, value in entries.items():
                number, _, key = entry.partition(",")
                self.counts[int(number)][name[1:], key] = value
                self.cells[part].add(int(number))
                if name == "@function_calls" and key not in self.functions:
                    self.functions.append(key)

    def of(self, cell: int) -> Iterator[Count]:
        """What it counted in a cell; a function that it watched and nobody called counts 0."""
        own = self.counts[cell]
        zeros = {("function_calls", name): 0 for name in self.functions}
        for (quantity, key), value in {**zeros, **own}.items():
            yield self.instrument, quantity, key, value


class Scripts:
    """The scripts of one target, by name."""

    def __init__(self, folder: Path) -> None:
        self.by_name: dict[str, Script] = {}
        # All scripts of an instrument's pass share its cells.
        self.cells: dict[tuple[str, str], set[int]] = defaultdict(set)
        for instrument in ("bpftrace", "bcc", "perf"):
            for path in sorted(folder.glob(f"{instrument}/*/*.json")):
                script = self.by_name.setdefault(path.stem, Script(instrument))
                script.read(path)
                part = path.parent.name
                self.cells[instrument, part] |= script.cells[part]

    def of(self, cell: dict[str, Any]) -> Iterator[Count]:
        """What the cell's scripts counted, lost and missed."""
        for name in cell["scripts"]:
            script = self.by_name.get(name)
            by = script.instrument if script else "bpftrace"
            if script:
                yield from self._lost(script, name, cell["id"])
            if cell["missed"].get(name) is not None:
                yield by, "missed", name, cell["missed"][name]
            if script:
                yield from script.of(cell["id"])

    def _lost(self, script: Script, name: str, cell: int) -> Iterator[Count]:
        """The losses of the passes that hold the cell; of all where none does."""
        parts = [p for p in script.lost if cell in self.cells[script.instrument, p]]
        if lost := sum(script.lost[part] for part in parts or script.lost):
            yield script.instrument, "lost", f"{script.instrument} {name}", lost


def ftrace(folder: Path, cell: dict[str, Any]) -> Iterator[Count]:
    """ftrace/<id>.tsv: calls of every function in the window."""
    if cell["lost"]:
        by = cell["instruments"][-1] if cell["instruments"] else "ftrace"
        yield by, "lost", by, cell["lost"]
    path = folder / "ftrace" / f"{cell['id']}.tsv"
    if "ftrace" in cell["instruments"] and path.exists():
        calls: dict[str, int] = defaultdict(int)
        for line in path.read_text(encoding="utf-8").splitlines():
            function, count = line.split("\t")
            calls[function] += int(count)
        for function, total in calls.items():
            yield "ftrace", "function_calls", function, total
