# SPDX-License-Identifier: GPL-2.0-or-later
"""From options to a plan: the cells of a lane, how often each runs, and in what order.

Repeats are interleaved A B B A, A without and B with probes, so that a drift of the machine falls
on both alike. Neighbouring stretches of one kind are one pass: probes are attached once for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

from runners.collect.plan import Cell, CellRun, Pass
from runners.options import Options

# What the function tracer sees is written out call by call: 23 round trips are enough to see each
# function that a round trip always calls, and a prime is hard to count right by accident.
FTRACE_MESSAGES = 46


@dataclass(frozen=True)
class Defaults:
    """What a lane does when nothing else is asked for. `bytes` bounds a cell of large messages."""

    messages: int
    warmup: int
    repeats: int
    bytes: int


HOST = Defaults(messages=20_000, warmup=2_000, repeats=4, bytes=2 << 30)
# An emulated CPU is some twenty times slower, and counts need no statistics: two runs show that
# they repeat.
GUEST = Defaults(messages=2_000, warmup=500, repeats=2, bytes=64 << 20)


def cells(options: Options, defaults: Defaults) -> list[Cell]:
    """Every combination that was asked for, transports innermost, so that they run side by side."""
    return [
        _cell(transport, pattern, size, placement, options.messages, defaults)
        for pattern in options.patterns
        for size in options.sizes
        for placement in options.placements
        for transport in options.transports
    ]


def _cell(
    transport: str, pattern: str, size: int, placement: str, asked: int | None, defaults: Defaults
) -> Cell:
    affordable = max(2, min(defaults.messages, defaults.bytes // size) // 2 * 2)
    messages = asked or affordable
    return Cell(transport, pattern, size, placement, messages, min(defaults.warmup, messages))


def passes(
    todo: Sequence[Cell], repeats: int, scripts: Sequence[str], *, ftrace: bool
) -> tuple[Pass, ...]:
    """Each cell `repeats` times without probes and with `scripts`, then once under ftrace."""
    ids = count(1)
    order = list(_interleaved(todo, repeats, probed=bool(scripts)))
    result = [
        Pass(
            instrument,
            tuple(scripts) if instrument else (),
            tuple(CellRun(next(ids), cell, repeat) for _, cell, repeat in stretch),
        )
        for instrument, stretch in groupby(order, key=lambda entry: entry[0])
    ]
    if ftrace:
        short = [replace(cell, messages=min(cell.messages, FTRACE_MESSAGES)) for cell in todo]
        runs = tuple(CellRun(next(ids), cell, 0) for cell in short)
        result.append(Pass("ftrace", (), runs))
    return tuple(result)


def _interleaved(
    todo: Sequence[Cell], repeats: int, *, probed: bool
) -> Iterator[tuple[str, Cell, int]]:
    for repeat in range(repeats):
        forward = repeat % 2 == 0
        kinds = ["", "bpftrace"] if probed else [""]
        for kind in kinds if forward else reversed(kinds):
            for cell in todo if forward else reversed(todo):
                yield kind, cell, repeat
