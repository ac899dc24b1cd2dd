"""What instruments wrote beside a lane's cells: bpftrace maps, ftrace counts, round-trip times."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.errors import RunError
from analysis.raw import Cell, Lane
from analysis.record import AGAIN, read_text

HELPER = "@helper"
# Both what bpftrace says when its buffer overflows and what it says when a map is full.
LOST = re.compile(r"\b[Ll]ost (\d+) events|\b(?:[Mm]ap full|map_update_elem)")


@dataclass(frozen=True)
class Count:
    """One entry of a bpftrace map."""

    script: str
    cell: int
    quantity: str
    key: str
    value: int


@dataclass(frozen=True)
class Script:
    """What one bpftrace script left behind in one lane."""

    name: str
    counts: tuple[Count, ...]
    lost: int  # events, over all cells that it watched


def read_scripts(lane: Lane) -> tuple[Script, ...]:
    """Every script's output, by name."""
    return tuple(_read_script(lane, path) for path in sorted(lane.path.glob("bpftrace/*.json")))


def _read_script(lane: Lane, path: Path) -> Script:
    name = f"raw/{lane.folder}/bpftrace/{path.name}"
    text = read_text(path, name, "its counts are lost")
    if text and not text.endswith("\n"):
        raise _cut_off(name)
    counts: list[Count] = []
    lost = _lost_in(path.with_suffix(".stderr"))
    for line in text.splitlines():
        if not line.strip():
            continue
        kind, data = _message(line, name)
        if kind == "map":
            counts.extend(_counts(path.stem, data, name))
        elif kind == "lost_events":
            lost += int(data.get("events", 0))
    return Script(path.stem, tuple(counts), lost)


def _cut_off(name: str) -> RunError:
    return RunError(
        f"{name} is cut off or damaged: bpftrace did not finish writing it, and its counts cannot "
        f"be trusted. {AGAIN}"
    )


def _message(line: str, name: str) -> tuple[str, dict[str, Any]]:
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        raise _cut_off(name) from None
    if not isinstance(message, dict):
        raise _cut_off(name)
    data = message.get("data")
    return str(message.get("type")), data if isinstance(data, dict) else {}


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


def _lost_in(stderr: Path) -> int:
    """Events that bpftrace says it lost; a full map counts as one at least."""
    if not stderr.exists():
        return 0
    text = stderr.read_text(encoding="utf-8", errors="replace")
    return sum(int(found.group(1) or 1) for found in LOST.finditer(text))


def read_ftrace(lane: Lane, cell: Cell) -> dict[str, int] | None:
    """Function → calls over the window; None when the file is not there."""
    path = lane.path / "ftrace" / f"{cell.id}.tsv"
    if not path.exists():
        return None
    name = f"raw/{lane.folder}/ftrace/{path.name}"
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


def read_samples(lane: Lane, cell: Cell) -> npt.NDArray[np.uint32]:
    """The round-trip times of an unprobed cell, in nanoseconds."""
    path = lane.path / "samples" / f"{cell.id}.u32"
    name = f"raw/{lane.folder}/samples/{path.name}"
    try:
        data = path.read_bytes()
    except OSError:
        raise RunError(f"{name} cannot be read: cell {cell.id} has no times. {AGAIN}") from None
    trips = cell.result.round_trips if cell.result else 0
    if len(data) != 4 * trips:
        raise RunError(
            f"{name} holds {len(data)} bytes, and {trips} round trips make {4 * trips}: the file "
            f"was cut off or damaged, and percentiles of it would be wrong. {AGAIN}"
        )
    return np.frombuffer(data, dtype="<u4")
