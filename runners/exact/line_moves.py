# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cache lines move between CPUs, by MESI's rule on the order of the accesses.

A CPU *fetches* a line that it lacks and another CPU has or wrote; it *invalidates* the other's copy
where it has the line and writes. Both are moves. A fetch is *unread* where the CPU loads nothing,
while it has the line, of what the other has written since: false sharing, or overwriting.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from runners.exact.touches import LINE_BYTES, LINE_SHIFT, Touch


@dataclass(slots=True)
class Move:
    """A line that a CPU gets from another one, or whose copy elsewhere it makes invalid.

    `read` is the first load of something that the other had written, while this CPU has the line.
    """

    line: int
    touch: Touch
    invalidates: bool
    writer: Touch | None
    read: Touch | None = None


@dataclass(slots=True)
class _Line:
    """Which CPUs have it (a bit each), who wrote last, and what of it is new to whom."""

    holders: int = 0
    writer: Touch | None = None
    news: dict[int, int] = field(default_factory=dict)  # CPU → a bit for each byte
    fetched: dict[int, Move] = field(default_factory=dict)  # CPU → the move by which it has it


def moves(touches: Iterable[Touch], cpus: int) -> Iterator[Move]:
    """Every move of the window, in order; also those of no iteration.

    What `read` says is known at the end of the window only.
    """
    lines: defaultdict[int, _Line] = defaultdict(_Line)
    for touch in touches:
        mine = 1 << touch.cpu
        for number in touch.lines:
            line = lines[number]
            begin = number << LINE_SHIFT
            first = max(touch.physical, begin) - begin
            last = min(touch.physical + touch.size, begin + LINE_BYTES) - begin
            touched = (1 << last) - (1 << first)  # a bit for each byte
            has = bool(line.holders & mine)
            if not has and (line.holders or line.writer):
                line.fetched[touch.cpu] = move = Move(number, touch, False, line.writer)
                yield move
            elif has and touch.store and line.holders & ~mine:
                yield Move(number, touch, True, line.writer)
            new = line.news.get(touch.cpu, 0)
            if new & touched:
                if not touch.store and (fetch := line.fetched.get(touch.cpu)) and not fetch.read:
                    fetch.read = touch
                line.news[touch.cpu] = new & ~touched
            if not touch.store:
                line.holders |= mine
                continue
            line.holders, line.writer = mine, touch
            for other in range(cpus):
                if other != touch.cpu:
                    line.news[other] = line.news.get(other, 0) | touched
