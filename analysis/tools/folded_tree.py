# SPDX-License-Identifier: GPL-2.0-or-later
"""A call tree in the terminal, out of folded stacks: `python3 -m analysis.tools.folded_tree FILE
…`.

A line of a folded file is `outermost;…;innermost N` (Brendan Gregg's stackcollapse format); the
files of a run's `folded/` count instructions of one round trip, or samples. Each function is shown
below its caller with what it and all that it calls cost; the most expensive sibling comes
first, and what is too cheap to show is summed up. Standard library only: any Python will do.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class TreeNode:
    """A function at one place of the tree: `cost` with all that it calls."""

    cost: int = 0
    calls: dict[str, "TreeNode"] = field(default_factory=dict)

    def add(self, path: list[str], cost: int) -> None:
        self.cost += cost
        if path:
            self.calls.setdefault(path[0], TreeNode()).add(path[1:], cost)


def tree(lines: Iterable[str], root: str) -> TreeNode:
    """The calls below the outermost `root` of each stack, in all its contexts.

    Raises ValueError for a line that is none of a folded file.
    """
    found = TreeNode()
    for number, line in enumerate(lines, 1):
        stack, _, cost = line.rstrip("\n").rpartition(" ")
        if not stack or not cost.isdigit():
            raise ValueError(f"line {number} is no folded stack")
        frames = stack.split(";")
        if root in frames:
            found.add(frames[frames.index(root) + 1 :], int(cost))
    return found


def rows(call: TreeNode, name: str, depth: int, least: float, level: int = 0) -> Iterator[str]:
    """`cost  function`, indented by level; `least` is what a call must cost to be shown."""
    yield f"{call.cost:>9,}  {'  ' * level}{name}"
    if level == depth:
        return
    shown = {name: inner for name, inner in call.calls.items() if inner.cost >= least}
    for inner_name, inner in sorted(shown.items(), key=lambda item: -item[1].cost):
        yield from rows(inner, inner_name, depth, least, level + 1)
    rest = sum(inner.cost for name, inner in call.calls.items() if name not in shown)
    if rest:
        others = len(call.calls) - len(shown)
        yield f"{rest:>9,}  {'  ' * (level + 1)}… {others} other{'s' * (others > 1)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m analysis.tools.folded_tree", description=__doc__
    )
    parser.add_argument("file", type=Path, help="of a run's folded/")
    parser.add_argument(
        "--root", required=True, help="the function to begin at, such as ksys_write"
    )
    parser.add_argument("--depth", type=int, default=4, help="levels below it (default: 4)")
    parser.add_argument(
        "--least", type=float, default=5, help="per cent of the root to be shown (default: 5)"
    )
    given = parser.parse_args()
    try:
        found = tree(given.file.read_text(encoding="utf-8").splitlines(), given.root)
    except (OSError, ValueError) as error:
        print(f"pathcost: {given.file} cannot be read as folded stacks: {error}.", file=sys.stderr)
        return 1
    if not found.cost:
        print(f"pathcost: no stack of {given.file} has {given.root} in it.", file=sys.stderr)
        return 1
    for row in rows(found, given.root, given.depth, found.cost * given.least / 100):
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
