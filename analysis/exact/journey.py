# SPDX-License-Identifier: GPL-2.0-or-later
"""The journey of one message: from the sender's system call to the receiver's return from its own.

Out of exact mode's steady round trip (analysis/exact/iteration.py), in the order in which it ran.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from analysis.exact.cells import PREEMPTION, Comparison, ExactCell
from analysis.exact.iteration import Path, Slice, Span, layers, message, slices
from analysis.functions.calltree import RECEIVE, SEND, SOFTIRQ

WAKEUP = "try_to_wake_up"  # the kernel's function, whoever is woken
COLUMNS = ("transport", "kind", "name", "depth", "start", "instructions")


@dataclass(frozen=True)
class Mark:
    """Something that happens at an instruction of the journey."""

    kind: str  # copy, wake-up, switch, preempted
    at: int
    words: str


@dataclass(frozen=True)
class Journey:
    """One transport's message. Widths and places are instructions since the sender's call."""

    transport: str
    total: int
    stages: tuple[Slice, ...]  # who is in which system call, one after the other
    boxes: tuple[Slice, ...]  # layers, each below the one that called it
    marks: tuple[Mark, ...]
    softirq: dict[str, int]  # instructions of the receive softirq, by whose call it runs in

    @property
    def woken_ahead(self) -> bool:
        """Whether the receiver is awake before its message comes: nobody is woken for it."""
        kinds = [mark.kind for mark in self.marks if mark.kind != "copy"]
        return kinds[:1] == ["switch"] and "wake-up" in kinds

    def count(self, kind: str) -> int:
        return sum(mark.kind == kind for mark in self.marks)

    def by_stage(self) -> list[tuple[str, int]]:
        """Stages of one name together, in the order in which each began."""
        sums: Counter[str] = Counter()
        for one in self.stages:
            sums[one.name] += one.width
        return list(sums.items())


def journeys(comparison: Comparison) -> tuple[Journey, ...]:
    """One for each transport whose iteration the run kept."""
    return tuple(found for cell in comparison.cells if (found := _journey(cell, comparison)))


def _journey(cell: ExactCell, comparison: Comparison) -> Journey | None:
    way = message(cell.iteration)
    if not way:
        return None
    copiers = frozenset(cell.payload.copiers) if cell.payload else _copiers(comparison)
    return Journey(
        cell.transport,
        sum(one.steps for one in way),
        tuple(_stages(way)),
        tuple(sorted(slices(way, layers), key=lambda box: (box.depth, box.start))),
        tuple(_marks(way, copiers)),
        _softirq(way),
    )


def _copiers(comparison: Comparison) -> frozenset[str]:
    """Of the other transports: the kernel's function that copies from and to users is one."""
    return frozenset(
        name for cell in comparison.cells if cell.payload for name in cell.payload.copiers
    )


def _softirq(way: Sequence[Span]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for one in way:
        if SOFTIRQ in one.path:
            sums[_whose(one) if one.call else one.task] += one.steps
    return dict(sums)


def _whose(one: Span) -> str:
    return f"the {one.task}'s {one.call}()"


def _stages(way: Sequence[Span]) -> Iterator[Slice]:
    """The way into a system call and out of it belongs to that call."""
    calls = [one.call for one in way]
    for task in {one.task for one in way}:  # each by itself: on two CPUs they take turns
        mine = [n for n, one in enumerate(way) if one.task == task]
        for order in (mine[::-1], mine):
            for beside, n in pairwise(order):
                if not calls[n] and not way[n].in_user:
                    calls[n] = calls[beside]
    named = {id(one): (_stage(one, call),) for one, call in zip(way, calls, strict=True)}
    return slices(way, lambda one: named[id(one)])


def _stage(one: Span, call: str) -> str:
    where = f"{call}()" if call else "user space" if one.in_user else "kernel"
    return f"{one.task}: {where}"


def _marks(way: Sequence[Span], copiers: frozenset[str]) -> Iterator[Mark]:
    """Copies by who copies payload, as exact mode's payload window saw it."""
    at = 0
    nobody = Span(way[0].cpu, (way[0].task,), 0)
    for before, one in pairwise((nobody, *way)):
        if one.cpu == before.cpu and one.task != before.task:
            kind = "preempted" if PREEMPTION.search(";".join(before.path)) else "switch"
            yield Mark(kind, at, f"{kind} to {one.task}")
        if one.path[-1] in copiers:
            where = " in" if one.is_in(SEND) else " out" if one.is_in(RECEIVE) else ""
            yield Mark("copy", at, f"copy{where}")
        if one.path[-1] == WAKEUP and WAKEUP not in before.path:
            yield Mark("wake-up", at, f"wake-up: {_cause(one.path)}")
        at += one.steps


def _cause(path: Path) -> str:
    """The last caller whose name says nothing of waking: sock_def_readable, unix_write_space."""
    return next(name for name in reversed(path) if "wake" not in name)


def table(found: Sequence[Journey]) -> pd.DataFrame:
    """A row for each stage, box and mark: what the figure was drawn from."""
    rows: list[tuple[object, ...]] = []
    for one in found:
        for kind, parts in (("stage", one.stages), ("box", one.boxes)):
            rows += [(one.transport, kind, p.name, p.depth, p.start, p.width) for p in parts]
        rows += [(one.transport, "mark", mark.words, 0, mark.at, 0) for mark in one.marks]
    return pd.DataFrame(rows, columns=list(COLUMNS))
