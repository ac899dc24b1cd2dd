# SPDX-License-Identifier: GPL-2.0-or-later
"""Lesson 19: three prices by three differences, and the times that they tell of a run.

python3 docs/lessons/price.py RUN    # of exact --priced
"""

import json
import os
import sys
from pathlib import Path

CACHE = Path(os.environ.get("PATHCOST_CACHE", Path.home() / ".cache/pathcost"))
COLUMNS = ("instructions", "code_misses", "switches")
STACK, LONGER, WHOLE = "pipe selfecho", "udp selfecho", "pipe pingpong"


def counts(events: dict[str, int]) -> list[int]:
    return [events.get(name, 0) for name in COLUMNS]


def main(run: Path) -> None:
    cells = {}
    for cell in json.loads((CACHE / "prices.json").read_text())["cells"]:
        if cell.get("events") and (cell["placement"], cell["size"]) == ("same-cpu", 64):
            name = f"{cell['transport']} {cell['pattern']}"
            cells[name] = [1000 * min(cell["median_us"]), *counts(cell["events"]["executed"])]
    print(f"{'cell':14} {'ns':>7} {'instructions':>12} {'lines missed':>12} {'switches':>8}")
    for name in (STACK, LONGER, WHOLE):
        print("{:14} {:7,.0f} {:12,} {:12,} {:8}".format(name, *cells[name]))

    ns, instructions, *_ = cells[STACK]
    instruction = ns / instructions  # hardly a line is missed here
    ns, instructions, missed, _ = cells[LONGER]
    line = (ns - instruction * instructions) / missed
    ns, instructions, missed, switches = cells[WHOLE]
    switch = (ns - instruction * instructions - line * missed) / switches
    print(f"an instruction {instruction:.2f} ns, a line of code {line:.2f} ns", end="")
    print(f", a switch {switch:.0f} ns")

    (counted,) = run.glob("raw/exact-*/cells.jsonl")
    for cell in map(json.loads, counted.read_text().splitlines()):
        instructions, missed, switches = counts(cell["events"]["executed"])
        parts = (instruction * instructions, line * missed, switch * switches)
        told, whole = " + ".join(f"{part / 1000:.2f}" for part in parts), sum(parts) / 1000
        print(f"{cell['transport']}, {instructions:,} instructions: {told} = {whole:.2f} µs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
