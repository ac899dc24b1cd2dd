# SPDX-License-Identifier: GPL-2.0-or-later
"""The cells of the exactness tests, all in one boot: few messages of each size, many of one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from probes.cell import Cell, CellRun, Pass, Plan
from probes.scripts import read_scripts
from runners.plan import COUNTS as COUNTING
from runners.plan import GUEST, Planner, cells
from tests.collected import Collected, segments_again
from tests.options import run_options

SMALL, PAGE, LARGE = 64, 4096, 65536
# Many messages of one size only: on an emulated CPU a cell of them takes longer than all others.
FEW, MANY = 46, 2000
CELLS = ((FEW, (SMALL, PAGE, LARGE)), (MANY, (SMALL,)))
# Of each transport's path, across CPUs: what needs two has them.
PATH_CELLS = ((FEW, (1, SMALL, PAGE, LARGE)), (MANY, (SMALL,)))
FIRST = ("unix", "tcp", "pipe", "udp", "shm")
LONGEST_HEADER = 134  # Ethernet 14, IPv4 60, TCP 60
# What may be at a window's edges, on an emulated CPU under load.
# A delayed ACK under way when the window opens or closes: seen by IP and not yet by the device, or
# in /proc, which is read outside the window. One at either edge.
EDGE_PACKETS = 2
# getrusage and a marker are a return to user space apart, at both edges of both processes. A tick
# that preempts there is in rusage alone; on an emulated CPU more than one may come due.
EDGE_TICKS = 12
# A sleep there is in rusage alone as well: one at either edge of either process.
EDGE_SLEEPS = 4
# Calls in a window that an interrupt's softirq makes while a probe runs are missed, with large
# messages; 5.10 and 6.1 do not count them. Conservation then makes the cell invalid.
UNKNOWN = 2
CHECKS = ("sun-path", "permissions")  # the second has to be root, and become another user


def chosen(*words: str) -> list[Cell]:
    return cells(run_options(words), GUEST)


def path_cells(transports: Sequence[str]) -> list[Cell]:
    return [
        cell
        for count, sizes in PATH_CELLS
        for cell in chosen(
            *("--transports", ",".join(transports), "--messages", str(count)),
            *("--sizes", ",".join(map(str, sizes)), "--placements", "cross-cpu"),
        )
    ]


def plan() -> Plan:
    """Every cell once with all that counts, the shortest ones again with each other group."""
    every = [
        cell
        for count, sizes in CELLS
        for cell in chosen("--sizes", ",".join(map(str, sizes)), "--messages", str(count))
    ]
    # How the scheduler treats them, and a pair of sockets for each direction: with the same probes.
    usual = ("--placements", "same-cpu", "--messages", str(FEW))
    unusual = chosen(*usual, "--sched", "fifo", "--topology", "one,two")
    unusual += chosen(*usual, "--sched", "batch")
    paths = [cell for cell in path_cells(FIRST) if cell not in every]
    few = [cell for cell in every if (cell.size, cell.messages) == (SMALL, FEW)]
    groups: dict[str, list[str]] = {}
    for name, script in read_scripts().items():
        groups.setdefault(script.group, []).append(name)
    passes = []
    first = 1
    for group, names in groups.items():
        # What follows is not placed otherwise on two CPUs: one is enough, but for functions.
        counted = {COUNTING: every + unusual + paths, "functions": few}.get(group, few[:2])
        runs = tuple(CellRun(number, cell, 0) for number, cell in enumerate(counted, first))
        passes.append(Pass(tuple(names), runs))
        first += len(runs)
    return replace(
        Planner(run_options()).guest(), passes=tuple(passes), checks=CHECKS, cell_timeout=300
    )


def of(
    collected: Collected, transport: str, sizes: tuple[int, ...] = (SMALL, PAGE, LARGE)
) -> list[tuple[int, int, dict[str, int]]]:
    """(messages, payload bytes, counts) of each probed run; in the counts `segments again`, too."""
    found = [
        (
            *(cell["messages"], cell["messages"] * cell["size"]),
            {**collected.counts(cell), "segments again": segments_again(cell)},
        )
        for cell in collected.probed(transport)
        if cell["size"] in sizes
    ]
    wanted = sum(size in sizes for _, every in CELLS for size in every)
    assert len(found) == 2 * wanted, "two placements each"
    return found


def total(counts: dict[str, int], quantity: str) -> int:
    return sum(value for name, value in counts.items() if name.partition(" ")[0] == quantity)


def missed(cell: dict[str, Any], *scripts: str, which: str = "calls_missed") -> int:
    """What these scripts' probes missed in a cell: by the kernel's count, where it keeps one."""
    counts = [cell[which].get(script, 0) for script in scripts]
    return UNKNOWN if None in counts else sum(counts)
