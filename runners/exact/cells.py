# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells exact mode counts, and each cell's order to the guest."""

from collections.abc import Sequence
from itertools import chain, product

from probes.cell import (
    MANY_CLIENTS,
    ONE_THREAD,
    USUAL_BACKLOG,
    USUAL_CLIENTS,
    USUAL_IN_FLIGHT,
    Cell,
    CellRun,
    unit,
)
from probes.reasons import Reason, reason
from probes.transports import Transport, read_transports
from runners.exact.machine import Order

SCHEDULERS = ("fifo", "other")
CPUS = {"same-cpu": 1, "cross-cpu": 2}  # that the emulated machine has, by placement
# TCP's receive window settles after some thousand round trips, the last tick after four million
# instructions: enough warm-up for the first, enough iterations to see the second for what it is.
EXACT_WARMUP = 3_000
MESSAGES = 600
# Options of the workload that are a cell's.
FACTORS = (
    "transport",
    "pattern",
    "size",
    "messages",
    "warmup",
    "placement",
    "wait",
    "also",
    "in_flight",
    "clients",
    "backlog",
)
TIMEOUT = 3600  # of the workload, in its own time, which counts instructions
# Larger messages overwrite nothing, they only take long: each repetition of a copy is a step.
LARGEST_EXACT = 64 << 10
# The emulated CPU has no AES instructions: above this size a cell takes more than ten minutes.
LARGEST_ENCRYPTED = 4 << 10


def cpus_of(cell: Cell) -> int:
    return CPUS[cell.placement]


def path_of(cell: Cell) -> Transport:
    """Return the way of a cell's transport through the kernel."""
    return read_transports()[cell.transport]


def iterations_of(cell: Cell) -> int:
    """Return how many the client makes in the window; of several clients, the first."""
    return cell.messages // cell.unit


def impossible(cell: Cell) -> Reason | None:
    """Return why no emulated machine can count a cell; None where one may."""
    path = path_of(cell)
    if cell.wait == "spin" or not path.wakes:
        return reason("emulator-slice")
    if cell.pattern == "paced":
        return reason("emulator-clock")
    if path.between == "encrypted" and cell.size > LARGEST_ENCRYPTED:
        return reason("emulator-aes", size=LARGEST_ENCRYPTED)
    return None


def order(run: CellRun, steps: Order = (), timeout: int = TIMEOUT) -> Order:
    """Return what the guest's first program does for a cell, after `steps` that a knob needs."""
    cell = run.cell
    words = {name: getattr(cell, name) for name in FACTORS}
    words |= {"cell": run.id, "timeout": timeout, "dir": "/run"}
    given = [(f"--{name.replace('_', '-')}", str(v)) for name, v in words.items() if v is not None]
    first = list(steps)
    if cell.sched == "fifo":
        first.append(("fifo",))
    # A kernel thread that waits behind two FIFO tasks would make each of their switches longer.
    return [*first, ("workload", "--settle", *chain(*given))]


def plan(
    transports: Sequence[str],
    sizes: Sequence[int],
    messages: int | None = None,
    placements: Sequence[str] = ("same-cpu",),
    schedulers: Sequence[str] = SCHEDULERS,
    *,
    patterns: Sequence[str] = ("pingpong",),
    waits: Sequence[str] = ("block",),
    additions: Sequence[str] = ("none",),
    in_flight: int = USUAL_IN_FLIGHT,
    clients: int = USUAL_CLIENTS,
) -> list[CellRun]:
    """Return every combination; transports vary fastest.

    One thread has no second CPU: beside another placement, cross-cpu is left out for it.
    """
    cells: list[Cell] = []
    for pattern, wait, also, placement, scheduler, size, transport in product(
        patterns, waits, additions, placements, schedulers, sizes, transports
    ):
        if pattern in ONE_THREAD and placement == "cross-cpu" and len(placements) > 1:
            continue
        each = unit(pattern, clients)
        cell = Cell(
            placement,
            wait,
            scheduler,
            also=also,
            in_flight=in_flight if pattern == "pipeline" else None,
            clients=clients if pattern in MANY_CLIENTS else None,
            backlog=USUAL_BACKLOG if pattern == "backlog" else None,
            transport=transport,
            pattern=pattern,
            size=size,
            messages=messages or MESSAGES // each * each,
            warmup=EXACT_WARMUP // each * each,
        )
        cells.append(cell)
    return [CellRun(number, cell, 0) for number, cell in enumerate(cells, 1)]
