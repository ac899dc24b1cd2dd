# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that instruments wrote beside a target's cells: maps, ftrace counts, round-trip times."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from analysis.errors import RunError
from analysis.raw.cells import Cell
from analysis.raw.record import AGAIN, EXACT_IN_JSON, parse_lines, read_bytes, read_text
from analysis.raw.run import Target
from probes.messages import shown

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
MESSAGE = TypeAdapter(dict[str, Any])  # a line of what bpftrace prints


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
    found = tuple(_read_pass(target, by, folder) for by, folder in folders if folder.is_dir())
    _check_files(target, {script for part in found for script in part.lost})
    return Scripts(found)


def _check_files(target: Target, found: set[str]) -> None:
    """Raise RunError where a script that a cell names left no file, and gave no reason."""
    for cell in target.cells:
        for script in cell.scripts if cell.error is None else ():
            file = BY_CELL.get(script, f"*/*/{script}.json").format(cell.id)
            there = any(target.path.glob(file)) if script in BY_CELL else script in found
            if not there and script not in target.given_up:
                raise RunError(
                    f"raw/{target.folder} holds no {Path(file).name}, and cell {cell.id} ran under "
                    f"{script}: its counts are lost. {AGAIN}"
                )


def _read_pass(target: Target, instrument: str, folder: Path) -> PassCounts:
    counts: list[Count] = []
    cells = {cell.id for cell in target.cells}
    lost: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        name = f"raw/{target.folder}/{instrument}/{folder.name}/{path.name}"
        said = read_bytes(
            path.with_suffix(".stderr"),
            name.replace(".json", ".stderr"),
            "nothing says how many events were lost",
        ).decode(errors="replace")
        # A full map counts as one lost event.
        lost[path.stem] = sum(int(found[1] or 1) for found in LOST.finditer(said))
        for kind, message in _messages(path, name):
            data = message.get("data")
            if kind == "map":
                counts += _counts(path.stem, data, name, cells)
            elif kind == "lost_events":
                events = data.get("events") if isinstance(data, dict) else data
                lost[path.stem] += _whole(events, f"{name}: lost_events")
            elif kind == "helper_error" and LOST.search(str(message)):
                lost[path.stem] += 1
    return PassCounts(instrument, tuple(counts), lost)


def _messages(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Type and message of each line of JSON."""
    breaks = "its writer did not finish, and its counts cannot be trusted"
    if not read_bytes(path, name, breaks).endswith(b"\n"):
        raise RunError(f"{name} is cut off or damaged: {breaks}. {AGAIN}")
    for message in parse_lines(path, name, MESSAGE, breaks):
        yield str(message.get("type")), message


def _counts(script: str, data: object, name: str, cells: set[int]) -> Iterator[Count]:
    for map_name, entries in _object(data, name).items():
        if map_name.startswith(HELPER):
            continue
        quantity = map_name.removeprefix("@")
        for keys, value in _object(entries, f"{name}: {shown(map_name)}").items():
            number, _, key = keys.partition(",")
            what = f"{name}: {shown(f'{map_name}[{keys}]')}"
            if not NUMBER.fullmatch(number) or int(number) not in cells:
                raise RunError(
                    f"{what} is of no cell of this run. Name helper maps {HELPER}…, and key all "
                    f"others [cell, key], or the file is damaged. {AGAIN}"
                )
            least = -EXACT_IN_JSON if quantity == DIFFERENCE else 0
            yield Count(script, int(number), quantity, key, _whole(value, what, least))


def _object(data: object, name: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise RunError(f"{name} is {shown(data)}, and should be an object of cells. {AGAIN}")
    return data


def _whole(value: object, name: str, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise RunError(f"{name} is {shown(value)}, and should be a whole number. {AGAIN}")
    if not least <= value <= EXACT_IN_JSON:
        raise RunError(
            f"{name} is {shown(value)}, and a count lies between {least} and {EXACT_IN_JSON}. "
            f"{AGAIN}"
        )
    return value


def read_ftrace(target: Target, cell: Cell) -> dict[str, int]:
    """Function → calls over the window."""
    path = target.path / "ftrace" / f"{cell.id}.tsv"
    name = f"raw/{target.folder}/ftrace/{path.name}"
    text = read_text(path, name, "its function counts are lost")
    if not text:
        raise RunError(f"{name} is empty: its function counts are lost. {AGAIN}")
    calls: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        function, tab, count = line.rstrip("\n").partition("\t")
        whole = line.endswith("\n") and function and tab and NUMBER.fullmatch(count)
        if not whole or int(count) > EXACT_IN_JSON:
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
    times = np.frombuffer(data, dtype="<u4")
    if not times.all():
        raise RunError(f"{name} has a round trip of 0 ns, and none takes no time. {AGAIN}")
    return times
