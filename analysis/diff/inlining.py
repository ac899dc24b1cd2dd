# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed between two round trips: work, or only the compiler's choice of what to inline.

A function is taken for inlined where its caller no longer calls it, nobody else calls it instead,
and the caller grew by about what the function took itself (by a quarter at least, and by no less
than that minus the price of its calls). Its instructions are then moved to the caller, so that the
caller's difference is what is left. A function that is no longer inlined is the mirror image.
Every instruction is in one place: the parts add up to the difference of the two round trips.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.diff.compare import ExactPair
from analysis.diff.renames import Renamed
from analysis.exact.cells import Node, summed
from analysis.exact.knobs import Moved

# Instructions that a call costs at most: call, endbr64, ret, six registers saved and restored.
CALL = 15
LEAST_SHARE = 4  # the caller has to grow by this part of the function: a quarter
Edge = tuple[str, str]  # caller, function


class Inlined(NamedTuple):
    """A function whose body is in its caller in one kernel, and what it takes in the other."""

    function: str
    caller: str
    instructions: int
    calls: int


@dataclass(frozen=True)
class Parts:
    """The difference of two round trips, in parts that add up to it."""

    work: tuple[Moved, ...]  # functions that take another number of instructions, renames joined
    calls_saved: tuple[Moved, ...]  # callers that differ by no more than the price of such calls
    inlined: tuple[Inlined, ...]  # in the second kernel
    outlined: tuple[Inlined, ...]  # no longer inlined there
    renamed: tuple[Renamed, ...]

    @property
    def of_work(self) -> int:
        return sum(moved.difference for moved in self.work)

    @property
    def of_inlining(self) -> int:
        return sum(moved.difference for moved in self.calls_saved)


def parts_of(pair: ExactPair) -> Parts:
    """The parts of a pair's difference."""
    renamed = pair.fates().renamed
    return parts(pair.before.nodes, pair.after.nodes, renamed)


def parts(before: Iterable[Node], after: Sequence[Node], renamed: Sequence[Renamed] = ()) -> Parts:
    """The parts of the difference of two call trees. Renamed functions have their new names."""
    now = {pair.old: pair.new for pair in renamed}
    first = [node_with(node, tuple(now.get(name, name) for name in node.path)) for node in before]
    inlined, outlined = find_inlined(first, after), find_inlined(after, first)
    own, calls = (
        [summed((node.path[-1], getattr(node, what)) for node in nodes) for nodes in (first, after)]
        for what in ("instructions", "calls")
    )
    for sums, found in zip(own, (inlined, outlined), strict=True):
        for function, caller, instructions, _ in found:
            sums[function] -= instructions
            sums[caller] += instructions
    price = prices(inlined), prices(outlined)
    work, saved = list[Moved](), list[Moved]()
    for name in {*own[0], *own[1]}:
        moved = Moved(name, *(sums[name] for sums in (*own, *calls)))
        if moved.difference:
            of_calls = -price[0][name] <= moved.difference <= price[1][name]
            (saved if of_calls else work).append(moved)
    for rows in (work, saved):
        rows.sort(key=lambda moved: (-abs(moved.difference), moved.name))
    return Parts(tuple(work), tuple(saved), tuple(inlined), tuple(outlined), tuple(renamed))


def node_with(node: Node, path: tuple[str, ...]) -> Node:
    """The node at another path."""
    return Node(path, node.calls, node.instructions, node.steps)


def prices(found: Iterable[Inlined]) -> Mapping[str, int]:
    """Caller → what the calls of its inlined functions cost at most."""
    return summed((row.caller, CALL * row.calls) for row in found)


def find_inlined(calling: Iterable[Node], inlining: Iterable[Node]) -> list[Inlined]:
    """The functions of `calling` whose bodies are in their callers in `inlining`."""
    calling, inlining = list(calling), list(inlining)
    trees = calling, inlining
    own_first, own = (
        summed((node.path[-1], node.instructions) for node in nodes) for nodes in trees
    )
    growth = Counter({name: own[name] - own_first[name] for name in own})
    fewer, edges = Counter[str](), {node.path[-2:] for node in inlining}
    for nodes, sign in ((calling, 1), (inlining, -1)):
        for node in nodes:
            fewer[node.path[-1]] += sign * node.calls
    gone = [node for node in calling if len(node.path) > 2 and node.path[-2:] not in edges]
    lost = summed((node.path[-1], node.calls) for node in gone)
    took, calls = Counter[Edge](), Counter[Edge]()
    for node in gone:
        function = node.path[-1]
        caller = next((name for name in reversed(node.path[1:-1]) if name in own), None)
        if caller is not None and lost[function] <= fewer[function]:
            took[caller, function] += node.instructions
            calls[caller, function] += node.calls
    found = []
    for (caller, function), instructions in sorted(took.items(), key=lambda row: (-row[1], row[0])):
        least = max(instructions - CALL * calls[caller, function], -(-instructions // LEAST_SHARE))
        if growth[caller] >= least > 0:
            growth[caller] -= instructions
            found.append(Inlined(function, caller, instructions, calls[caller, function]))
    return found
