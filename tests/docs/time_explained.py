# SPDX-License-Identifier: GPL-2.0-or-later
"""The blind table of docs/time-explained.md: times told from exact counts, then measured.

    python -m tests.docs.time_explained FOLDER             # all of these:
    python -m tests.docs.time_explained FOLDER count price predict measure judge

`count` has exact mode count every transport, and the cells that have the prices of events (5 to 15
minutes). `price` times the latter anew on this machine (4 s). `predict` writes predictions.tsv and
prints its digest. `measure` times what was predicted (two minutes). `judge` compares, and writes
judged.tsv. `price` and `measure` want a machine without other work.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from analysis.paths.cells import ExactCell, read_exact
from analysis.raw.programs import PriceList
from analysis.raw.record import read_object
from analysis.raw.run import read_run
from analysis.times.events import INSTRUCTIONS, TOLD_TIMES, MachinePrices, events_of, fitted
from probes.contract import PRICES
from runners.process import REPOSITORY, RunError
from runners.programs.experiments import interleaved
from runners.programs.prices import (
    EVENT_TRANSPORTS,
    WITHOUT_KERNEL,
    Priced,
    cpu_us,
    keep_events,
    of_events,
)
from runners.store.folders import invoker

SIZES = {64: 2000, 4096: 2000, 65536: 600}  # → messages
REPEATS = 9
PREDICTIONS, MEASURED = "predictions.tsv", "measured.json"
JUDGED, SUMMARY = "judged.tsv", "summary.tsv"
FIGURES = ("median_ns", "cpu_ns", "switches")
RULES = ("instructions", "mean")  # naive ones: instructions alone, the mean of all
UNEXPLAINED = 0.15
NAMES = ("transport", "pattern", "size", "placement")
KEYS = ["time", "transport", "size"]
Row = dict[str, Any]


def count(folder: Path) -> None:
    """Count the events of all that will be predicted, and of the cells that have the prices."""
    words = ["exact", "--priced", "--sched=other", "--quiet", "--transports=all"]
    words += [f"--sizes={','.join(map(str, SIZES))}", f"--out={folder / 'exact'}"]
    subprocess.run([str(REPOSITORY / "runners/run.sh"), *words], check=True)
    (folder / PRICES).write_bytes((invoker().cache / PRICES).read_bytes())


def price(folder: Path) -> None:
    """Time the cells that have the prices anew; what was counted of them stays."""
    cache = invoker().cache
    before = json.loads((folder / PRICES).read_text(encoding="utf-8"))
    events = {
        tuple(cell[name] for name in NAMES): cell["events"]
        for cell in before["cells"]
        if cell.get("events")
    }
    (cache / PRICES).unlink(missing_ok=True)
    keep_events(cache, of_events(cache, print), before["kernel"], events)
    (folder / PRICES).write_bytes((cache / PRICES).read_bytes())


def predict(folder: Path) -> None:
    """Predict, before any of the predicted cells is timed."""
    listed = read_object(folder / PRICES, PriceList)
    cells = read_exact(read_run(folder / "exact"))
    table = pd.DataFrame(rows(cells, listed)).sort_values(KEYS)
    table.to_csv(folder / PREDICTIONS, sep="\t", index=False, float_format="%.1f")
    digest = hashlib.sha256((folder / PREDICTIONS).read_bytes()).hexdigest()
    print(f"{len(table)} predictions; sha256 {digest}")


def rows(cells: tuple[ExactCell, ...], listed: PriceList) -> Iterator[Row]:
    """A row for each time of each valid cell; those of transports that have prices come too."""
    machine = MachinePrices(listed)
    for name, told in TOLD_TIMES.items():
        known = machine.cells[name]
        alone = fitted(known, (INSTRUCTIONS,))
        for cell in cells:
            events = events_of(cell.events, told)
            if cell.broken or cell.placement != told.placement or not events:
                continue
            time = machine.tell(name, events)
            yield {
                "time": name,
                "transport": cell.transport,
                "size": cell.size,
                "prices": cell.transport in (*EVENT_TRANSPORTS, WITHOUT_KERNEL),
                "told_ns": time.value,
                "low_ns": time.low,
                "high_ns": time.high,
                "instructions_ns": alone.tell(events).value,
                "mean_ns": sum(ns for _, ns in known) / len(known),
                **events,
            }


def measure(folder: Path) -> None:
    """Time each cell that was predicted, interleaved."""
    table = pd.read_csv(folder / PREDICTIONS, sep="\t")
    places = {name: told.placement for name, told in TOLD_TIMES.items()}
    wanted = {
        (row["transport"], row["size"], places[row["time"]]) for row in table.to_dict("records")
    }
    cells = [
        Priced(name, "pingpong", size, place, SIZES[size]) for name, size, place in sorted(wanted)
    ]
    found: dict[Priced, Row] = {}
    for repeat, cell in interleaved(cells, REPEATS):
        print(f"\r{repeat + 1}/{REPEATS} {cell.transport:16}", end="", file=sys.stderr)
        entry = found.setdefault(
            cell, {**cell.names, "median_ns": [], "cpu_ns": [], "switches": []}
        )
        if "refused" in entry:
            continue
        try:
            result, times = cell.run()
        except RunError as error:
            entry["refused"] = str(error)
            continue
        sides = [result[side] for side in ("client", "server")]
        used = [side["rusage"] for side in sides]
        entry["median_ns"].append(median(times))
        entry["cpu_ns"].append(1000 * sum(map(cpu_us, sides)) / result["round_trips"])
        switches = sum(each["voluntary"] + each["involuntary"] for each in used)
        entry["switches"].append(switches / result["round_trips"])
    print(file=sys.stderr)
    (folder / MEASURED).write_text(json.dumps(list(found.values()), indent=1) + "\n")


def judge(folder: Path) -> None:
    """Write the table of predictions beside what was measured, and print what it comes to."""
    table = pd.read_csv(folder / PREDICTIONS, sep="\t")
    times = {}
    for cell in json.loads((folder / MEASURED).read_text(encoding="utf-8")):
        if "refused" not in cell:
            for name, told in TOLD_TIMES.items():
                if told.placement == cell["placement"]:
                    which = "cpu_ns" if told.kind == "busy" else "median_ns"
                    key = name, cell["transport"], cell["size"]
                    times[key] = min(cell[which]), median(cell["switches"])
    found = [times.get(tuple(row), (None, None)) for row in table[KEYS].to_numpy()]
    table["measured_ns"], table["measured_switches"] = zip(*found, strict=True)
    table = table.dropna(subset="measured_ns")
    table["error"] = table["told_ns"] / table["measured_ns"] - 1
    table["inside"] = table["measured_ns"].between(table["low_ns"], table["high_ns"])
    for rule in RULES:
        table[f"{rule}_error"] = table[f"{rule}_ns"] / table["measured_ns"] - 1
    table.round(4).to_csv(folder / JUDGED, sep="\t", index=False)
    blind = table[~table["prices"]]
    summary = [summed(name, blind[blind["time"] == name]) for name in TOLD_TIMES]
    pd.DataFrame(summary).to_csv(folder / SUMMARY, sep="\t", index=False, float_format="%.1f")
    print(pd.DataFrame(summary).round(1).to_string(index=False))
    for row in blind[blind["error"].abs() > UNEXPLAINED].to_dict("records"):
        told, measured = row["told_ns"] / 1000, row["measured_ns"] / 1000
        print(
            f"  {row['time']}, {row['transport']} {row['size']} B: told {told:.1f} µs, measured "
            f"{measured:.1f} ({100 * row['error']:+.0f} %); switches: {row['switches']:.0f} "
            f"counted, {row['measured_switches']:.2f} measured"
        )


def summed(name: str, cells: pd.DataFrame) -> Row:
    """Percents of one kind of time: median errors, and how many lie inside their intervals."""
    errors = {"median": "error"} | {rule: f"{rule}_error" for rule in RULES}
    medians = {rule: 100 * cells[column].abs().median() for rule, column in errors.items()}
    inside = 100 * cells["inside"].mean()
    return {"time": name, "cells": len(cells), **medians, "inside": inside}


STAGES: dict[str, Callable[[Path], None]] = {
    "count": count,
    "price": price,
    "predict": predict,
    "measure": measure,
    "judge": judge,
}


def main(words: list[str]) -> None:
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for stage in words[1:] or STAGES:
        STAGES[stage](folder)


if __name__ == "__main__":
    main(sys.argv[1:])
