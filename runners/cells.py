# SPDX-License-Identifier: GPL-2.0-or-later
"""From options to a plan: the cells of a lane, how often each runs, and in what order.

Repeats are interleaved A B B A, A without and B with probes, so that a drift of the machine falls
on both alike: A C C B B D D A E E A where several instruments count, B all of them together, the
others each alone. Two repeats are a block: its cells run in an order drawn for it, then in reverse;
the seed is an option, so run.json keeps it. Neighbouring stretches of one kind are one pass: probes
are attached once for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, product
from random import Random

from runners.collect.plan import Cell, CellRun, Pass
from runners.collect.scripts import read_scripts
from runners.errors import UsageError
from runners.options import Options

# The stretch whose scripts count, and that unprobed runs are interleaved with.
COUNTS = "counts"


@dataclass(frozen=True)
class Defaults:
    """What a lane does when nothing else is asked for. `bytes` bounds a cell of large messages.

    `watched`: messages in a probed window at most, after a guest's warm-up at most. Times need many
    laps, counts do not.
    """

    lane: str
    messages: int
    watched: int
    warmup: int
    repeats: int
    bytes: int


# Fewer than six repeats give a median no interval of 95 % (analysis/intervals.py).
HOST = Defaults("host", messages=10_000, watched=2_000, warmup=2_000, repeats=6, bytes=1 << 30)
# An emulated CPU is some twenty times slower, and counts need no statistics: two runs show that
# they repeat.
GUEST = Defaults("vm", messages=2_000, watched=2_000, warmup=500, repeats=2, bytes=64 << 20)
# This machine's own kernel, on an emulated CPU: it gives counts, and is as slow as a guest.
EMULATED = replace(GUEST, lane="host")
# Fewer repeats are for counts, and all instruments together give those.
LEAST_ALONE = 3
# One thread holds both ends.
ONE_THREAD = ("selfloop", "selfecho")
# The two transports whose times every report takes apart.
DECOMPOSED = ("unix", "tcp")


def cells(options: Options, defaults: Defaults) -> list[Cell]:
    """Every combination that was asked for, transports innermost, so that they run side by side.

    What the workload refuses is run all the same: its sentence belongs to the report.
    """
    asked = [
        _cell(options, defaults, transport, pattern, size, placement, *regime)
        for pattern in options.patterns
        for size in options.sizes
        for placement in _placements(options, pattern)
        for regime in product(options.waits, options.scheds, options.topologies)
        for transport in options.transports
    ]
    # An emulated CPU's times are not times, so a guest has none to take apart.
    return asked + (_extra(asked) if defaults is HOST else [])


def _extra(asked: Sequence[Cell]) -> list[Cell]:
    """What takes a message's time apart, where ping-pong on one CPU and on two is asked for.

    Of the smallest size: the path alone, which is a thread that plays ping-pong with itself, and
    two CPUs that never sleep.
    """
    smallest = min(cell.size for cell in asked)
    usual = [cell for cell in asked if _usual(cell) and cell.size == smallest]
    extra = []
    for one in usual:
        twin = replace(one, placement="same-cpu")
        if one.placement == "cross-cpu" and twin in usual:
            extra.append(replace(twin, pattern="selfecho"))
            extra.append(replace(one, wait="spin"))
    return [replace(cell, extra=True) for cell in extra if cell not in asked]


def _usual(cell: Cell) -> bool:
    way = (cell.pattern, cell.wait, cell.sched, cell.topology)
    return way == ("pingpong", "block", "other", "one") and cell.transport in DECOMPOSED


def _placements(options: Options, pattern: str) -> tuple[str, ...]:
    """One thread has no second CPU: beside other placements this one is left out."""
    fitting = tuple(name for name in options.placements if name != "cross-cpu")
    return fitting if pattern in ONE_THREAD and fitting else options.placements


def unit(pattern: str, clients: int) -> int:
    """The number of messages that a cell's window is a multiple of."""
    return {"stream": 1, "selfloop": 1, "clients": 2 * clients}.get(pattern, 2)


def _cell(
    options: Options,
    defaults: Defaults,
    transport: str,
    pattern: str,
    size: int,
    placement: str,
    wait: str,
    sched: str,
    topology: str,
) -> Cell:
    each = unit(pattern, options.clients)
    affordable = max(each, min(defaults.messages, defaults.bytes // size) // each * each)
    messages = options.messages or affordable
    if messages % each:
        raise UsageError(
            f"--messages {messages} is not a multiple of {each}, "
            f"as {pattern} with {options.clients} clients needs it."
        )
    return Cell(
        *(transport, pattern, size, placement, messages),
        min(defaults.warmup, messages) // each * each,
        *(wait, sched, topology),
        in_flight=options.in_flight if pattern == "pipeline" else None,
        clients=options.clients if pattern == "clients" else None,
    )


def passes(
    todo: Sequence[Cell],
    repeats: int,
    scripts: Sequence[str],
    *,
    seed: int,
    watched: int | None = None,
) -> tuple[Pass, ...]:
    """Each cell `repeats` times without probes and with those that count, then once a stretch.

    An extra cell is there for its time: without probes only. `watched`: messages in a probed
    window at most.
    """
    ids = count(1)
    table = read_scripts()
    stretches: dict[str, list[str]] = {}
    for name in scripts:
        stretches.setdefault(table[name][0].stretch, []).append(name)
    counting = tuple(stretches.pop(COUNTS, ()))
    order = list(_interleaved(todo, repeats, Random(seed), counting))
    result = [
        Pass(
            names,
            tuple(
                CellRun(next(ids), _watched(cell, watched) if names else cell, repeat)
                for _, cell, repeat in stretch
            ),
        )
        for names, stretch in groupby(order, key=lambda entry: entry[0])
    ]
    for names in stretches.values():
        most = min((n for name in names if (n := table[name][0].most)), default=None)
        short = (_short(_watched(cell, watched), most) for cell in todo if not cell.extra)
        runs = tuple(CellRun(next(ids), cell, 0) for cell in short)
        result.append(Pass(tuple(names), runs))
    return tuple(result)


def _watched(cell: Cell, most: int | None) -> Cell:
    """The cell as it is probed."""
    if most is None:
        return cell
    each = unit(cell.pattern, cell.clients or 1)
    return replace(_short(cell, most), warmup=min(cell.warmup, GUEST.warmup // each * each))


def _short(cell: Cell, most: int | None) -> Cell:
    """The cell with `most` messages at most: what writes out each event needs no more."""
    if most is None:
        return cell
    each = unit(cell.pattern, cell.clients or 1)
    return replace(cell, messages=min(cell.messages, max(each, most // each * each)))


def _interleaved(
    todo: Sequence[Cell], repeats: int, random: Random, counting: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Cell, int]]:
    gaps = _gaps(counting, repeats) if counting else {}
    orders = list(_orders(todo, repeats, random))
    for repeat, order in enumerate(orders):
        for cell in order:
            yield (), cell, repeat
        for scripts in gaps.get(repeat, ()):
            for again in range(repeat, min(repeat + 2, repeats)):
                for cell in orders[again]:
                    if not cell.extra:
                        yield scripts, cell, again


def _orders(todo: Sequence[Cell], repeats: int, random: Random) -> Iterator[list[Cell]]:
    """The order of cells in each repeat: drawn for two, the second the other way round."""
    block = list(todo)
    for repeat in range(repeats):
        if repeat % 2 == 0:
            random.shuffle(block)
        yield block[:: 1 if repeat % 2 == 0 else -1]


def _gaps(counting: tuple[str, ...], repeats: int) -> dict[int, list[tuple[str, ...]]]:
    """Repeat → what is attached between it and the next one, in a run for each of the two.

    Counts repeat, and attaching costs seconds: all instruments together once, in the same cell
    runs, so that their counts can be compared; and each one alone, for what it costs by itself. The
    first one alone stands before, the second behind: what stays attached is attached once. Further
    repeats are run for their times only.
    """
    by_instrument: dict[str, list[str]] = {}
    for name in counting:
        by_instrument.setdefault(read_scripts()[name][0].instrument, []).append(name)
    alone = [tuple(names) for names in by_instrument.values()]
    if repeats < LEAST_ALONE:
        return {0: [counting]}
    if len(alone) == 1:
        return {0: alone, 2: alone}
    gaps = {0: [alone[0], counting, alone[1]]}
    for number, names in enumerate(alone[2:], 1):
        gaps.setdefault(min(number, repeats - 2), []).append(names)
    return gaps
