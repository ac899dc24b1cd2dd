# SPDX-License-Identifier: GPL-2.0-or-later
"""The journey of one message: from the sender's system call to the receiver's return from its own.

Out of exact mode's steady round trip (analysis/exact/iteration.py), in the order in which it ran.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pandas as pd

from analysis.exact.cells import PREEMPTION, Comparison, ExactCell, copiers, summed
from analysis.exact.iteration import (
    RECEIVE,
    SEND,
    Slice,
    Span,
    first_layer,
    layers,
    message,
    slices,
)
from analysis.functions.layers import layer_of

SOFTIRQ = "net_rx_action"
WAKEUP = "try_to_wake_up"  # the kernel's function, whoever is woken
COLUMNS = ("transport", "kind", "name", "depth", "start", "instructions")


@dataclass(frozen=True)
class Mark:
    """Something that happens at an instruction of the journey."""

    kind: str  # copy, wake-up, switch, preempted
    at: int
    words: str


@dataclass(frozen=True)
class Box(Slice):
    """A layer of the journey."""

    function: str  # that it begins with
    own: int  # instructions of the layer itself, without what lies below it
    copies: int  # of payload, in it and below


@dataclass(frozen=True)
class Journey:
    """One transport's message. Widths and places are instructions since the sender's call."""

    transport: str
    total: int
    stages: tuple[Slice, ...]  # who is in which system call, one after the other
    boxes: tuple[Box, ...]  # layers, each below the one that called it
    marks: tuple[Mark, ...]
    softirq: dict[str, int]  # instructions of the receive softirq, by whose call it runs in

    @property
    def title(self) -> str:
        """The heading of its figure."""
        return f"{self.transport}: {self.total:,} instructions, client to server"

    @property
    def woken_ahead(self) -> bool:
        """Whether the receiver is awake before its message comes: nobody is woken for it."""
        kinds = [mark.kind for mark in self.marks if mark.kind != "copy"]
        return kinds[:1] == ["switch"] and "wake-up" in kinds

    def count(self, kind: str) -> int:
        return sum(mark.kind == kind for mark in self.marks)

    def by_stage(self) -> list[tuple[str, int]]:
        """Stages of one name together, in the order in which each began."""
        return list(summed((stage.name, stage.width) for stage in self.stages).items())


def journeys(comparison: Comparison, others: Sequence[Comparison] = ()) -> tuple[Journey, ...]:
    """One for each transport whose iteration the run kept.

    `others` may know who copies payload: not every cell was followed.
    """
    cells = [cell for found in (comparison, *others) for cell in found.cells]
    known = copiers(cells, comparison.kernel)
    return tuple(found for cell in comparison.cells if (found := _journey(cell, known)))


def _journey(cell: ExactCell, known: frozenset[str]) -> Journey | None:
    way = message(cell.iteration)
    if not way:
        return None
    marks = tuple(_marks(way, known))
    return Journey(
        cell.transport,
        sum(span.instructions for span in way),
        tuple(_stages(way)),
        tuple(sorted(_boxes(way, marks), key=lambda box: (box.depth, box.start))),
        marks,
        _softirq(way),
    )


def _boxes(way: Sequence[Span], marks: Sequence[Mark]) -> Iterator[Box]:
    starts = list(accumulate((span.instructions for span in way), initial=0))
    own: Counter[tuple[int, int]] = Counter()
    for span, start in zip(way, starts, strict=False):
        own[len(layers(span)) - 1, start] += span.instructions
    copies = [mark.at for mark in marks if mark.kind == "copy"]
    for box in slices(way, layers):
        end = box.start + box.width
        inside = range(bisect_left(starts, box.start), bisect_left(starts, end))
        yield Box(
            box.name, box.depth, box.start, box.width,
            _entry(way[inside[0]], box.depth) if inside else "",
            sum(own[box.depth, starts[place]] for place in inside),
            sum(box.start <= at < end for at in copies),
        )  # fmt: skip


def _entry(span: Span, depth: int) -> str:
    """The function that a span's layer at this depth begins with."""
    names = [layer_of(span.path[:n]).name for n in range(first_layer(span), len(span.path) + 1)]
    begins = [n for n, name in enumerate(names) if not n or name != names[n - 1]]
    return span.path[first_layer(span) - 1 + begins[depth]]


def _softirq(way: Sequence[Span]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for span in way:
        if SOFTIRQ in span.path:
            sums[f"the {span.task}'s {span.call}()" if span.call else span.task] += (
                span.instructions
            )
    return dict(sums)


def _stages(way: Sequence[Span]) -> Iterator[Slice]:
    """The way into a system call and out of it belongs to that call."""
    calls = [span.call for span in way]
    for task in {span.task for span in way}:  # each by itself: on two CPUs they take turns
        mine = [n for n, span in enumerate(way) if span.task == task]
        for order in (mine[::-1], mine):
            for beside, n in pairwise(order):
                if not calls[n] and not way[n].in_user:
                    calls[n] = calls[beside]
    named = {}
    for span, call in zip(way, calls, strict=True):
        where = f"{call}()" if call else "user space" if span.in_user else "kernel"
        named[id(span)] = (f"{span.task}: {where}",)
    return slices(way, lambda span: named[id(span)])


def _marks(way: Sequence[Span], copiers: frozenset[str]) -> Iterator[Mark]:
    """Copies by who copies payload, as exact mode's payload window saw it."""
    at = 0
    nobody = Span(way[0].cpu, (way[0].task,), 0)
    for before, span in pairwise((nobody, *way)):
        if span.cpu == before.cpu and span.task != before.task:
            kind = "preempted" if PREEMPTION.search(";".join(before.path)) else "switch"
            yield Mark(kind, at, f"{kind} to {span.task}")
        if span.path[-1] in copiers:
            where = " in" if span.is_in(SEND) else " out" if span.is_in(RECEIVE) else ""
            yield Mark("copy", at, f"copy{where}")
        if span.path[-1] == WAKEUP and WAKEUP not in before.path:
            # The last caller whose name says nothing of waking: unix_write_space, say.
            cause = next(name for name in reversed(span.path) if "wake" not in name)
            yield Mark("wake-up", at, f"wake-up: {cause}")
        at += span.instructions


def table(found: Sequence[Journey]) -> pd.DataFrame:
    """A row for each stage, box and mark: what the figure was drawn from."""
    rows: list[tuple[object, ...]] = []
    for journey in found:
        name = journey.transport
        for kind, parts in (("stage", journey.stages), ("box", journey.boxes)):
            rows += [(name, kind, p.name, p.depth, p.start, p.width) for p in parts]
        rows += [(name, "mark", mark.words, 0, mark.at, 0) for mark in journey.marks]
    return pd.DataFrame(rows, columns=list(COLUMNS))
