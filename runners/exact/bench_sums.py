# SPDX-License-Identifier: GPL-2.0-or-later
"""Sums of a program's calls: a row for each kind of call, and the tree of who called whom."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from runners.exact.bench_calls import BenchReplay
from runners.exact.bench_tasks import OF_OTHERS, CallKey, CallSum, Shape
from runners.exact.machine import digest
from runners.exact.replay import CallTree, Counts

NAMED_FUNCTIONS = 1  # functions in a shape's name
HEAVY = 1 << 20  # what weighs more than any number of calls


class BenchSums:
    """What a replayed program has done in all."""

    def __init__(self, replayed: BenchReplay) -> None:
        self._replayed = replayed

    def tree(self) -> tuple[CallTree, Counts]:
        """Return who called whom, and how much: whose, functions of user space, the kernel's."""
        tree, counts = CallTree(), Counts()
        for (whose, function), ran in self._replayed.functions.items():
            node = tree.child(tree.child(0, whose), function)
            counts.steps[node] += ran
        for task in self._replayed.tasks:
            root = task.whose if task.whose != OF_OTHERS else f"other: {task.name}"
            for (above, number), times in task.parts.items():
                below = (root, *above)
                self._add_part(tree, counts, below, self._replayed.parts[number].counts, times)
        return tree, counts

    def _add_part(
        self, tree: CallTree, counts: Counts, below: tuple[str, ...], part: Counts, times: int
    ) -> None:
        """Add what a part of the kernel's path counts, so many times, below these functions."""
        for name, counter in vars(part).items():
            for node, n in counter.items():
                path = below + tuple(self._replayed.tree.path(node)[2:])
                at = 0
                for function in path:
                    at = tree.child(at, function)
                getattr(counts, name)[at] += n * times

    def _shape_name(self, shape: Shape, usual: Shape) -> str:
        """Return what a shape has more than the usual one of its call; empty for that itself."""
        more = Counter(dict(shape))
        more.subtract(dict(usual))
        if not any(more.values()):
            return ""
        # Of functions that only one of them calls, those that the functions of both call.
        weights: Counter[str] = Counter({name: abs(n) for name, n in more.items() if n})
        for mine, other in ((shape, usual), (usual, shape)):
            only = dict(mine).keys() - dict(other).keys()
            edges = {edge for part in self._replayed.examples[mine] for edge in part.called}
            inclusive = self._inclusive(mine)
            for function, caller in edges:
                if function in only and caller not in only:
                    weights[function] += HEAVY + inclusive[function]
        ranked = sorted(weights, key=lambda name: (-weights[name], name))
        return ", ".join(f"{name} {more[name]:+d}" for name in ranked[:NAMED_FUNCTIONS])

    def _inclusive(self, shape: Shape) -> Counter[str]:
        """Return what functions, and all that they call, execute in a call of this shape."""
        sums: Counter[str] = Counter()
        for part in self._replayed.examples[shape]:
            for node, n in part.counts.steps.items():
                for function in set(self._replayed.tree.path(node)):
                    sums[function] += n
        return sums

    def rows(self) -> list[dict[str, Any]]:
        """Return the program's and the server's calls, as bench.json has them."""
        sums: dict[tuple[str, CallKey], CallSum] = {}
        for task in self._replayed.tasks:
            for key, one in task.sums.items():
                total = sums.setdefault((task.whose, key), CallSum())
                for name, value in vars(one).items():
                    setattr(total, name, getattr(total, name) + value)
        usual: dict[str, CallKey] = {}
        ranked = sorted(sums.items(), key=lambda item: (-item[1].calls, -item[1].kernel))
        for (_, key), _ in ranked:
            usual.setdefault(key.call, key)
        return [
            {
                "whose": whose,
                "phase": key.phase,
                "call": key.call,
                "site": key.site,
                "shape": self._shape_name(key.shape, usual[key.call].shape),
                "shape_id": digest(repr(sorted(key.shape)).encode())[:12],
                "calls": total.calls,
                "kernel": total.kernel,
                "usual": max(total.costs, key=lambda cost: (total.costs[cost], -cost)),
                "identical": max(total.costs.values()),
                "least": min(total.costs),
                "most": max(total.costs),
                "user_before": total.user_before,
                "interrupts": total.interrupts,
            }
            for (whose, key), total in ranked
        ]

    def by_owner(self) -> Mapping[str, Any]:
        """Return sums by whose they are, as bench.json has them."""
        sums: dict[str, Counter[str]] = {}
        for task in self._replayed.tasks:
            total = sums.setdefault(task.whose, Counter())
            total["tasks"] += 1
            total["user"] += task.user
            total["calls"] += sum(one.calls for one in task.sums.values())
            total["kernel"] += sum(one.kernel for one in task.sums.values())
            total["interrupts"] += sum(one.interrupts for one in task.sums.values())
            total.update({f"{kind}s": n for kind, n in task.spent.items()})
        return sums
