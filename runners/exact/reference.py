# SPDX-License-Identifier: GPL-2.0-or-later
"""Reference results: small, in the repository, and what they were counted with.

    python3 -m runners.exact.reference reports/reference/exact

makes them anew. With the same QEMU, kernel, CPU model and programs a boot must reproduce them to
the last instruction; with others it cannot be expected to, and `differing` says which differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from runners.exact import lane
from runners.exact.cells import ExactCell, plan
from runners.exact.count import measure
from runners.exact.digest import by_function
from runners.exact.laps import Window
from runners.invoker import invoker

# What a count holds for; of a kernel that is a package its version says more than /proc/version.
VERSIONS = ("kernel", "package", "qemu", "cpu", "machine", "command_line", "sha256")
KERNEL = "6.12"
Table = dict[str, tuple[int, int]]


def cells() -> list[ExactCell]:
    """The cells that have a reference: the path alone, of 64 bytes."""
    return [cell for cell in plan(("unix", "tcp"), (64,)) if cell.scheduling == "fifo"]


def table(window: Window) -> Table:
    """Function → calls and steps of the steady round trip."""
    tree, counts = window.tree, window.steady.counts
    calls: Counter[str] = Counter()
    for node, count in counts.calls.items():
        calls[tree.functions[node]] += count
    return {name: (calls[name], steps) for name, steps in by_function(tree, counts).items()}


def write_table(path: Path, rows: Table) -> None:
    """One function a line, sorted."""
    lines = [f"{name}\t{calls}\t{steps}\n" for name, (calls, steps) in sorted(rows.items())]
    path.write_text("function\tcalls\tsteps\n" + "".join(lines), encoding="utf-8")


def read_table(path: Path) -> Table:
    """What `write_table` wrote."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return {name: (int(calls), int(steps)) for name, calls, steps in rows}


def difference(reference: Table, now: Table) -> list[str]:
    """`function: calls 2 -> 4, steps 10 -> 20`, the largest first."""
    changed = [
        (name, reference.get(name, (0, 0)), now.get(name, (0, 0)))
        for name in sorted({*reference, *now})
        if reference.get(name) != now.get(name)
    ]
    changed.sort(key=lambda row: -abs(row[2][1] - row[1][1]))
    return [
        f"{name}: calls {before[0]} -> {after[0]}, steps {before[1]} -> {after[1]}"
        for name, before, after in changed
    ]


def differing(reference: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Which versions are not those of the reference, in words."""
    words = []
    for key in VERSIONS:
        if reference.get(key) == now[key]:
            continue
        if isinstance(now[key], dict):
            old = reference.get(key) or {}
            words += [
                f"{name} was built otherwise"
                for name, digest in now[key].items()
                if old.get(name) != digest
            ]
        else:
            words.append(f"{key}: {reference.get(key)} -> {now[key]}")
    return words


def main(folder: Path) -> None:
    """Count the reference cells and write them. Raises GuestError, RecordError."""
    guest = lane.prepare(invoker().cache, KERNEL, lambda text: print(text, file=sys.stderr))
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(guest.environment(), indent=1) + "\n"
    (folder / "environment.json").write_text(text, encoding="utf-8")
    for cell in cells():
        window, _, _ = measure(guest, cell)
        write_table(folder / f"{cell.transport}.tsv", table(window))
        print(f"{cell}: {window.steady.steps} steps a round trip")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
