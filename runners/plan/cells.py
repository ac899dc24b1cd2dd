# SPDX-License-Identifier: GPL-2.0-or-later
"""From options to cells: every combination of factors, and what a target does by default."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from runners.cell import MANY_CLIENTS, ONE_THREAD, Cell, unit
from runners.options import Options
from runners.process import UsageError


@dataclass(frozen=True)
class Defaults:
    """What a target does when no option says otherwise. `bytes` bounds a cell of large messages.

    `watched`: the most messages in a probed window, whose warm-up is at most a guest's. Times need
    many round trips; counts do not.
    """

    target: str
    messages: int
    watched: int
    warmup: int
    repeats: int
    bytes: int


# Many short repeats rather than few long ones: an interval over repeats narrows with their number
# (analysis/statistics.py), and a repeat is long enough with 1,200 round trips.
HOST = Defaults("host", messages=2_400, watched=2_000, warmup=600, repeats=20, bytes=1 << 30)
# An emulated CPU is some twenty times slower, and counts need no statistics: two runs show that
# they repeat.
GUEST = Defaults("guest", messages=2_000, watched=2_000, warmup=500, repeats=2, bytes=64 << 20)
# This machine's own kernel on an emulated CPU gives counts, as slowly as a guest.
EMULATED = replace(GUEST, target="host")
# The two transports whose times every report takes apart.
DECOMPOSED = ("unix", "tcp")
# A paced window's, where no option says how many messages: at 10 requests a second, 1,200 of them
# would take two minutes.
PACED_SECONDS = 1


def cells(options: Options, defaults: Defaults) -> list[Cell]:
    """Every combination that the options name. Transports vary fastest, so they run side by side.

    A cell that the workload refuses is planned like any other: the report shows the reason.
    """
    named = [
        _filled(
            Cell(
                transport=transport,
                pattern=pattern,
                size=size,
                placement=placement,
                wait=wait,
                sched=sched,
                topology=topology,
            ),
            options,
            defaults,
        )
        for pattern in options.patterns
        for size, placement, wait, sched, topology, transport in product(
            options.sizes,
            _placements(options, pattern),
            *(options.waits, options.scheds, options.topologies, options.transports),
        )
    ]
    # An emulated CPU's times are not times, so a guest has none to take apart.
    return named + (_extra(named) if defaults is HOST else [])


def _filled(cell: Cell, options: Options, defaults: Defaults) -> Cell:
    """The cell with its numbers of messages, and with the factors that only its pattern has."""
    each = unit(cell.pattern, options.clients)
    paced = cell.pattern == "paced"
    most = 2 * options.rate * PACED_SECONDS if paced else defaults.messages
    most = min(most, defaults.messages, defaults.bytes // cell.size)
    affordable = max(each, most // each * each)
    messages = options.messages or affordable
    if messages % each:
        raise UsageError(
            f"--messages {messages} is not a multiple of {each}, "
            f"as {cell.pattern} with {options.clients} clients needs it."
        )
    return replace(
        cell,
        messages=messages,
        warmup=min(defaults.warmup, messages) // each * each,
        in_flight=options.in_flight if cell.pattern == "pipeline" else None,
        clients=options.clients if cell.pattern in MANY_CLIENTS else None,
        rate=options.rate if paced else None,
        work=options.work if paced else None,
    )


def _placements(options: Options, pattern: str) -> tuple[str, ...]:
    """One thread has no second CPU: beside other placements, cross-cpu is left out."""
    fitting = tuple(name for name in options.placements if name != "cross-cpu")
    return fitting if pattern in ONE_THREAD and fitting else options.placements


def _extra(named: Sequence[Cell]) -> list[Cell]:
    """Cells that take a message's time apart, where ping-pong runs on one CPU and on two.

    They have the smallest size. One is the path alone: a thread that plays ping-pong with itself.
    The other is two CPUs that never sleep.
    """
    smallest = min(cell.size for cell in named)
    factors = ("pingpong", smallest, "block", "other", "one")
    usual = [
        cell
        for cell in named
        if (cell.pattern, cell.size, cell.wait, cell.sched, cell.topology) == factors
        and cell.transport in DECOMPOSED
    ]
    extra = []
    for cell in usual:
        beside = replace(cell, placement="same-cpu")
        if cell.placement == "cross-cpu" and beside in usual:
            extra += [replace(beside, pattern="selfecho"), replace(cell, wait="spin")]
    return [replace(cell, extra=True) for cell in extra if cell not in named]
