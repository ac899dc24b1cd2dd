# SPDX-License-Identifier: GPL-2.0-or-later
"""Maps addresses to functions, by the guest's own /proc/kallsyms."""

import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

USER = "[user]"
UNKNOWN = "[unknown]"
# Code that the kernel has compiled itself (eBPF): no function of its own reaches so far.
COMPILED = "[eBPF]"
REACH = 1 << 20
USER_LIMIT = 1 << 47
# Padding before a function, and its part that the compiler moved away, belong to the function.
PADDING = "__pfx_"
COLD = re.compile(r"\.cold(\.\d+)?$")


class Place(NamedTuple):
    """The function at an address, and whether it may be entered there: at its first byte."""

    function: str
    start: bool


class Symbols:
    """The kernel's functions, by address."""

    def __init__(self, starts: list[int], names: list[str]) -> None:
        self._starts = starts
        self._names = names

    def place(self, address: int) -> Place:
        """The function at `address`; all of user space is one function."""
        if address < USER_LIMIT:
            return Place(USER, False)
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return Place(UNKNOWN, False)
        if address - self._starts[index] > REACH:
            return Place(COMPILED, True)
        name = self._names[index]
        at_start = self._starts[index] == address and not COLD.search(name)
        return Place(COLD.sub("", name).removeprefix(PADDING), at_start)

    def extent(self, name: str) -> tuple[int, int]:
        """First address of a function, and of the next symbol. Raises ValueError."""
        index = self._names.index(name)
        start = self._starts[index]
        return start, next((after for after in self._starts[index:] if after > start), start + 4096)


def read_symbols(path: Path) -> Symbols:
    """Read a copy of /proc/kallsyms. Where an address has several names, the first global wins."""
    found: dict[int, tuple[int, str]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            address, kind, name = line.split()[:3]
            if kind not in "tTwW":
                continue
            rank = 0 if kind in "TW" else 1
            where = int(address, 16)
            if where not in found or rank < found[where][0]:
                found[where] = (rank, name)
    starts = sorted(found)
    return Symbols(starts, [found[start][1] for start in starts])
