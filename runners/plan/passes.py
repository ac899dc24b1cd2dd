# SPDX-License-Identifier: GPL-2.0-or-later
"""From cells to passes: how often each cell runs, in what order, under which scripts.

Repeats are interleaved A B B A, A without and B with probes, so that a drift of the machine falls
on both alike. Where several instruments count, it is A C C B B D D A E E A: B has all of them
together, the others have one each. Two repeats are a block: its cells run in an order drawn for
it, then in reverse. The seed is an option, so run.json keeps it. Neighbouring groups with the
same scripts are one pass: probes are attached once for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from random import Random

from runners.cell import Cell, CellRun, Pass
from runners.host.scripts import read_scripts
from runners.plan.cells import GUEST

# The group whose scripts count, and that unprobed runs are interleaved with.
COUNTS = "counts"
# With fewer repeats each instrument is not attached alone: all of them together give the counts.
LEAST_ALONE = 3
# How often claims run a counted cell: counts repeat, and the second run shows it.
COUNTED_REPEATS = 2

# A run before it has a number: the scripts over it, the cell, the repeat.
Planned = tuple[tuple[str, ...], Cell, int]


def passes(
    todo: Sequence[Cell],
    repeats: int,
    scripts: Sequence[str],
    *,
    seed: int,
    watched: int | None = None,
    probed_first: bool = False,
) -> tuple[Pass, ...]:
    """Each cell `repeats` times without probes and with the scripts that count, then the rest.

    An extra cell is there for its time: it runs without probes only. `watched`: the most messages
    in a probed window. `probed_first`: a target without times may start from a guest that was
    stored with its probes attached, and unprobed runs come last.
    """
    warmup = None if watched is None else GUEST.warmup
    groups = _by("group", scripts)
    counting = groups.pop(COUNTS, ())
    order = [
        (names, cell.shortened(watched, warmup) if names else cell, repeat)
        for names, cell, repeat in _interleaved(todo, repeats, Random(seed), counting)
    ]
    probed = [cell.shortened(watched, warmup) for cell in todo if not cell.extra]
    whole = [*order, *_probed(probed, groups)]
    return _numbered(sorted(whole, key=lambda run: not run[0]) if probed_first else whole)


def claimed(
    bare: Sequence[Cell],
    counted: Sequence[Cell],
    repeats: int,
    scripts: Sequence[str],
    *,
    seed: int,
) -> tuple[Pass, ...]:
    """Bare cells `repeats` times without probes, interleaved; then each counted cell with them."""
    order = _interleaved(bare, repeats, Random(seed), ())
    return _numbered([*order, *_probed(counted, _by("group", scripts))])


def _by(column: str, scripts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Scripts by a column of their table. Those of one group watch the same cell runs."""
    table = read_scripts()
    found: dict[str, tuple[str, ...]] = {}
    for name in scripts:
        value = getattr(table[name][0], column)
        found[value] = (*found.get(value, ()), name)
    return found


def _probed(todo: Sequence[Cell], groups: dict[str, tuple[str, ...]]) -> Iterator[Planned]:
    """Every cell under each group of scripts, as short as the scripts need it.

    A script that writes out each event needs few messages (`most` in probes/scripts.tsv).
    """
    table = read_scripts()
    for group, names in groups.items():
        most = min((limit for name in names if (limit := table[name][0].most)), default=None)
        for repeat in range(COUNTED_REPEATS if group == COUNTS else 1):
            for cell in todo:
                yield names, cell.shortened(most), repeat


def _numbered(order: Iterable[Planned]) -> tuple[Pass, ...]:
    """Neighbours with the same scripts share a pass; every run gets its number."""
    runs = [
        (names, CellRun(number, cell, repeat))
        for number, (names, cell, repeat) in enumerate(order, 1)
    ]
    return tuple(
        Pass(names, tuple(run for _, run in group))
        for names, group in groupby(runs, key=lambda entry: entry[0])
    )


def _interleaved(
    todo: Sequence[Cell], repeats: int, random: Random, counting: tuple[str, ...]
) -> Iterator[Planned]:
    """Each repeat without probes, and between two of them the probed runs of both."""
    gaps = _gaps(counting, repeats) if counting else {}
    orders = list(_orders(todo, repeats, random))
    for repeat, order in enumerate(orders):
        yield from (((), cell, repeat) for cell in order)
        for scripts in gaps.get(repeat, ()):
            for probed in range(repeat, min(repeat + 2, repeats)):
                yield from ((scripts, cell, probed) for cell in orders[probed] if not cell.extra)


def _orders(todo: Sequence[Cell], repeats: int, random: Random) -> Iterator[list[Cell]]:
    """The order of cells in each repeat: drawn for every other one, reversed in the next."""
    block = list(todo)
    for repeat in range(repeats):
        if repeat % 2 == 0:
            random.shuffle(block)
        yield block[:: 1 if repeat % 2 == 0 else -1]


def _gaps(counting: tuple[str, ...], repeats: int) -> dict[int, list[tuple[str, ...]]]:
    """Repeat → the scripts that are attached after it, for its probed run and the next repeat's.

    Attaching costs seconds, and counts repeat. So all instruments run together once, in the same
    cell runs, so that their counts can be compared; and each runs alone once, which shows its cost.
    The first instrument runs alone before that, the second after it, so that what two neighbours
    share is attached once. Further repeats are for times only.
    """
    alone = list(_by("instrument", counting).values())
    if repeats < LEAST_ALONE:
        return {0: [counting]}
    if len(alone) == 1:
        return {0: alone, 2: alone}
    gaps = {0: [alone[0], counting, alone[1]]}
    for number, names in enumerate(alone[2:], 1):
        gaps.setdefault(min(number, repeats - 2), []).append(names)
    return gaps
