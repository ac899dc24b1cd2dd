# SPDX-License-Identifier: GPL-2.0-or-later
"""What instruments and the kernel wrote: maps, ftrace counts, round-trip times, texts of /proc."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter

from analysis.raw.cells import Cell
from analysis.raw.record import (
    Change,
    Count,
    check,
    damaged,
    parse_lines,
    read_bytes,
    read_text,
)
from analysis.raw.run import Target

HELPER = "@helper"
# Instruments whose scripts leave maps as bpftrace prints them, in
# raw/<target>/<instrument>/<pass>/<script>.json.
MAPPING = ("bpftrace", "bcc", "perf")
# Scripts write a 0 for everything that they watch but functions, which appear once they are called.
IMPLIED_ZERO = "function_calls"
# bpftrace's message when its buffer overflows, and the message when a map is full.
LOST = re.compile(r"\b[Ll]ost ([0-9]{1,15}) events|\b(?:[Mm]ap full|map_update_elem)")
# Scripts that leave a file of their own for each cell, and where.
BY_CELL = {
    "functions": "ftrace/{}.tsv",
    "profile": "perf/*/profile-{}.folded",
}
# A difference of two counts, so it may be negative: validity.py says what that means.
DIFFERENCE = "background_packets"
NUMBER = re.compile(r"[0-9]{1,16}")
COUNTER = re.compile(r"[0-9]{1,20}")  # of the kernel: 64 bits
Reader = Callable[[str], int | None]


# bpftrace prints a message a line; a map holds counts by cell and key.
MESSAGE = TypeAdapter(dict[str, Any])
STRICT = ConfigDict(strict=True)
COUNT = TypeAdapter[int](Count, config=STRICT)
COUNTS = TypeAdapter[dict[str, int]](dict[str, Count], config=STRICT)
CHANGES = TypeAdapter[dict[str, int]](dict[str, Change], config=STRICT)


class Entry(NamedTuple):
    """One entry of a map."""

    script: str
    cell: int
    quantity: str
    key: str
    value: int


class PassCounts(NamedTuple):
    """What one instrument's scripts counted in one pass over some cells."""

    instrument: str
    counts: tuple[Entry, ...]
    lost: dict[str, int]  # script -> events that it lost, over all cells of the pass


class Scripts(NamedTuple):
    """What all scripts of a target counted."""

    passes: tuple[PassCounts, ...]

    def of(self, cell: int, script: str) -> list[Entry]:
        """What a script counted in a cell run; functions that it watched in vain count 0."""
        entries = [c for part in self.passes for c in part.counts if c.script == script]
        own = [c for c in entries if c.cell == cell]
        called = {c.key for c in own if c.quantity == IMPLIED_ZERO}
        watched = dict.fromkeys(c.key for c in entries if c.quantity == IMPLIED_ZERO)
        zeros = [Entry(script, cell, IMPLIED_ZERO, key, 0) for key in watched if key not in called]
        return own + zeros

    def instrument(self, script: str) -> str:
        """The instrument that ran a script."""
        return next((part.instrument for part in self.passes if script in part.lost), MAPPING[0])

    def lost(self, cell: int, script: str) -> int:
        """Events that a script lost in the cell's pass; in all passes, if none knows the cell."""
        knowing = [part for part in self.passes if any(c.cell == cell for c in part.counts)]
        return sum(part.lost.get(script, 0) for part in knowing or self.passes)


def read_scripts(target: Target) -> Scripts:
    """The output of every script, pass by pass. Raises RunError."""
    folders = [(by, folder) for by in MAPPING for folder in sorted(target.path.glob(f"{by}/*"))]
    passes = tuple(_read_pass(target, by, folder) for by, folder in folders if folder.is_dir())
    left = {script for part in passes for script in part.lost} | target.given_up
    for cell in target.cells:
        for script in cell.scripts if cell.error is None else ():
            file = BY_CELL.get(script, f"*/*/{script}.json").format(cell.id)
            if script not in left and not (script in BY_CELL and any(target.path.glob(file))):
                raise damaged(target.path / file, f"it is missing, and cell {cell.id} ran it")
    return Scripts(passes)


def _read_pass(target: Target, instrument: str, folder: Path) -> PassCounts:
    entries: list[Entry] = []
    cells = {cell.id for cell in target.cells}
    lost: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        complaints = read_bytes(path.with_suffix(".stderr")).decode(errors="replace")
        # A full map counts as one lost event.
        lost[path.stem] = sum(int(match[1] or 1) for match in LOST.finditer(complaints))
        if not read_bytes(path).endswith(b"\n"):
            raise damaged(path, "its last line is not whole")
        for message in parse_lines(path, MESSAGE):
            kind, data = message.get("type"), message.get("data")
            if kind == "map":
                entries += _entries(path, data, cells)
            elif kind == "lost_events":
                events = data.get("events") if isinstance(data, dict) else data
                lost[path.stem] += check(f"{path}, lost_events", COUNT.validate_python, events)
            elif kind == "helper_error" and LOST.search(str(message)):
                lost[path.stem] += 1
    return PassCounts(instrument, tuple(entries), lost)


def _entries(path: Path, maps: object, cells: set[int]) -> Iterator[Entry]:
    """The entries of all maps but helpers, whose keys begin with the cell."""
    for name, values in check(path, MESSAGE.validate_python, maps).items():
        if name.startswith(HELPER):
            continue
        quantity = name.removeprefix("@")
        kind = CHANGES if quantity == DIFFERENCE else COUNTS
        for keys, value in check(f"{path}, {name}", kind.validate_python, values).items():
            number, _, key = keys.partition(",")
            if not NUMBER.fullmatch(number) or int(number) not in cells:
                raise damaged(path, f"{name}[{keys}] is of no cell of this run")
            yield Entry(path.stem, int(number), quantity, key, value)


def read_ftrace(target: Target, cell: Cell) -> dict[str, int]:
    """Function → calls over the window. Raises RunError."""
    path = target.path / "ftrace" / f"{cell.id}.tsv"
    lines = read_text(path).splitlines(keepends=True)
    calls: dict[str, int] = {}
    for number, line in enumerate(lines or [""], 1):
        function, _, count = line.partition("\t")
        if not function or not NUMBER.fullmatch(count.removesuffix("\n")) or line[-1] != "\n":
            raise damaged(f"{path}, line {number}", "it is not `function<TAB>calls`")
        calls[function] = calls.get(function, 0) + int(count)
    return calls


def read_samples(target: Target, cell: Cell) -> npt.NDArray[np.uint32]:
    """The times of a cell's round trips, or of its single messages, in nanoseconds."""
    path = target.path / "samples" / f"{cell.id}.u32"
    data = read_bytes(path)
    trips = cell.result.round_trips if cell.result else 0
    if cell.pattern == "stream":
        trips = cell.messages
    if len(data) != 4 * trips:
        raise damaged(path, f"it has {len(data)} bytes, and {trips} round trips make {4 * trips}")
    times = np.frombuffer(data, dtype="<u4")
    if not times.all():
        raise damaged(path, "a round trip took 0 ns")
    return times


def delta(pair: tuple[str, str] | None, read: Reader) -> int | None:
    """How much a counter grew over the window; None where the kernel does not have it."""
    if pair is None:
        return None
    before, after = read(pair[0]), read(pair[1])
    return None if before is None or after is None else after - before


def snmp(group: str, *fields: str) -> Reader:
    """The sum of fields of /proc/net/snmp or netstat: a line of names, then a line of values."""

    def read(text: str) -> int | None:
        rows = [words for head, words in _rows(text) if head == group]
        for names, values in zip(rows[::2], rows[1::2], strict=False):
            if set(fields) <= set(names) and len(names) == len(values):
                return _sum(values[names.index(field)] for field in fields)
        return None

    return read


def device(name: str, column: int) -> Reader:
    """A column of /proc/net/dev for one device; 8 is bytes sent, 9 packets sent."""
    return lambda text: next(
        (_sum(row[column : column + 1] or [""]) for head, row in _rows(text) if head == name), None
    )


def other_devices(name: str, column: int) -> Reader:
    """The sum of a column of /proc/net/dev over all devices but `name`; 0 without any."""
    return lambda text: _sum(
        "".join(row[column : column + 1]) for head, row in _rows(text) if head != name
    )


def softirq(vector: str) -> Reader:
    """The sum over all CPUs of a row of /proc/softirqs."""
    return lambda text: next((_sum(row) for head, row in _rows(text) if head == vector), None)


def _rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """The head of each line, before its colon, and the words behind it."""
    for line in text.splitlines():
        head, colon, rest = line.partition(":")
        if colon:
            yield head.strip(), rest.split()


def _sum(words: Iterable[str]) -> int | None:
    """The sum; None where a word is no whole number of the kernel's."""
    numbers = list(words)
    return sum(map(int, numbers)) if all(map(COUNTER.fullmatch, numbers)) else None
