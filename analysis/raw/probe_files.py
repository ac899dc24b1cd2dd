# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that instruments wrote beside a target's cells: maps, ftrace counts, round-trip times."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analysis.errors import RunError
from analysis.raw.cells import Cell
from analysis.raw.record import AGAIN, read_text
from analysis.raw.run import Target

HELPER = "@helper"
# Instruments whose scripts leave maps as bpftrace prints them, in
# raw/<target>/<instrument>/<pass>/<script>.json.
MAPPING = ("bpftrace", "bcc", "perf")
# Scripts write a 0 for everything that they watch but functions, which appear once they are called.
IMPLIED_ZERO = "function_calls"
# bpftrace's message when its buffer overflows, and the message when a map is full.
LOST = re.compile(r"\b[Ll]ost (\d+) events|\b(?:[Mm]ap full|map_update_elem)")


class Count(NamedTuple):
    """One entry of a map."""

    script: str
    cell: int
    quantity: str
    key: str
    value: int


class PassCounts(NamedTuple):
    """What one instrument's scripts counted in one pass over some cells."""

    instrument: str
    counts: tuple[Count, ...]
    lost: dict[str, int]  # script -> events that it lost, over all cells of the pass


class Scripts(NamedTuple):
    """What all scripts of a target counted."""

    passes: tuple[PassCounts, ...]

    def of(self, cell: int, script: str) -> list[Count]:
        """What a script counted in a cell run; functions that it watched in vain count 0."""
        found = [c for part in self.passes for c in part.counts if c.script == script]
        own = [c for c in found if c.cell == cell]
        called = {c.key for c in own if c.quantity == IMPLIED_ZERO}
        watched = dict.fromkeys(c.key for c in found if c.quantity == IMPLIED_ZERO)
        zeros = [Count(script, cell, IMPLIED_ZERO, key, 0) for key in watched if key not in called]
        return own + zeros

    def instrument(self, script: str) -> str:
        """The instrument that ran a script."""
        return next((part.instrument for part in self.passes if script in part.lost), MAPPING[0])

    def lost(self, cell: int, script: str) -> int:
        """Events that a script lost in the cell's pass; in all passes, if none knows the cell."""
        knowing = [part for part in self.passes if any(c.cell == cell for c in part.counts)]
        return sum(part.lost.get(script, 0) for part in knowing or self.passes)


def read_scripts(target: Target) -> Scripts:
    """The output of every script, pass by pass."""
    folders = [(by, folder) for by in MAPPING for folder in sorted(target.path.glob(f"{by}/*"))]
    return Scripts(
        tuple(_read_pass(target, by, folder) for by, folder in folders if folder.is_dir())
    )


def _read_pass(target: Target, instrument: str, folder: Path) -> PassCounts:
    counts: list[Count] = []
    lost: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        name = f"raw/{target.folder}/{instrument}/{folder.name}/{path.name}"
        stderr = path.with_suffix(".stderr")
        text = stderr.read_text(encoding="utf-8", errors="replace") if stderr.exists() else ""
        # A full map counts as one lost event.
        lost[path.stem] = sum(int(found[1] or 1) for found in LOST.finditer(text))
        for line, kind, data in _messages(path, name):
            if kind == "map":
                counts += _counts(path.stem, data, name)
            elif kind == "lost_events":
                lost[path.stem] += int(data.get("events", 0))
            elif kind == "helper_error" and LOST.search(line):
                lost[path.stem] += 1
    return PassCounts(instrument, tuple(counts), lost)


def _messages(path: Path, name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(line, type, data) of each line of JSON."""
    text = read_text(path, name, "its counts are lost")
    whole = not text or text.endswith("\n")
    for line in filter(str.strip, text.splitlines()):
        try:
            message = json.loads(line) if whole else None
        except json.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            raise RunError(
                f"{name} is cut off or damaged: its writer did not finish, and its counts cannot "
                f"be trusted. {AGAIN}"
            )
        data = message.get("data")
        yield line, str(message.get("type")), data if isinstance(data, dict) else {}


def _counts(script: str, data: dict[str, Any], name: str) -> Iterator[Count]:
    for map_name, entries in data.items():
        if map_name.startswith(HELPER):
            continue
        if not isinstance(entries, dict):
            raise RunError(f"{name}: {map_name} has no cell in its key, so it counts for no cell.")
        for keys, value in entries.items():
            cell, _, key = keys.partition(",")
            if not cell.isdigit() or isinstance(value, bool) or not isinstance(value, int):
                raise RunError(
                    f"{name}: {map_name}[{keys}] is not a count for a cell. Name helper maps "
                    f"{HELPER}…, and key all others [cell, key]."
                )
            yield Count(script, int(cell), map_name.removeprefix("@"), key, value)


def read_ftrace(target: Target, cell: Cell) -> dict[str, int]:
    """Function → calls over the window; empty when the file is not there."""
    path = target.path / "ftrace" / f"{cell.id}.tsv"
    if not path.exists():
        return {}
    name = f"raw/{target.folder}/ftrace/{path.name}"
    text = read_text(path, name, "its function counts are lost")
    calls: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        function, tab, count = line.rstrip("\n").partition("\t")
        if not (line.endswith("\n") and function and tab and count.isdigit()):
            raise RunError(
                f"{name}, line {number} is not `function<TAB>calls`: the file was cut off or "
                f"damaged, and its counts cannot be trusted. {AGAIN}"
            )
        calls[function] = calls.get(function, 0) + int(count)
    return calls


def read_samples(target: Target, cell: Cell) -> npt.NDArray[np.uint32]:
    """The times of a cell's round trips, or of its single messages, in nanoseconds."""
    path = target.path / "samples" / f"{cell.id}.u32"
    name = f"raw/{target.folder}/samples/{path.name}"
    try:
        data = path.read_bytes()
    except OSError:
        raise RunError(f"{name} cannot be read: cell {cell.id} has no times. {AGAIN}") from None
    trips = cell.result.round_trips if cell.result else 0
    if cell.pattern == "stream":
        trips = cell.messages
    if len(data) != 4 * trips:
        raise RunError(
            f"{name} holds {len(data)} bytes, and {trips} round trips make {4 * trips}: the file "
            f"was cut off or damaged, and percentiles of it would be wrong. {AGAIN}"
        )
    return np.frombuffer(data, dtype="<u4")
