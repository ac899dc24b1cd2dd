# SPDX-License-Identifier: GPL-2.0-or-later
"""Where in an iteration lines move: what ran in its order, and the moves in each part of it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from runners.exact.line_moves import Move
from runners.exact.touches import Recorded

FETCH, UNREAD, INVALIDATE = "fetch", "unread", "invalidate"


class Passage(NamedTuple):
    """What a CPU ran in one function before another one ran, and what moved meanwhile.

    `path` has the names from the task down; a move is what it is, and its line.
    """

    cpu: int
    path: tuple[str, ...]
    instructions: int
    moves: tuple[tuple[str, str], ...]


def passages(
    recorded: Recorded, iteration: int, moves: Sequence[Move], line: Callable[[Move], str]
) -> Iterator[Passage]:
    """An iteration in its order, with the moves in it; `line` names a move's line."""
    ran = recorded.positions
    places = range(ran.iterations.index(iteration), len(ran.iterations))
    inside = (at for at in places if ran.iterations[at] == iteration)
    waiting = list(reversed(moves))
    for (cpu, node), together in groupby(inside, lambda at: (ran.cpus[at], ran.nodes[at])):
        instructions, moved = 0, []
        for at in together:
            instructions += ran.instructions[at]
            while waiting and waiting[-1].touch.position == at:
                move = waiting.pop()
                moved.append((_what(move), line(move)))
        yield Passage(cpu, recorded.tree.path(node), instructions, tuple(moved))


def _what(move: Move) -> str:
    if move.invalidates:
        return INVALIDATE
    return FETCH if move.read else UNREAD
