# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of the workload's cells, on host and guests, computed again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.audit import validity, workload
from tests.audit.folder import Figure, Figures, Folder, Where, is_time, timed, unit
from tests.audit.probes import Count, Scripts, ftrace

# A field of a cell, and its usual value, which the conditions do not name.
USUAL = (("wait", "block"), ("sched", "other"), ("topology", "one"))


def figures(folder: Folder) -> Figures:
    """The rows of the tidy table that come from the cells of a target."""
    found: Figures = {}
    for target in folder.manifest["targets"]:
        raw = folder.raw / target["folder"]
        scripts = Scripts(raw)
        for cell in folder.lines(target["folder"], "cells.jsonl"):
            if cell["error"] is None:
                found.update(_cell(raw, target, scripts, cell))
    return found


def counts(
    raw: Path, target: dict[str, Any], scripts: Scripts, cell: dict[str, Any]
) -> Iterator[Count]:
    """All that was counted in a cell run, by whom."""
    yield from workload.counts(cell)
    yield from workload.machine(cell)
    if timed(target):
        yield from workload.times(raw, cell)
    yield from scripts.of(cell)
    yield from ftrace(raw, cell)


def _cell(raw: Path, target: dict[str, Any], scripts: Scripts, cell: dict[str, Any]) -> Figures:
    of_cell = [
        count
        for count in counts(raw, target, scripts, cell)
        if timed(target) or not is_time(count[1])
    ]
    valid = not any(validity.broken(cell, of_cell))
    found: Figures = {}
    for instrument, quantity, key, value in of_cell:
        where = Where(
            target["kind"], target["kernel"], instrument, cell["transport"], cell["pattern"],
            cell["size"], conditions(cell), cell["repeat"], cell["id"], bool(cell["instruments"]),
            quantity, key,
        )  # fmt: skip
        level = target["probe_level"]
        found[where] = Figure(value, unit(quantity), cell["messages"], level, valid)
    return found


def conditions(cell: dict[str, Any]) -> str:
    """The placement, and whatever is not usual: `cross-cpu+spin`."""
    words = [cell[name] for name, usual in USUAL if cell[name] != usual]
    if cell["in_flight"] not in (None, 8):
        words.append(f"{cell['in_flight']}-in-flight")
    return "+".join([cell["placement"], *words])
