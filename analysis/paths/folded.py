# SPDX-License-Identifier: GPL-2.0-or-later
"""A call tree in the terminal, out of folded stacks: `python3 -m analysis.paths.folded FILE …`.

A line of a folded file is `outermost;…;innermost N` (Brendan Gregg's stackcollapse format); the
files of a run's `folded/` count instructions of one round trip, or samples. Each function is shown
below its caller with what it and all that it calls cost; the most expensive sibling comes
first, and what is too cheap to show is summed up. Standard library only: any Python will do.
"""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from analysis.paths import tree
from analysis.wording import counted


def below(lines: Iterable[str], root: str) -> Counter[tree.Path]:
    """The cost of each path from the outermost `root` on, in all its contexts, callees included.

    Raises ValueError for a line that is none of a folded file.
    """
    spans = []
    for number, line in enumerate(lines, 1):
        stack, _, cost = line.rstrip("\n").rpartition(" ")
        if not stack or not cost.isdigit():
            raise ValueError(f"line {number} is no folded stack")
        names = tuple(stack.split(";"))
        if root in names:
            spans.append(tree.Span(("", *names[names.index(root) :]), int(cost)))
    return tree.inclusive(spans)


def rows(costs: Counter[tree.Path], path: tree.Path, depth: int, least: float) -> Iterator[str]:
    """Yield a function and so many levels below it, as lines."""
    level = len(path) - 1
    yield f"{costs[path]:>9,}  {'  ' * level}{path[-1]}"
    calls = [call for call in costs if call[:-1] == path]
    if level == depth:
        return
    shown = sorted((call for call in calls if costs[call] >= least), key=lambda c: -costs[c])
    for call in shown:
        yield from rows(costs, call, depth, least)
    if rest := sum(costs[call] for call in calls if call not in shown):
        others = counted(len(calls) - len(shown), "other")
        yield f"{rest:>9,}  {'  ' * (level + 1)}… {others}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m analysis.paths.folded", description=__doc__)
    add = parser.add_argument
    add("file", type=Path, help="of a run's folded/")
    add("--root", required=True, help="the function to begin at, such as ksys_write")
    add("--depth", type=int, default=4, help="levels below it (default: 4)")
    add("--least", type=float, default=5, help="per cent of the root to be shown (default: 5)")
    given = parser.parse_args()
    try:
        costs = below(given.file.read_text(encoding="utf-8").splitlines(), given.root)
    except (OSError, ValueError) as error:
        sys.exit(f"pathcost: {given.file} cannot be read as folded stacks: {error}.")
    if not costs:
        sys.exit(f"pathcost: no stack of {given.file} has {given.root} in it.")
    root = (given.root,)
    print("\n".join(rows(costs, root, given.depth, costs[root] * given.least / 100)))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends it
    main()
