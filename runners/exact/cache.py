# SPDX-License-Identifier: GPL-2.0-or-later
"""A model of a cache, for estimates of what a CPU would miss."""

from collections import OrderedDict

CACHE_LINE = 64  # bytes
LEVEL_1 = 32 << 10, 8  # bytes, and lines of a set


class CacheModel:
    """A cache of sets, of which the line that was not used longest goes first."""

    def __init__(self, size: int, ways: int) -> None:
        self._sets: list[OrderedDict[int, None]] = [
            OrderedDict() for _ in range(size // CACHE_LINE // ways)
        ]
        self._ways = ways

    def misses(self, line: int) -> bool:
        held = self._sets[line % len(self._sets)]
        missed = line not in held
        held[line] = None
        held.move_to_end(line)
        if len(held) > self._ways:
            held.popitem(last=False)
        return missed
