# SPDX-License-Identifier: GPL-2.0-or-later
"""The journey of one message: from the sender's system call to the receiver's return from its own.

Out of exact mode's steady round trip in its order: spans of all processes and CPUs follow each
other as the emulator ran them.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

from analysis.paths.cells import PREEMPTION, PROCESSES, Comparison, ExactCell, copiers
from analysis.paths.tree import Box, Mark, Path, Span, View, boxes, layer_of, summed, wakeup_cause
from probes.isa import ISAS
from probes.transports import Names, read_transports

SOFTIRQ = "net_rx_action"
WAKEUP = "try_to_wake_up"  # the kernel's function, whoever is woken


def _or_named(calls: str, names: Iterable[Names]) -> re.Pattern[str]:
    """These system calls, and the functions where a transport's messages enter or leave."""
    functions = {re.escape(place.function) for places in names for place in places}
    return re.compile("|".join([f"sys_(?:{calls})$", *(f"^{name}$" for name in sorted(functions))]))


SEND = _or_named("write|sendto|sendmsg", (path.sends for path in read_transports().values()))
RECEIVE = _or_named("read|recvfrom|recvmsg", (path.receives for path in read_transports().values()))


def system_call(span: Span) -> str:
    """The system call that a span is part of; empty in user space and in kernel threads."""
    calls = (isa.called_by_number(name) for name in reversed(span.path) for isa in ISAS.values())
    return next(filter(None, calls), "")


def is_in(span: Span, functions: re.Pattern[str]) -> bool:
    return any(functions.search(name) for name in span.path)


def layers(span: Span) -> Path:
    """The layers that its path goes down through, neighbours of one name once."""
    return tuple(name for name, _ in layer_functions(span))


def layer_functions(span: Span) -> Iterator[tuple[str, str]]:
    """Yield each of these layers with the function that it begins with.

    User space stands for itself only, and not above every system call.
    """
    depths = range(2 if span.in_user else 3, len(span.path) + 1)
    named = ((layer_of(span.path[:n]), span.path[n - 1]) for n in depths)
    for _, together in groupby(named, itemgetter(0)):
        yield next(together)


def message(order: Sequence[Span]) -> tuple[Span, ...]:
    """The first message: from the sender's system call to the receiver's return to user space.

    What lies between stays in: the sender that goes to sleep, switches, softirqs. Empty where the
    iteration holds no whole message.
    """
    sends = [n for n, span in enumerate(order) if is_in(span, SEND) and span.task in PROCESSES]
    if not sends:
        return ()
    begin, sender = sends[0], order[sends[0]].task
    while begin and order[begin - 1].task == sender and not order[begin - 1].in_user:
        begin -= 1
    received = False
    for end in range(begin, len(order)):
        span = order[end]
        if span.task in PROCESSES and span.task != sender:
            if span.in_user and received:
                return tuple(order[begin:end])
            received = received or is_in(span, RECEIVE)
    return ()


@dataclass(frozen=True)
class Journey(View):
    """One transport's message. Widths and places are instructions since the sender's call.

    Stages: who is in which system call, one after the other. Boxes: layers, each below the one that
    called it.
    """

    softirq: dict[str, int] = field(default_factory=dict)  # instructions of the receive softirq,
    # by whose call it runs in

    def by_stage(self) -> list[tuple[str, int]]:
        """Stages of one name together, in the order in which each began."""
        return list(summed((stage.name, stage.width) for stage in self.stages).items())


def journeys(comparison: Comparison, others: Sequence[Comparison] = ()) -> tuple[Journey, ...]:
    """Make one for each transport whose iteration the run kept.

    `others` may know who copies payload: not every cell was followed.
    """
    cells = [cell for compared in (comparison, *others) for cell in compared.cells]
    known = copiers(cells, comparison.kernel)
    return tuple(made for cell in comparison.cells if (made := _journey(cell, known)))


def _journey(cell: ExactCell, known: frozenset[str]) -> Journey | None:
    way = message(cell.order)
    if not way:
        return None
    marks = tuple(_marks(way, known))
    softirq = summed(
        (
            f"the {span.task}'s {call}()" if (call := system_call(span)) else span.task,
            span.instructions,
        )
        for span in way
        if SOFTIRQ in span.path
    )
    total = sum(span.instructions for span in way)
    title = f"{cell.transport}: {total:,} instructions ({cell.frequency})"
    layered = sorted(_boxes(way, marks), key=lambda box: (box.depth, box.start))
    return Journey(
        title,
        cell.transport,
        total,
        tuple(layered),
        tuple(stages(way)),
        marks,
        softirq=dict(softirq),
    )


def _boxes(way: Sequence[Span], marks: Sequence[Mark]) -> Iterator[Box]:
    starts = list(accumulate((span.instructions for span in way), initial=0))
    own: Counter[tuple[int, int]] = Counter()
    for span, start in zip(way, starts, strict=False):
        own[len(layers(span)) - 1, start] += span.instructions
    copies = [mark.at for mark in marks if mark.kind == "copy"]
    for box in boxes(way, layers):
        end = box.start + box.width
        inside = range(bisect_left(starts, box.start), bisect_left(starts, end))
        yield box._replace(
            layer=box.name,
            function=list(layer_functions(way[inside[0]]))[box.depth][1] if inside else "",
            own=sum(own[box.depth, starts[place]] for place in inside),
            copies=sum(box.start <= at < end for at in copies),
        )


def stages(way: Sequence[Span]) -> Iterator[Box]:
    """The way into a system call and out of it belongs to that call."""
    calls = [system_call(span) for span in way]
    for task in {span.task for span in way}:  # each by itself: on two CPUs they take turns
        mine = [n for n, span in enumerate(way) if span.task == task]
        for order in (mine[::-1], mine):
            for neighbour, n in pairwise(order):
                if not calls[n] and not way[n].in_user:
                    calls[n] = calls[neighbour]
    named = {}
    for span, call in zip(way, calls, strict=True):
        place = f"{call}()" if call else "user space" if span.in_user else "kernel"
        named[id(span)] = (f"{span.task}: {place}",)
    return boxes(way, lambda span: named[id(span)])


def _marks(way: Sequence[Span], copiers: frozenset[str]) -> Iterator[Mark]:
    """Copies by who copies payload, as exact mode's payload window saw it."""
    at = 0
    nobody = Span((way[0].task,), 0, cpu=way[0].cpu)
    for before, span in pairwise((nobody, *way)):
        if span.cpu == before.cpu and span.task != before.task:
            kind = "preempted" if PREEMPTION.search(";".join(before.path)) else "switch"
            yield Mark(kind, f"{kind} to {span.task}", at)
        if span.path[-1] in copiers:
            direction = " in" if is_in(span, SEND) else " out" if is_in(span, RECEIVE) else ""
            yield Mark("copy", f"copy{direction}", at)
        if span.path[-1] == WAKEUP and WAKEUP not in before.path:
            yield Mark("wake-up", f"wake-up: {wakeup_cause(span.path)}", at)
        at += span.instructions
