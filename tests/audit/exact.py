# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode: the steady round trip's call tree, added up again, and what must be conserved."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.audit.folder import Figure, Figures, Folder, Where

LAYERS = Path(__file__).parents[2] / "probes/functions.tsv"
# What a compiler adds to a function's name: `.isra.0`, `.constprop.0.cold`.
SUFFIX = re.compile(r"(\.(isra|part|constprop|cold|llvm)(\.\d+)?)+$")
TRIP = 2  # messages of a round trip


class Call(NamedTuple):
    """A line of tree/<id>.tsv: a call path, without what it calls."""

    names: tuple[str, ...]
    calls: int
    steps: int
    instructions: int


def tree(raw: Path, cell: int) -> list[Call]:
    """The call tree of a cell's steady round trip."""
    lines = (raw / "tree" / f"{cell}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return [Call(tuple(path.split(";")), *map(int, numbers)) for path, *numbers in rows]


@cache
def _patterns() -> list[tuple[int, re.Pattern[str], str]]:
    """Weight, pattern and layer: the heaviest fits best, and of equals the first in the table."""
    lines = LAYERS.read_text(encoding="utf-8").splitlines()
    rows = csv.reader([line for line in lines if not line.startswith("#")][1:], delimiter="\t")
    found = []
    for pattern, layer, *_ in rows:
        if not layer:
            continue
        text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
        found.append((len(pattern.replace("*", "")), re.compile(text), layer))
    return sorted(found, key=lambda row: -row[0])


@cache
def _own_layer(function: str) -> str:
    name = SUFFIX.sub("", function)
    return next((of for _, fits, of in _patterns() if fits.fullmatch(name)), "unclassified")


def layer(path: tuple[str, ...]) -> str:
    """The layer of a path's last function; a helper takes its caller's."""
    for name in reversed(path[1:]):
        if (found := _own_layer(name)) != "caller":
            return found
    return "unclassified"


def _alone(function: str) -> str:
    """The layer of a function whose caller is not known."""
    found = _own_layer(function)
    return "helpers" if found == "caller" else found


def figures(folder: Folder) -> Figures:
    """The rows of the tidy table whose instrument is `exact`."""
    found: Figures = {}
    for entry in folder.manifest.get("exact", []):
        for cell in folder.lines(entry["folder"], "cells.jsonl"):
            if cell["error"] is None:
                found.update(_cell(folder.raw / entry["folder"], entry["kernel"], cell))
    return found


def _cell(raw: Path, kernel: str, cell: dict[str, Any]) -> Iterator[tuple[Where, Figure]]:
    knob = f"+{cell['knob']['name']}" if cell["knob"] else ""
    fifo = "+fifo" if cell.get("sched", cell.get("scheduling")) == "fifo" else ""
    valid = not invalid(raw, cell)

    def row(quantity: str, key: str, value: float, unit: str, messages: int, holds: bool) -> Any:
        where = Where(
            "exact", kernel, "exact", cell["transport"], cell["pattern"],
            cell["size"], cell["placement"] + fifo + knob, 0, cell["id"], False, quantity, key,
        )  # fmt: skip
        return where, Figure(value, unit, messages, "function", holds)

    for (quantity, key), value in _sums(tree(raw, cell["id"])).items():
        yield row(quantity, key, value, "count", TRIP, valid)
    share = cell["shapes"][0]["identical"] / cell["iterations"] if cell["shapes"] else 0
    yield row("steady_share", "", share, "count", TRIP, valid)
    window = cell["window"]["instructions"]
    yield row("instructions", "total", window, "count", cell["messages"], valid)
    for of, events in (cell.get("events") or {}).items():
        for event, count in events.items():
            yield row(f"{of}_events", event, count, "count", TRIP, valid)
    if payload := cell.get("payload"):
        messages = payload["messages"]
        for way, size in payload["copied"].items():
            yield row("copy_bytes", way, size, "bytes", messages, payload["valid"])
        for way in ("loaded", "stored"):
            sums: Counter[str] = Counter()
            for function, size in payload[way].items():
                sums[way] += size
                sums[f"{way} layer:{_alone(function)}"] += size
            for key, size in sums.items():
                yield row("memory_bytes", key, size, "bytes", messages, valid)


def _sums(paths: list[Call]) -> dict[tuple[str, str], int]:
    """Instructions by function and layer, calls by function, and steps."""
    sums: Counter[tuple[str, str]] = Counter()
    for path in paths:
        for key in ("steady", f"layer:{layer(path.names)}", path.names[-1]):
            sums["instructions", key] += path.instructions
        sums["steps", "total"] += path.steps
        sums["function_calls", path.names[-1]] += path.calls
    return {name: value for name, value in sums.items() if value or name[0] != "function_calls"}


def iteration(raw: Path, cell: int) -> tuple[str, list[tuple[int, int]]]:
    """What it counts (`instructions`; older runs: `steps`); line of the tree and count of each
    stretch of the round trip, none where the run kept no order."""
    path = raw / "iteration" / f"{cell}.tsv"
    if not path.exists():
        return "steps", []
    head, *lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return head[-1], [(int(line), int(count)) for _, line, count in lines]


def invalid(raw: Path, cell: dict[str, Any]) -> list[str]:
    """Why no verdict may use an exact cell: one clause each."""
    found = [f"{check['name']}: {check['detail']}" for check in cell["checks"] if not check["ok"]]
    steady = cell["shapes"][0] if cell["shapes"] else {}
    for what in ("steps", "instructions"):
        if sum(getattr(path, what) for path in tree(raw, cell["id"])) != steady.get(what):
            found.append(f"its tree does not sum to the steady round trip's {what}")
    unit, order = iteration(raw, cell["id"])
    if order and sum(count for _, count in order) != steady.get(unit):
        found.append("its iteration does not sum to the steady round trip")
    return found
