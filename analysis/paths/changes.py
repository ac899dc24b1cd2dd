# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed between two exact cells: by a knob, or from one kernel to another.

Iterations of the steady round trip differ by some instructions where a clock or a timer has moved
on (the variants of probes/exact/README.md), and which variant is the most frequent is chance. So
those two are compared, of the first cell's and the second's, that are most alike, function by
function.

A function that only one of two cells calls appeared, vanished, or was renamed: the names differ by
the compiler's suffix alone (.isra.0, .part.0), or the new one is called by the same callers, as
often, under a similar name; where callers are not known, as often under a name that is more alike.

A function is taken for inlined where its caller no longer calls it, nobody else calls it instead,
and the caller grew by about what the function took itself (by a quarter at least, and by no less
than that minus the price of its calls). Its instructions are then moved to the caller, and the
caller's difference is what is left. A function that is no longer inlined is the mirror image.
Every instruction is in one place: the parts add up to the difference of the two round trips.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import NamedTuple

from analysis.counts.ledger import transport_order
from analysis.paths.cells import ExactCell, scheduling_text
from analysis.paths.tree import SUFFIX, Span, by_function, summed
from analysis.wording import size_text

# Of difflib's ratio: tcp_sendmsg and tcp_sendmsg_locked have 0.76, sk_stream_alloc_skb and
# tcp_stream_alloc_skb 0.87, kfree_skb and kfree_skb_reason 0.72, dequeue_task_rt and
# dequeue_task_fair 0.88: hence the callers too.
ALIKE = 0.7
MORE_ALIKE = 0.85  # where callers are not known: 0.71 would take fput for fget
UNKNOWN_CALLER = ""
# Instructions that a call costs at most: call, endbr64, ret, six registers saved and restored.
CALL = 15
LEAST_SHARE = 4  # the caller has to grow by this part of the function: a quarter

Edge = tuple[str, str]  # caller, function
# Kinds of parts: functions that take another number of instructions, renames joined; callers that
# differ by no more than the price of calls that are saved or added; and why they differ.
WORK, CALLS, RENAMED = "changed", "calls saved or added", "renamed from"
INLINED, OUTLINED = "inlined into", "no longer inlined into"
# A function's callers and how often they call it; UNKNOWN_CALLER where only calls were counted.
Callers = Mapping[str, Mapping[str, float]]


class Moved(NamedTuple):
    """A function or a layer: self instructions and calls of a round trip, before and after."""

    name: str
    before: int
    after: int
    calls_before: int = 0
    calls_after: int = 0

    @property
    def difference(self) -> int:
        return self.after - self.before

    @property
    def fate(self) -> str:
        """`added`, `vanished` or `changed`: whether it ran before, and after."""
        if self.before == 0:
            return "added"
        return "vanished" if self.after == 0 else "changed"


class Renamed(NamedTuple):
    """A function's two names: a rename is likely, and not certain."""

    old: str
    new: str


class Fates(NamedTuple):
    """What became of the functions that only one of two has."""

    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    renamed: tuple[Renamed, ...]


class Part(NamedTuple):
    """A function's part of the difference of two round trips: those of WORK and CALLS add up to it.

    `other` is the caller whose body holds an inlined function, or the old name of a renamed one.
    """

    kind: str
    moved: Moved
    other: str = ""


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
        """Return the instructions that a round trip takes more."""
        return self.after.total - self.before.total

    @property
    def difference(self) -> float:
        """Return the instructions that a message takes more."""
        return self.more / self.after.messages_per_iteration

    @property
    def share(self) -> float:
        """Return the difference as a part of what the message costs before."""
        return self.more / self.before.total

    @property
    def steps(self) -> float:
        """Return the steps that a message takes more."""
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
        """Return the instructions that one event costs."""
        return self.difference / self.events if self.events else None

    def layers(self) -> list[Moved]:
        """Return the layers that cost another amount, the greatest difference first."""
        before, after = self.before.layers(), self.after.layers()
        return _by_size(Moved(name, before[name], after[name]) for name in {*before, *after})

    def functions(self) -> list[Moved]:
        """Functions of which self instructions or calls differ, the greatest difference first."""
        sums = [counts() for cell in (self.before, self.after)
                for counts in (cell.functions, cell.calls)]  # fmt: skip
        before, calls_before, after, calls_after = sums
        return _by_size(
            Moved(name, before[name], after[name], calls_before[name], calls_after[name])
            for name in {*before, *after}
        )

    def fates(self) -> Fates:
        """Return the functions that only one of the two round trips calls."""
        return fates(callers(self.before.tree), callers(self.after.tree))

    def parts(self) -> list[Part]:
        """Return the parts of the difference."""
        return parts(self.before.tree, self.after.tree, self.fates().renamed)


def _by_size(rows: Iterable[Moved]) -> list[Moved]:
    moved = [row for row in rows if row.difference or row.calls_before != row.calls_after]
    return sorted(moved, key=lambda row: (-abs(row.difference), row.name))


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


def knob_pairs(cells: Iterable[ExactCell]) -> tuple[ExactPair, ...]:
    """Return every cell with a knob beside the same one without: by table, knob and transport."""
    plain = {(same_table(cell), cell.transport): cell for cell in cells if cell.knob is None}
    pairs = [
        most_alike(plain[key], cell)
        for cell in cells
        if cell.knob and (key := (same_table(cell), cell.transport)) in plain
    ]
    tables = list(dict.fromkeys(same_table(pair.after) for pair in pairs))
    knobs = list(dict.fromkeys(knob_name(pair) for pair in pairs))

    def order(pair: ExactPair) -> tuple[object, ...]:
        table, knob = tables.index(same_table(pair.after)), knobs.index(knob_name(pair))
        return table, knob, *transport_order(pair.transport)

    return tuple(sorted(pairs, key=order))


def same_table(cell: ExactCell) -> tuple[str, int, str, str]:
    """Return what the cells of one table of knobs have in common."""
    return cell.kernel, cell.size, cell.where, cell.sched


def knob_name(pair: ExactPair) -> str:
    return pair.after.knob.name if pair.after.knob else ""


def callers(tree: Iterable[Span]) -> dict[str, Counter[str]]:
    """Return function → its callers, and how often they call it."""
    by: dict[str, Counter[str]] = {}
    for span in tree:
        if len(span.path) > 2:
            by.setdefault(span.path[-1], Counter())[span.path[-2]] += span.calls
    return by


def fates(before: Callers, after: Callers) -> Fates:
    """Each name is in one of the three; a new name stands for one old one at most."""
    gone = {name for name in before if name not in after}
    new = {name for name in after if name not in before}
    renamed = [Renamed(*pair) for pair in _pairs(gone, new, _suffix_only)]
    same = {pair.old: pair.new for pair in renamed}

    def placed_alike(old: str, fresh: str) -> float:
        moved = {same.get(name, name): n for name, n in before[old].items()}
        if moved != dict(after[fresh]):
            return 0
        ratio = SequenceMatcher(None, old, fresh).ratio()
        return ratio if ratio >= (MORE_ALIKE if UNKNOWN_CALLER in moved else ALIKE) else 0

    left = gone - same.keys(), new - set(same.values())
    renamed += [Renamed(*pair) for pair in _pairs(*left, placed_alike)]
    return Fates(
        tuple(sorted(new - {pair.new for pair in renamed})),
        tuple(sorted(gone - {pair.old for pair in renamed})),
        tuple(renamed),
    )


def _pairs(
    gone: Set[str], new: Set[str], score: Callable[[str, str], float]
) -> list[tuple[str, str]]:
    """Return the best ones first, each name once."""
    scored = [(-s, old, fresh) for old in gone for fresh in new if (s := score(old, fresh))]
    taken: set[str] = set()
    best = []
    for _, old, fresh in sorted(scored):
        if old not in taken and fresh not in taken:
            taken |= {old, fresh}
            best.append((old, fresh))
    return best


def _suffix_only(old: str, fresh: str) -> float:
    return float(SUFFIX.sub("", old) == SUFFIX.sub("", fresh))


def parts(
    before: Iterable[Span], after: Sequence[Span], renamed: Sequence[Renamed] = ()
) -> list[Part]:
    """The parts of the difference of two call trees. Renamed functions have their new names."""
    now = {pair.old: pair.new for pair in renamed}
    first = [s._replace(path=tuple(now.get(name, name) for name in s.path)) for s in before]
    inlined, outlined = find_inlined(first, after), find_inlined(after, first)
    own = [by_function(tree) for tree in (first, after)]
    calls = [summed((span.path[-1], span.calls) for span in tree) for tree in (first, after)]
    prices = []  # caller → what the calls of its inlined functions cost at most
    for sums, found in zip(own, (inlined, outlined), strict=True):
        for (caller, function), span in found.items():
            sums[function] -= span.instructions
            sums[caller] += span.instructions
        prices.append(summed((caller, CALL * span.calls) for (caller, _), span in found.items()))
    moved = _by_size(
        Moved(name, *(sums[name] for sums in (*own, *calls))) for name in {*own[0], *own[1]}
    )
    saved, added = prices
    made = [
        Part(CALLS if -saved[row.name] <= row.difference <= added[row.name] else WORK, row)
        for row in moved if row.difference
    ]  # fmt: skip
    made.sort(key=lambda part: part.kind != WORK)
    for (caller, name), span in inlined.items():
        made.append(Part(INLINED, Moved(name, span.instructions, 0, span.calls), caller))
    for (caller, name), span in outlined.items():
        made.append(Part(OUTLINED, Moved(name, 0, span.instructions, 0, span.calls), caller))
    return [*made, *(Part(RENAMED, Moved(pair.new, 0, 0), pair.old) for pair in renamed)]


def find_inlined(calling: Sequence[Span], inlining: Sequence[Span]) -> dict[Edge, Span]:
    """The functions of `calling` whose bodies are in their callers in `inlining`, and what each
    takes there."""
    own_first, own = by_function(calling), by_function(inlining)
    growth = Counter({name: own[name] - own_first[name] for name in own})
    edges = {span.path[-2:] for span in inlining}
    fewer = summed((span.path[-1], span.calls) for span in calling)
    fewer.subtract(summed((span.path[-1], span.calls) for span in inlining))
    gone = [span for span in calling if len(span.path) > 2 and span.path[-2:] not in edges]
    lost = summed((span.path[-1], span.calls) for span in gone)
    took: dict[Edge, Span] = {}
    for span in gone:
        function = span.path[-1]
        caller = next((name for name in reversed(span.path[1:-1]) if name in own), None)
        if caller is not None and lost[function] <= fewer[function]:
            edge = (caller, function)
            sums = took.get(edge, Span(edge, 0))
            took[edge] = sums._replace(
                instructions=sums.instructions + span.instructions, calls=sums.calls + span.calls
            )
    found = {}
    for edge, span in sorted(took.items(), key=lambda row: (-row[1].instructions, row[0])):
        least = max(span.instructions - CALL * span.calls, -(-span.instructions // LEAST_SHARE))
        if growth[edge[0]] >= least > 0:
            growth[edge[0]] -= span.instructions
            found[edge] = span
    return found
