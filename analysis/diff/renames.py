# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that one run calls and the other does not: appeared, vanished, or renamed.

A function counts as renamed where the two names differ by the compiler's suffix alone (.isra.0,
.part.0), or where the new one is called by the same callers, as often, under a similar name; where
callers are not known, as often under a name that is more alike. The latter two are likely and not
certain, so it is said how it was told.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from difflib import SequenceMatcher
from typing import NamedTuple

from analysis.exact.cells import ExactCell
from analysis.functions.layers import SUFFIX

# Of difflib's ratio: tcp_sendmsg and tcp_sendmsg_locked have 0.76, sk_stream_alloc_skb and
# tcp_stream_alloc_skb 0.87, kfree_skb and kfree_skb_reason 0.72, dequeue_task_rt and
# dequeue_task_fair 0.88: hence the callers too.
ALIKE = 0.7
MORE_ALIKE = 0.85  # where callers are not known: 0.71 would take fput for fget
BY_SUFFIX, BY_PLACE = "but for the compiler's suffix", "same callers, as many calls, similar name"
BY_CALLS = "as many calls, similar name"
UNKNOWN_CALLER = ""


class Renamed(NamedTuple):
    old: str
    new: str
    told_by: str


class Fates(NamedTuple):
    """What became of the functions that only one of two has."""

    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    renamed: tuple[Renamed, ...]


# A function's callers and how often they call it; UNKNOWN_CALLER where only calls were counted.
Callers = Mapping[str, Mapping[str, float]]


def callers(cell: ExactCell) -> dict[str, Counter[str]]:
    """Of an exact cell's round trip."""
    found: dict[str, Counter[str]] = {}
    for node in cell.nodes:
        if len(node.path) > 2:
            found.setdefault(node.path[-1], Counter())[node.path[-2]] += node.calls
    return found


def fates(before: Callers, after: Callers) -> Fates:
    """Each name is in one of the three; a new name stands for one old one at most."""
    gone = {name for name in before if name not in after}
    new = {name for name in after if name not in before}
    found = [Renamed(old, fresh, BY_SUFFIX) for old, fresh in _pairs(gone, new, _suffix_only)]
    same = {pair.old: pair.new for pair in found}

    def placed_alike(old: str, fresh: str) -> float:
        moved = {same.get(name, name): n for name, n in before[old].items()}
        if moved != dict(after[fresh]):
            return 0
        ratio = SequenceMatcher(None, old, fresh).ratio()
        return ratio if ratio >= (MORE_ALIKE if UNKNOWN_CALLER in moved else ALIKE) else 0

    left = gone - same.keys(), new - set(same.values())
    for old, fresh in _pairs(*left, placed_alike):
        found.append(Renamed(old, fresh, BY_CALLS if UNKNOWN_CALLER in before[old] else BY_PLACE))
    return Fates(
        tuple(sorted(new - {pair.new for pair in found})),
        tuple(sorted(gone - {pair.old for pair in found})),
        tuple(found),
    )


def _pairs(
    gone: Set[str], new: Set[str], score: Callable[[str, str], float]
) -> list[tuple[str, str]]:
    """The best ones first, each name once."""
    scored = [(-s, old, fresh) for old in gone for fresh in new if (s := score(old, fresh))]
    taken: set[str] = set()
    found = []
    for _, old, fresh in sorted(scored):
        if old not in taken and fresh not in taken:
            taken |= {old, fresh}
            found.append((old, fresh))
    return found


def _suffix_only(old: str, fresh: str) -> float:
    return float(SUFFIX.sub("", old) == SUFFIX.sub("", fresh))
