# SPDX-License-Identifier: GPL-2.0-or-later
"""An estimate: how often a CPU with caches of stated sizes would miss. It is no count."""

from collections import Counter

from runners.exact.cache import LEVEL_1, CacheModel
from runners.exact.touches import Recorded

LEVEL_2 = 1 << 20, 16  # bytes, and lines of a set
CODE_LINES = 1 << 60  # tells code, by virtual addresses, from data, by physical ones


class _Caches:
    """Of a CPU: a first level each for data and code, a second for both; and what has missed."""

    def __init__(self) -> None:
        self._first = {what: CacheModel(*LEVEL_1) for what in ("data", "code")}
        self._second = CacheModel(*LEVEL_2)
        self.missed: Counter[str] = Counter()

    def fetch(self, what: str, line: int, counts: bool) -> None:
        """Fetch a line through both levels; what misses is counted where the iteration `counts`."""
        if not self._first[what].misses(line):
            return
        self.missed[f"l1_{what}"] += counts
        if self._second.misses(line):
            self.missed[f"l2_{what}"] += counts


def estimate(recorded: Recorded) -> Counter[str]:
    """Misses of one CPU's caches in the second half of the window, by level and by what."""
    caches, half = _Caches(), recorded.iterations // 2
    iterations, words = recorded.positions.iterations, recorded.positions.words
    run = 0  # the last position of the trace whose code has been fetched
    for touch in recorded.touches():
        while run < touch.position:
            run += 1
            for line in recorded.code_of(words[run]):
                caches.fetch("code", line | CODE_LINES, iterations[run] >= half)
        for line in touch.lines:
            caches.fetch("data", line, touch.iteration >= half)
    return caches.missed
