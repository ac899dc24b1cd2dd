# SPDX-License-Identifier: GPL-2.0-or-later
"""The blind table of docs/time-explained.md: times told from exact counts, then measured.

    python -m tests.docs.time_explained FOLDER             # all of these:
    python -m tests.docs.time_explained FOLDER count switches measure predict judge

`count` has exact mode count every transport, and the cells that have the prices of events (5 to 30
minutes), in a memory control group if this machine's processes are in one. `switches` runs what
will be judged, and keeps its switches alone. `measure` times it and the cells that have the prices,
in turn, and keeps either for itself (two minutes). `predict` reads the prices' alone: it writes
predictions.tsv, and prints its digest. `judge` compares, and writes judged.tsv. `measure` wants a
machine without other work.

    python -m tests.docs.time_explained FOLDER cold    # TCP's extra time after other code
    python -m tests.docs.time_explained ratios         # analysis/times/blind.tsv, from stored runs
"""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from analysis.paths.cells import read_exact
from analysis.raw.programs import PriceList
from analysis.raw.record import read_object
from analysis.raw.run import read_run
from analysis.times.events import (
    BLIND,
    INSTRUCTIONS,
    TOLD_TIMES,
    MachinePrices,
    ToldTime,
    fitted,
)
from probes.contract import PRICES
from probes.transports import read_transports
from runners.cli import parse
from runners.exact.cells import impossible
from runners.exact.priced import Named, cell_runs, count_events
from runners.guest.store import read_json, write_json
from runners.host.session import Session
from runners.options import ExactOptions
from runners.process import REPOSITORY, RunError
from runners.programs.experiments import interleaved
from runners.programs.prices import (
    EVENT_TRANSPORTS,
    WITHOUT_KERNEL,
    Priced,
    cpu_us,
    empty_list,
    event_cells,
    knob_of,
)

SIZES = {64: 2000, 4096: 2000, 65536: 600}  # → messages
LARGE = 65536  # on one CPU, where the fair scheduler may cut a message in pieces: counted twice
REPEATS, SWITCHES_REPEATS = 15, 3
COUNTED, SWITCHES = "events.json", "switches.json"
PREDICTIONS, MEASURED = "predictions.tsv", "measured.json"
JUDGED, SUMMARY = "judged.tsv", "summary.tsv"
RULES = ("instructions", "mean")  # naive ones: instructions alone, the mean of all
COLD_TRANSPORTS = ("pipe", "udp", "shm", "unix", "unix-dgram", "mq", "tcp")
UNEXPLAINED = 0.15
STORED = REPOSITORY / "reports/reference/time-explained/judged.tsv"
EARLIER = (2, 3)  # of its runs: those that took least repeats, before the intervals were of these
NINE_IN_TEN = [0.05, 0.95]
KEYS = ["time", "transport", "size"]
Row = dict[str, Any]


def count(folder: Path) -> None:
    """Count the events of all that will be predicted, and of the cells that have the prices.

    What the folder has of them stays.
    """
    options = parse(["exact", "--quiet"])
    assert isinstance(options, ExactOptions)
    session = Session(options)
    session.set_up_step("--exact")
    found = read_json(folder / COUNTED) or {"knob": knob_of(empty_list()), "cells": []}
    for scheduler, wanted in pieces():
        if wanted[0]._asdict() | {"scheduler": scheduler} in [
            {name: cell[name] for name in (*Named._fields, "scheduler")} for cell in found["cells"]
        ]:
            continue
        found["kernel"], events = count_events(session, wanted, scheduler, found["knob"])
        for cell, counts in events.items():
            found["cells"].append(cell._asdict() | {"scheduler": scheduler, "events": counts})
        write_json(folder / COUNTED, found)


def pieces() -> Iterator[tuple[str, list[Named]]]:
    """Yield what is counted together, and its scheduler."""
    for placement in ("same-cpu", "cross-cpu"):
        prices = [cell for cell in event_cells() if cell.placement == placement]
        yield "other", [Named(*cell.names.values()) for cell in prices]
        judged = [Named(*cell.names.values()) for cell in judged_cells(placement)]
        yield "other", judged
        if placement == "same-cpu":
            yield "fifo", [cell for cell in judged if cell.size == LARGE]


def judged_cells(placement: str) -> list[Priced]:
    """All that can be told and has no prices itself."""
    cells = []
    for size, messages in SIZES.items():
        for transport in read_transports():
            named = Named(transport, "pingpong", size, placement)
            (run,) = cell_runs([named], "other", "")
            if transport not in (*EVENT_TRANSPORTS, WITHOUT_KERNEL) and not impossible(run.cell):
                cells.append(Priced(*named, messages))
    return cells


def named(cell: Row) -> Named:
    return Named(*(cell[name] for name in Named._fields))


def switches(folder: Path) -> None:
    """Find how often each cell switches here: the times of these runs are not kept."""
    found = run_all(cells_here(folder), SWITCHES_REPEATS, lambda cell: figures(cell, "switches"))
    write_json(folder / SWITCHES, list(found.values()))


def measure(folder: Path) -> None:
    """Time what is judged and the cells that have the prices, in turn; each in a file of its own.

    A virtual machine may run a quarter slower for minutes, and prices of another minute are then
    wrong by as much. Nothing looks at the judged times before `judge`.
    """
    counted = read_json(folder / COUNTED)
    judged, prices = cells_here(folder), list(event_cells())
    found = run_all(
        spread(judged, prices),
        REPEATS,
        lambda cell: cell.figures() if cell in prices else figures(cell),
    )
    listed = empty_list() | {"kernel": counted["kernel"], "cells": [found[cell] for cell in prices]}
    for cell in listed["cells"]:
        cell["events"] = next(
            one["events"]
            for one in counted["cells"]
            if one["scheduler"] == "other" and named(one) == named(cell)
        )
    write_json(folder / PRICES, listed)
    write_json(folder / MEASURED, [found[cell] for cell in judged if cell in found])


def spread(*groups: list[Priced]) -> list[Priced]:
    """All cells, those of each group evenly among the others."""
    placed = [(at / len(group), cell) for group in groups for at, cell in enumerate(group)]
    return [cell for _, cell in sorted(placed, key=lambda each: each[0])]


def cells_here(folder: Path) -> list[Priced]:
    """What was counted and is judged."""
    counted = {named(cell) for cell in read_json(folder / COUNTED)["cells"]}
    return [
        cell
        for placement in ("same-cpu", "cross-cpu")
        for cell in judged_cells(placement)
        if Named(*cell.names.values()) in counted
    ]


def run_all(
    cells: list[Priced], repeats: int, figures_of: Callable[[Priced], dict[str, float]]
) -> dict[Priced, Row]:
    """Run each cell in turn: a list of each figure. What does not run here is left out."""
    found: dict[Priced, Row] = {cell: cell.names | {"cold": cell.cold} for cell in cells}
    for repeat, cell in interleaved(cells, repeats):
        print(f"\r{repeat + 1}/{repeats} {cell.transport:16}", end="", file=sys.stderr)
        if cell not in found:
            continue
        try:
            seen = figures_of(cell)
        except RunError:
            del found[cell]
            continue
        for name, value in seen.items():
            found[cell].setdefault(name, []).append(value)
    print(file=sys.stderr)
    return found


def figures(cell: Priced, *names: str) -> dict[str, float]:
    """Run a cell that is judged: these figures of it, or all. Raises RunError."""
    result, times = cell.run()
    sides = [result[side] for side in ("client", "server")]
    used = [side["rusage"] for side in sides]
    rounds = result["round_trips"]
    seen = {
        "median_ns": median(times),
        "cpu_ns": 1000 * sum(map(cpu_us, sides)) / rounds,
        "switches": sum(each["voluntary"] + each["involuntary"] for each in used) / rounds,
    }
    return {name: seen[name] for name in names or seen}


def predict(folder: Path) -> None:
    """Predict from counts, prices and switches alone: no judged time is looked at."""
    table = pd.DataFrame(rows(folder)).sort_values(KEYS)
    table.to_csv(folder / PREDICTIONS, sep="\t", index=False, float_format="%.1f")
    digest = hashlib.sha256((folder / PREDICTIONS).read_bytes()).hexdigest()
    print(f"{len(table)} predictions; sha256 {digest}")


def rows(folder: Path) -> Iterator[Row]:
    """A row for each time of each cell that was counted, and runs here."""
    machine = MachinePrices(read_object(folder / PRICES, PriceList))
    here = {named(cell): median(cell["switches"]) for cell in read_json(folder / SWITCHES)}
    counted: dict[Named, list[Row]] = {}
    for cell in read_json(folder / COUNTED)["cells"]:
        counted.setdefault(named(cell), []).append(cell)
    for name, told in TOLD_TIMES.items():
        known = machine.cells[name]
        alone = fitted(known, (INSTRUCTIONS,))
        for cell, switched in here.items():
            if cell.placement != told.placement or cell not in counted:
                continue
            scheduler, events = nearest(counted[cell], told, switched)
            time = machine.tell(name, events)
            yield {
                "time": name,
                "transport": cell.transport,
                "size": cell.size,
                "scheduler": scheduler,
                "told_ns": time.value,
                "low_ns": time.low,
                "high_ns": time.high,
                "instructions_ns": alone.tell(events).value,
                "mean_ns": sum(ns for _, ns in known) / len(known),
                **events,
            }


def nearest(counted: list[Row], told: ToldTime, switched: float) -> tuple[str, dict[str, int]]:
    """The scheduler under which the emulated path switches as often as here, and its events."""
    cell = min(
        counted, key=lambda cell: abs(cell["events"][told.kind].get("switches", 0) - switched)
    )
    return cell["scheduler"], cell["events"][told.kind]


def judge(folder: Path) -> None:
    """Write the table of predictions beside what was measured, and print what it comes to."""
    table = pd.read_csv(folder / PREDICTIONS, sep="\t")
    times = {}
    for cell in read_json(folder / MEASURED):
        for name, told in TOLD_TIMES.items():
            if told.placement == cell["placement"]:
                which = "cpu_ns" if told.kind == "busy" else "median_ns"
                least = min(cell[which])
                switched = cell["switches"][cell[which].index(least)]
                times[name, cell["transport"], cell["size"]] = least, switched
    found = [times.get(tuple(row), (None, None)) for row in table[KEYS].to_numpy()]
    table["measured_ns"], table["measured_switches"] = zip(*found, strict=True)
    table = table.dropna(subset="measured_ns")
    table["error"] = table["told_ns"] / table["measured_ns"] - 1
    table["inside"] = table["measured_ns"].between(table["low_ns"], table["high_ns"])
    for rule in RULES:
        table[f"{rule}_error"] = table[f"{rule}_ns"] / table["measured_ns"] - 1
    table.round(4).to_csv(folder / JUDGED, sep="\t", index=False)
    summary = [
        summed(name, table[table["time"] == name])
        for name in TOLD_TIMES
        if name in set(table["time"])
    ]
    pd.DataFrame(summary).to_csv(folder / SUMMARY, sep="\t", index=False, float_format="%.1f")
    print(pd.DataFrame(summary).round(1).to_string(index=False))
    for row in table[table["error"].abs() > UNEXPLAINED].to_dict("records"):
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


def cold(folder: Path) -> None:
    """Tell from cache lines how much longer a round trip takes after 512 KiB of other code.

    What these 512 KiB take themselves, and the price of a line, are by cells without a socket pair.
    """
    run = folder / "lines"
    if not run.exists():
        words = ["exact", "--lines", "--quiet", "--sched=fifo", "--placements=same-cpu"]
        words += [f"--transports={','.join(COLD_TRANSPORTS)}", f"--out={run}"]
        subprocess.run([str(REPOSITORY / "runners/run.sh"), *words], check=True)
    lines = {
        cell.transport: cell.lines.data + cell.lines.code
        for cell in read_exact(read_run(run))
        if cell.lines
    }
    asked = [
        Priced(name, "pingpong", 64, "same-cpu", 1600, is_cold)
        for name in COLD_TRANSPORTS
        for is_cold in (False, True)
    ]
    times: dict[Priced, list[float]] = {}
    for _, cell in interleaved(asked, REPEATS):
        times.setdefault(cell, []).append(median(cell.run()[1]))
    rise = {
        name: min(times[cold]) - min(times[hot])
        for name, hot, cold in zip(COLD_TRANSPORTS, asked[::2], asked[1::2], strict=True)
    }
    known = [*EVENT_TRANSPORTS, WITHOUT_KERNEL]
    line, other = np.polyfit([lines[name] for name in known], [rise[name] for name in known], 1)
    print(f"a line {line:.1f} ns, the other code {other / 1000:.1f} µs")
    for name in COLD_TRANSPORTS:
        told = other + line * lines[name]
        print(
            f"  {name}: {lines[name]:.0f} lines, told {told / 1000:.1f} µs more, measured "
            f"{rise[name] / 1000:.1f}"
        )


STAGES: dict[str, Callable[[Path], None]] = {
    "count": count,
    "switches": switches,
    "measure": measure,
    "predict": predict,
    "judge": judge,
}


def ratios() -> pd.DataFrame:
    """The blind errors of EARLIER stored runs: what nine in ten cells took, by what was told."""
    stored = pd.read_csv(STORED, sep="\t").query("run in @EARLIER and not prices")
    found = []
    for name in TOLD_TIMES:
        cells = stored[stored["time"] == name]
        ends = (cells["measured_ns"] / cells["told_ns"]).quantile(NINE_IN_TEN)
        low, high = ends.round(3)
        found.append({"time": name, "low": low, "high": high, "cells": len(cells)})
    return pd.DataFrame(found)


def main(words: list[str]) -> None:
    if words == ["ratios"]:
        ratios().to_csv(BLIND, sep="\t", index=False)
        return
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for stage in words[1:] or STAGES:
        (STAGES | {"cold": cold})[stage](folder)


if __name__ == "__main__":
    main(sys.argv[1:])
