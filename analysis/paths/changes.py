# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed between two exact cells: by a knob, or from one kernel to another.

Iterations of the steady round trip differ by some instructions where a clock or a timer has moved
on (the variants of probes/exact/README.md), and which variant is the most frequent is chance. So
those two are compared, of the first cell's and the second's, that are most alike, function by
function.

A function that only one of two cells calls appeared, vanished, or was renamed: the names differ by
the compiler's suffix alone (.isra.0, .part.0), or the new one is called by the same callers, as
often, under a similar name.

A function is taken for inlined where its caller no longer calls it, nobody else calls it instead,
and the caller grew: by no less than what the function took itself minus the price of its calls.
Where a call was taken out and nothing came in its place, the caller shrinks. If the caller also
calls something new, itself or by others, that may be the function under another name, and a few
instructions say little: the caller has to grow by a quarter of the function. The function's
instructions are then moved to the caller, and the caller's difference is what is left. A function
that is no longer inlined is the mirror image.
Every instruction is in one place: the parts add up to the difference of the two round trips.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pandas as pd

from analysis.counts.ledger import transport_order
from analysis.paths.cells import ExactCell, scheduling_text
from analysis.paths.tree import Span, by_function, calls_of
from analysis.wording import size_text
from probes.functions import COMPILED

# Of difflib's ratio: tcp_sendmsg and tcp_sendmsg_locked have 0.76, sk_stream_alloc_skb and
# tcp_stream_alloc_skb 0.87, kfree_skb and kfree_skb_reason 0.72, dequeue_task_rt and
# dequeue_task_fair 0.88: hence the callers too.
ALIKE = 0.7
# Instructions that a call costs at most: call, endbr64, ret, six registers saved and restored, six
# arguments set.
CALL_COST = 21
LEAST_GROWTH = 4  # the part of the function by which a caller that calls something new has to grow

Edge = tuple[str, str]  # caller, function
NO_CALLS = Counter[str]()
# Kinds of parts: functions that take another number of instructions, renames joined; callers that
# differ by no more than the price of calls that are saved or added; and why they differ.
WORK, ONLY_CALLS, RENAMED = "changed", "calls saved or added", "renamed from"
INLINED, OUTLINED = "inlined into", "no longer inlined into"


class Moved(NamedTuple):
    """A function or a layer: self instructions and calls of a round trip, before and after.

    A part of a difference has a kind: those of WORK and CALLS add up to it. `other` is the caller
    whose body holds an inlined function, or the old name of a renamed one.
    """

    name: str
    before: int
    after: int
    calls_before: int = 0
    calls_after: int = 0
    kind: str = ""
    other: str = ""

    @property
    def difference(self) -> int:
        return self.after - self.before

    @property
    def fate(self) -> str:
        """What became of it: its kind; of no part `added`, `vanished` or `changed`."""
        if self.kind:
            return f"{self.kind} {self.other}".rstrip()
        return "added" if self.before == 0 else "vanished" if self.after == 0 else "changed"


@dataclass(frozen=True)
class ExactPair:
    """One cell in two conditions: without a knob and with it, or on two kernels."""

    before: ExactCell
    after: ExactCell

    @property
    def transport(self) -> str:
        return self.after.transport

    @property
    def words(self) -> str:
        return (
            f"{self.after.transport}, {size_text(self.after.size)}, {self.after.where}, "
            f"{scheduling_text(self.after.sched)}"
        )

    @property
    def valid(self) -> bool:
        return not self.before.broken and not self.after.broken

    @property
    def more(self) -> int:
        """The instructions that a round trip takes more."""
        return self.after.total - self.before.total

    @property
    def difference(self) -> float:
        """The instructions that a message takes more."""
        return self.more / self.after.messages_per_iteration

    @property
    def share(self) -> float:
        """The difference as a part of what the message costs before."""
        return self.more / self.before.total

    @property
    def steps(self) -> float:
        """The steps that a message takes more."""
        return (self.after.steps - self.before.steps) / self.after.messages_per_iteration

    @property
    def events(self) -> float:
        """Events of a message, where the knob is a probe: calls of what it calls for each."""
        knob = self.after.knob
        if not (knob and knob.event):
            return 0
        calls = self.after.calls().items()
        events = sum(n for name, n in calls if fnmatchcase(name, knob.event))
        return events / self.after.messages_per_iteration

    @property
    def of_an_event(self) -> float | None:
        """The instructions that one event costs."""
        return self.difference / self.events if self.events else None

    def layers(self) -> list[Moved]:
        """The layers that cost another amount, the greatest difference first."""
        return _moved(self.before.layers(), self.after.layers())

    def functions(self) -> list[Moved]:
        """Functions of which self instructions or calls differ, the greatest difference first."""
        first, second = self.before, self.after
        return _moved(first.functions(), second.functions(), first.calls(), second.calls())

    def renamed(self) -> dict[str, str]:
        """Old name → new name: a rename is likely, and not certain."""
        return renames(callers(self.before.tree), callers(self.after.tree))

    def parts(self) -> list[Moved]:
        return parts(self.before.tree, self.after.tree, self.renamed())


def _moved(
    before: Counter[str],
    after: Counter[str],
    calls_before: Counter[str] = NO_CALLS,
    calls_after: Counter[str] = NO_CALLS,
) -> list[Moved]:
    """What is not equal, the greatest difference first."""
    rows = (
        Moved(name, before[name], after[name], calls_before[name], calls_after[name])
        for name in {*before, *after}
    )
    moved = [row for row in rows if row.difference or row.calls_before != row.calls_after]
    return sorted(moved, key=lambda row: (-abs(row.difference), row.name))


def cell_name(cell: str) -> str:
    """A cell's words without the conditions that a gate counts unless it is given others."""
    return cell.removesuffix(" same-cpu+fifo")


def df_parts(pairs: Iterable[ExactPair]) -> pd.DataFrame:
    """Each function that differs, with its instructions in the first and the second cell."""
    rows = [
        (cell_name(str(pair.after.cell)), part.name, part.before, part.after, part.fate)
        for pair in pairs
        for part in pair.parts()
    ]
    return pd.DataFrame(rows, columns=["cell", "function", "first", "second", "fate"])


def most_alike(before: ExactCell, after: ExactCell) -> ExactPair:
    """The pair of variants between which the fewest instructions move; of equals the usual one."""
    firsts, seconds = (
        [cell.as_variant(n).functions() for n in range(len(cell.variants) + 1)]
        for cell in (before, after)
    )
    _, _, n, m = min(
        (sum(abs(first[name] - second[name]) for name in {*first, *second}), n + m, n, m)
        for n, first in enumerate(firsts)
        for m, second in enumerate(seconds)
    )
    return ExactPair(before.as_variant(n), after.as_variant(m))


def exact_pairs(
    before: Iterable[ExactCell], after: Iterable[ExactCell], place: Callable[[ExactCell], Any]
) -> list[ExactPair]:
    """The cells of the second that the first has at the same place, beside the first's."""
    first = {place(cell): cell for cell in before}
    return [most_alike(first[place(cell)], cell) for cell in after if place(cell) in first]


def knob_pairs(cells: Sequence[ExactCell]) -> tuple[ExactPair, ...]:
    """Every cell with a knob beside the same one without: by table, knob and transport."""
    plain, turned = ([c for c in cells if bool(c.knob) is knob] for knob in (False, True))
    pairs = exact_pairs(plain, turned, lambda cell: (same_table(cell), cell.transport))
    tables, knobs = (
        list(dict.fromkeys(map(name, pairs))) for name in (lambda p: same_table(p.after), knob_name)
    )
    return tuple(
        sorted(
            pairs,
            key=lambda pair: (
                tables.index(same_table(pair.after)),
                knobs.index(knob_name(pair)),
                *transport_order(pair.transport),
            ),
        )
    )


def same_table(cell: ExactCell) -> tuple[str, int, str, str]:
    """What the cells of one table of knobs have in common."""
    return cell.kernel, cell.size, cell.where, cell.sched


def knob_name(pair: ExactPair) -> str:
    return pair.after.knob.name if pair.after.knob else ""


def callers(tree: Iterable[Span]) -> dict[str, Counter[str]]:
    """Function → its callers, and how often they call it."""
    by: dict[str, Counter[str]] = {}
    for span in tree:
        if len(span.path) > 2:
            by.setdefault(span.path[-1], Counter())[span.path[-2]] += span.calls
    return by


def renames(before: dict[str, Counter[str]], after: dict[str, Counter[str]]) -> dict[str, str]:
    """Old name → new name of functions by their callers; each name is there once."""

    def suffix_alone(old: str, new: str) -> float:
        return float(COMPILED.sub("", old) == COMPILED.sub("", new))

    def placed_alike(old: str, new: str) -> float:
        if {names.get(name, name): calls for name, calls in before[old].items()} != after[new]:
            return 0
        ratio = SequenceMatcher(None, old, new).ratio()
        return ratio if ratio >= ALIKE else 0

    gone, came = before.keys() - after.keys(), after.keys() - before.keys()
    names = _pairs(gone, came, suffix_alone)
    return names | _pairs(gone - names.keys(), came - {*names.values()}, placed_alike)


def _pairs(gone: Set[str], came: Set[str], score: Callable[[str, str], float]) -> dict[str, str]:
    """Old name → new name: the pairs with the best score, each name once."""
    best: dict[str, str] = {}
    scored = [(-s, old, new) for old in gone for new in came if (s := score(old, new))]
    for _, old, new in sorted(scored):
        if old not in best and new not in best.values():
            best[old] = new
    return best


def parts(before: Iterable[Span], after: Sequence[Span], renamed: dict[str, str]) -> list[Moved]:
    """The parts of the difference of two call trees. Renamed functions have their new names."""
    first = [s._replace(path=tuple(renamed.get(name, name) for name in s.path)) for s in before]
    own, calls = ([count(tree) for tree in (first, after)] for count in (by_function, calls_of))
    made = []
    saved, added = (Counter[str](), Counter[str]())  # what calls of inlined functions cost at most
    for kind, trees, sums, prices in (
        (INLINED, (first, after), own[0], saved),
        (OUTLINED, (after, first), own[1], added),
    ):
        for (caller, name), (size, count_) in find_inlined(*trees).items():
            sums[name] -= size
            sums[caller] += size
            prices[caller] += CALL_COST * count_
            counts = (size, 0, count_, 0) if kind == INLINED else (0, size, 0, count_)
            made.append(Moved(name, *counts, kind, caller))
    rows = [
        row._replace(
            kind=ONLY_CALLS if -saved[row.name] <= row.difference <= added[row.name] else WORK
        )
        for row in _moved(*own, *calls)
        if row.difference
    ]
    rows.sort(key=lambda row: row.kind != WORK)
    return [*rows, *made, *(Moved(new, 0, 0, 0, 0, RENAMED, old) for old, new in renamed.items())]


def find_inlined(calling: Sequence[Span], inlining: Sequence[Span]) -> dict[Edge, tuple[int, int]]:
    """The functions of `calling` whose bodies are in their callers in `inlining`: what each takes
    there, and how often it was called."""
    growth = by_function(inlining)
    own = growth.keys()
    growth.subtract({name: n for name, n in by_function(calling).items() if name in own})
    edges = {span.path[-2:] for span in inlining}
    gone = [span for span in calling if len(span.path) > 2 and span.path[-2:] not in edges]
    fewer, lost = calls_of(calling), calls_of(gone)
    fewer.subtract(calls_of(inlining))
    took: dict[Edge, tuple[int, int]] = {}
    for span in gone:
        function = span.path[-1]
        caller = next((name for name in reversed(span.path[1:-1]) if name in own), None)
        if caller is not None and lost[function] <= fewer[function]:
            size, calls = took.get((caller, function), (0, 0))
            took[caller, function] = size + span.instructions, calls + span.calls
    reaches_new = _above_new(calling, inlining)
    inlined = {}
    for edge, (size, calls) in sorted(took.items(), key=lambda row: (-row[1][0], row[0])):
        least = max(size - CALL_COST * calls, 1)
        caller, _ = edge
        if caller in reaches_new:
            least = max(least, -(-size // LEAST_GROWTH))
        if size > 0 and growth[caller] >= least:
            growth[caller] -= size
            inlined[edge] = size, calls
    return inlined


def _above_new(before: Iterable[Span], after: Sequence[Span]) -> set[str]:
    """The functions of `after` below which a function is called that `before` does not have."""
    known = {span.path[-1] for span in before}
    return {name for span in after if span.path[-1] not in known for name in span.path[:-1]}
