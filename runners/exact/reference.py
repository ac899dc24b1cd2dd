# SPDX-License-Identifier: GPL-2.0-or-later
"""Reference results: small tables in the repository, and the versions behind them.

    python3 -m runners.exact.reference reports/reference/exact

counts and writes them again. With the same QEMU, kernel, CPU model and programs a boot must
reproduce them to the last instruction. With other versions it need not; `differing` names these.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from runners.exact.cells import ExactCell, plan
from runners.exact.count import measure
from runners.exact.decode.iterations import ReplayedWindow
from runners.exact.machine.guest import prepare_guest
from runners.invoker import invoker

# A count holds for these versions; a package's version is more exact than /proc/version.
VERSIONS = ("kernel", "package", "qemu", "cpu", "machine", "command_line", "sha256")
KERNEL = "6.12"
Table = dict[str, tuple[int, int]]


def cells() -> list[ExactCell]:
    """The cells that have a reference: the path alone, with 64 bytes."""
    return [cell for cell in plan(("unix", "tcp"), (64,)) if cell.scheduling == "fifo"]


def table(window: ReplayedWindow) -> Table:
    """Function → calls and steps of the steady round trip."""
    tree, counts = window.tree, window.steady.counts
    calls = tree.by_function(counts.calls)
    steps = tree.by_function(counts.steps)
    return {name: (calls[name], count) for name, count in steps.items()}


def write_table(path: Path, rows: Table) -> None:
    """Write one line per function, sorted."""
    lines = [f"{name}\t{calls}\t{steps}\n" for name, (calls, steps) in sorted(rows.items())]
    path.write_text("function\tcalls\tsteps\n" + "".join(lines), encoding="utf-8")


def read_table(path: Path) -> Table:
    """Read what `write_table` wrote."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return {name: (int(calls), int(steps)) for name, calls, steps in rows}


def difference(reference: Table, now: Table) -> list[str]:
    """Lines like `function: calls 2 -> 4, steps 10 -> 20`, the largest first."""
    nothing = (0, 0)
    pairs = [
        (name, reference.get(name, nothing), now.get(name, nothing))
        for name in sorted({*reference, *now})
    ]
    return [
        f"{name}: calls {old[0]} -> {new[0]}, steps {old[1]} -> {new[1]}"
        for name, old, new in sorted(pairs, key=lambda pair: -abs(pair[2][1] - pair[1][1]))
        if old != new
    ]


def differing(reference: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The versions that differ from the reference, in words."""
    words = []
    for key in VERSIONS:
        if reference.get(key) == now[key]:
            continue
        if isinstance(now[key], dict):
            old = reference.get(key) or {}
            words += [
                f"{name} is a different build"
                for name, digest in now[key].items()
                if old.get(name) != digest
            ]
        else:
            words.append(f"{key}: {reference.get(key)} -> {now[key]}")
    return words


def main(folder: Path) -> None:
    """Count the reference cells and write them. Raises GuestError, RecordError."""
    guest = prepare_guest(invoker().cache, KERNEL, lambda text: print(text, file=sys.stderr))
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(guest.environment(), indent=1) + "\n"
    (folder / "environment.json").write_text(text, encoding="utf-8")
    for cell in cells():
        window, _, _ = measure(guest, cell)
        write_table(folder / f"{cell.transport}.tsv", table(window))
        print(f"{cell}: {window.steady.steps} steps a round trip")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
