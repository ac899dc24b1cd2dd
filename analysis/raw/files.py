# SPDX-License-Identifier: GPL-2.0-or-later
"""What instruments and the kernel wrote: maps, ftrace counts, round-trip times, texts of /proc."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter

from analysis.raw.cells import Cell
from analysis.raw.record import Change, Count, check, damaged, parse_lines, read_bytes, read_text
from analysis.raw.run import Target
from runners.cell import ONE_WAY

HELPER = "@helper"
# Instruments whose scripts leave maps as bpftrace prints them, in
# raw/<target>/<instrument>/<pass>/<script>.json.
MAPPING = ("bpftrace", "bcc", "perf")
# Scripts write a 0 for everything that they watch but functions, which appear once they are called.
IMPLIED_ZERO = "function_calls"
# bpftrace's message when its buffer overflows, and the message when a map is full.
LOST = re.compile(r"\b[Ll]ost ([0-9]{1,15}) events|\b(?:[Mm]ap full|map_update_elem)")
# Scripts that leave a file of their own for each cell, and where.
BY_CELL = {"functions": "ftrace/{}.tsv", "profile": "perf/*/profile-{}.folded"}
# A difference of two counts, so it may be negative: validity.py says what that means.
DIFFERENCE = "background_packets"
NUMBER = re.compile(r"[0-9]{1,16}")
COUNTER = re.compile(r"-?[0-9]{1,20}")  # of the kernel: 64 bits
# Quantity and key → value.
CountByKey = dict[tuple[str, str], int]

# bpftrace prints a message a line; a map holds counts by cell and key.
MESSAGE = TypeAdapter(dict[str, Any])
STRICT = ConfigDict(strict=True)
COUNT = TypeAdapter[int](Count, config=STRICT)
COUNT_MAP = TypeAdapter[dict[str, int]](dict[str, Count], config=STRICT)
CHANGES = TypeAdapter[dict[str, int]](dict[str, Change], config=STRICT)


class Scripts:
    """What all scripts of a target counted."""

    def __init__(self) -> None:
        self.instruments: dict[str, str] = {}  # script → the instrument that ran it
        self.counts: dict[tuple[str, int], CountByKey] = defaultdict(dict)  # by script and cell
        self.watched: dict[str, CountByKey] = defaultdict(dict)  # script → its functions, each 0
        # Of each pass over some cells: these, and the events that each script lost over all of them
        self.passes: list[tuple[set[int], dict[str, int]]] = []

    def of(self, cell: int, script: str) -> CountByKey:
        """What a script counted in a cell run; functions that it watched in vain count 0."""
        own = self.counts.get((script, cell), {})
        return own | {name: 0 for name in self.watched[script] if name not in own}

    def lost(self, cell: int, script: str) -> int:
        """Events that a script lost in the cell's pass; in all passes, if none knows the cell."""
        own = [lost for cells, lost in self.passes if cell in cells]
        return sum(lost.get(script, 0) for lost in own or (lost for _, lost in self.passes))


def read_scripts(target: Target) -> Scripts:
    """The output of every script, pass by pass. Raises RunError."""
    scripts = Scripts()
    for instrument in MAPPING:
        for folder in sorted(target.path.glob(f"{instrument}/*/")):
            _read_pass(scripts, target, instrument, folder)
    left = scripts.instruments.keys() | target.given_up
    for cell in target.cells:
        for script in cell.scripts if cell.error is None else ():
            file = BY_CELL.get(script, f"*/*/{script}.json").format(cell.id)
            if script not in left and not (script in BY_CELL and any(target.path.glob(file))):
                raise damaged(target.path / file, f"it is missing, and cell {cell.id} ran it")
    return scripts


def _read_pass(scripts: Scripts, target: Target, instrument: str, folder: Path) -> None:
    known, cells, lost = {cell.id for cell in target.cells}, set[int](), dict[str, int]()
    for path in sorted(folder.glob("*.json")):
        scripts.instruments.setdefault(path.stem, instrument)
        complaints = read_bytes(path.with_suffix(".stderr")).decode(errors="replace")
        # A full map counts as one lost event.
        lost[path.stem] = sum(int(match[1] or 1) for match in LOST.finditer(complaints))
        if not read_bytes(path).endswith(b"\n"):
            raise damaged(path, "its last line is not whole")
        for message in parse_lines(path, MESSAGE):
            kind, data = message.get("type"), message.get("data")
            if kind == "map":
                for cell, name, value in _entries(path, data, known):
                    cells.add(cell)
                    scripts.counts[path.stem, cell][name] = value
                    if name[0] == IMPLIED_ZERO:
                        scripts.watched[path.stem][name] = 0
            elif kind == "lost_events":
                events = data.get("events") if isinstance(data, dict) else data
                lost[path.stem] += check(f"{path}, lost_events", COUNT.validate_python, events)
            elif kind == "helper_error" and LOST.search(str(message)):
                lost[path.stem] += 1
    scripts.passes.append((cells, lost))


def _entries(path: Path, maps: object, cells: set[int]) -> Iterator[tuple[int, Any, int]]:
    """Cell, name and value of all entries of all maps but helpers; keys begin with the cell."""
    for name, values in check(path, MESSAGE.validate_python, maps).items():
        if name.startswith(HELPER):
            continue
        quantity = name.removeprefix("@")
        kind = CHANGES if quantity == DIFFERENCE else COUNT_MAP
        for keys, value in check(f"{path}, {name}", kind.validate_python, values).items():
            number, _, key = keys.partition(",")
            if not NUMBER.fullmatch(number) or int(number) not in cells:
                raise damaged(path, f"{name}[{keys}] is of no cell of this run")
            yield int(number), (quantity, key), value


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
    if cell.pattern in ONE_WAY:
        trips = cell.messages
    if len(data) != 4 * trips:
        raise damaged(path, f"it has {len(data)} bytes, and {trips} round trips make {4 * trips}")
    times = np.frombuffer(data, dtype="<u4")
    if not times.all():
        raise damaged(path, "a round trip took 0 ns")
    return times


def proc_counters(text: str) -> dict[str, int]:
    """The counters of a text of /proc: `Tcp.OutSegs`; `lo.9`, a column; `NET_RX`, a row's sum."""
    counters: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        head, _, rest = line.partition(":")
        head, words = head.strip(), rest.split()
        if not all(map(COUNTER.fullmatch, words)):
            names[head] = words  # of snmp and netstat, whose values follow
            continue
        numbers = list(map(int, words))
        keys = names.get(head, range(len(numbers)))
        counters |= {f"{head}.{key}": n for key, n in zip(keys, numbers, strict=False)}
        counters[head] = sum(numbers)
    return counters
