# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode's cells: the steady round trip by function and by layer, transports side by side.

In the tidy table a row of the instrument `exact` is the steady iteration, so `messages` is 2 for a
round trip, whatever the window held (for copies, a short window of its own); of patterns that are
not WHOLE there is the window alone. The two schedulings are the
targets `exact-fifo` and `exact-other`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from analysis.counts.ledger import transport_order
from analysis.exact.iteration import PROCESSES, Span
from analysis.functions import flame
from analysis.functions.layers import UNCLASSIFIED, function_layer, layer_of
from analysis.raw.exact import ExactLine
from analysis.raw.run import Run
from analysis.wording import listed, number, size_text, transport_text
from runners.cell import Conditions

Name = TypeVar("Name", str, tuple[str, ...])
# Patterns in which an iteration of the client has all the work of its messages; in the others the
# two sides run ahead of each other, and only the whole window has it.
WHOLE = ("pingpong", "connect", "selfloop", "selfecho")
TOP = 30
MOST_IN_SENTENCE = 4  # transports
SCHEDULINGS = {"fifo": "under SCHED_FIFO", "other": "with the default scheduler"}
DEFAULT = "other"
SWITCH = "__switch_to_asm"
SYSTEM_CALL = "do_syscall_64"
# schedule() on the way back to user space or out of an interrupt, and where preemption is tried.
PREEMPTION = re.compile(r"exit_to_user_?mode[^;]*;schedule;|;irqentry_exit|preempt_schedule")


def scheduling_text(name: str) -> str:
    """`under SCHED_FIFO`; the name of a scheduling that has no words."""
    return SCHEDULINGS.get(name, name)


@dataclass(frozen=True)
class Node:
    """A call path of the steady round trip, without what it calls.

    `steps` are instructions, of a repeated string instruction each repetition: the emulator's clock
    counts these.
    """

    path: tuple[str, ...]
    calls: int
    instructions: int
    steps: int


def summed(parts: Iterable[tuple[Name, int]]) -> Counter[Name]:
    """Name → the sum of its parts."""
    sums: Counter[Name] = Counter()
    for name, count in parts:
        sums[name] += count
    return sums


def inclusive(nodes: tuple[Node, ...]) -> Counter[tuple[str, ...]]:
    """Instructions of each path and all below it; the two tasks' equal paths are one."""
    return flame.inclusive(summed((node.path[1:], node.instructions) for node in nodes))


class ExactCell(ExactLine):
    """One exact cell, with its steady round trip."""

    kernel: str
    qemu: str
    cpu: str
    nodes: tuple[Node, ...]
    broken: tuple[str, ...]
    iteration: tuple[Span, ...] = ()
    """The steady round trip in its order; empty in older runs."""

    def as_variant(self, number: int) -> "ExactCell":
        """The cell as its iterations of another variant went, from 1 up; 0 is the usual one."""
        if not number:
            return self
        variant = self.variants[number - 1]
        nodes = {";".join(node.path): node for node in self.nodes}
        for path, (calls, steps) in variant.moved.items():
            usual = nodes.get(path) or Node(tuple(path.split(";")), 0, 0, 0)
            own = usual.instructions + steps - variant.repeats.get(path, 0)
            nodes[path] = Node(usual.path, usual.calls + calls, own, usual.steps + steps)
        kept = tuple(node for node in nodes.values() if node.calls or node.steps)
        return self.model_copy(update={"nodes": kept})

    @property
    def conditions(self) -> Conditions:
        return Conditions(
            self.placement,
            self.wait,
            in_flight=self.in_flight,
            clients=self.clients,
            knob=self.knob.name if self.knob else "",
        )

    @property
    def where(self) -> str:
        """Its conditions but for the knob, with the pattern where it is not the usual one."""
        words = [self.pattern] if self.pattern != "pingpong" else []
        return " ".join([*words, str(replace(self.conditions, knob=""))])

    @property
    def total(self) -> int:
        """Instructions of the steady round trip; a repeated string instruction counts once."""
        return sum(node.instructions for node in self.nodes)

    @property
    def steps(self) -> int:
        """Steps of the steady round trip."""
        return sum(node.steps for node in self.nodes)

    @property
    def identical(self) -> int:
        """How many of the iterations are the steady round trip, alike in every call path."""
        return self.shapes[0].identical if self.shapes else 0

    @property
    def mean(self) -> float:
        """Instructions of an iteration, of all that the window held: ticks, other tasks."""
        return self.window.instructions * self.messages_per_iteration / self.messages

    @property
    def of_message(self) -> float:
        """Instructions of a message: its part of the steady iteration, or of the window."""
        whole = self.total if self.pattern in WHOLE else self.mean
        return whole / self.messages_per_iteration

    def repeated(self) -> Counter[str]:
        """Steps of each function beyond its instructions."""
        return +summed((node.path[-1], node.steps - node.instructions) for node in self.nodes)

    def functions(self) -> Counter[str]:
        """Self instructions of each function."""
        return summed((node.path[-1], node.instructions) for node in self.nodes)

    def calls(self) -> Counter[str]:
        """Calls of each function."""
        return summed((node.path[-1], node.calls) for node in self.nodes)

    def inclusive(self) -> Counter[str]:
        """Instructions of each function and all it calls; a recursion counts once."""
        return summed(
            (name, node.instructions) for node in self.nodes for name in set(node.path[1:])
        )

    def layers(self) -> Counter[str]:
        """Self instructions of each layer."""
        return summed((layer_of(node.path).name, node.instructions) for node in self.nodes)

    def traffic_by_layer(self) -> list[tuple[str, float, float]]:
        """Layer, bytes loaded and stored for each message; a helper is a layer of its own here."""
        if self.payload is None:
            return []
        messages = self.payload.messages
        loaded, stored = map(_by_layer, (self.payload.loaded, self.payload.stored))
        rows = [(layer, loaded[layer] / messages, stored[layer] / messages)
                for layer in {**loaded, **stored}]  # fmt: skip
        return sorted(rows, key=lambda row: (-row[1] - row[2], row[0]))

    def system_calls(self) -> int:
        """How many both processes make in the steady iteration."""
        return self.calls()[SYSTEM_CALL]

    def switches(self) -> tuple[int, int]:
        """Voluntary and other switches of the two processes in a round trip.

        The kernel's __schedule() tells them apart by whether a task sleeps or is preempted; here
        the caller tells. They are no row of the tidy table: the steady round trip of an emulated
        machine is no mean over a scheduler's conditions.
        """
        away = [n for n in self.nodes if n.path[-1] == SWITCH and n.path[0] in PROCESSES]
        preempted = sum(n.calls for n in away if PREEMPTION.search(";".join(n.path)))
        return sum(n.calls for n in away) - preempted, preempted

    def inherited(self) -> int:
        """Instructions of helpers that were given to their caller's layer."""
        return sum(node.instructions for node in self.nodes if layer_of(node.path).inherited)


@dataclass(frozen=True)
class Comparison:
    """Transports side by side, on one kernel with one scheduling and one placement."""

    kernel: str
    scheduling: str
    size: int
    placement: str
    cells: tuple[ExactCell, ...]
    pattern: str = "pingpong"
    unusual: str = ""

    @property
    def title(self) -> str:
        words = [scheduling_text(self.scheduling)]
        words += [self.placement] if self.placement != "same-cpu" else []
        words += [self.pattern] if self.pattern != "pingpong" else []
        return ", ".join([*words, self.unusual] if self.unusual else words)

    @property
    def iteration(self) -> str:
        """What an iteration is."""
        return "round trip" if self.pattern in ("pingpong", "selfecho") else "iteration"

    def together(self, most: int) -> Iterator["Comparison"]:
        """The same transports, so many at a time."""
        for first in range(0, len(self.cells), most):
            yield replace(self, cells=self.cells[first : first + most])

    @property
    def sentence(self) -> str:
        """What a message takes over each transport, and what part of the window that stands for."""
        by_cost = sorted(self.cells, key=lambda cell: cell.of_message)
        many = len(self.cells) > MOST_IN_SENTENCE
        named = [by_cost[0], by_cost[-1]] if many else self.cells
        takes = [
            f"{cell.of_message:,.1f}".removesuffix(".0")
            + f" instructions over {transport_text(cell.transport)}"
            for cell in named
        ]
        first, *others = named
        ratio = ""
        if others:
            ratio = f" ({number(others[-1].of_message / first.of_message)} times as many)"
        spread = " to ".join(takes) if many else listed(takes)
        said = (
            f"A message of {size_text(self.size)} takes {'from ' if many else ''}{spread}"
            f"{ratio} {self.title}"
        )
        if self.pattern not in WHOLE:
            return f"{said}: the mean of the window, where the two sides run ahead of each other."
        if many:
            return f"{said}: its part of the steady {self.iteration}."
        exactly = [f"{cell.identical} of {cell.iterations}" for cell in self.cells]
        means = [f"{cell.mean / cell.messages_per_iteration:,.0f}" for cell in self.cells]
        part = "half" if self.cells[0].messages_per_iteration == 2 else "its part"
        return (
            f"{said}: {part} of the steady {self.iteration}, to which {listed(exactly)} iterations "
            f"are identical. The mean of the window, timer ticks included, is {listed(means)}."
        )

    def layers(self) -> list[tuple[str, tuple[int, ...]]]:
        """Layer → instructions by transport, the most expensive first."""
        return _beside([cell.layers() for cell in self.cells])

    def functions(
        self, most: int | None = TOP
    ) -> list[tuple[str, tuple[tuple[int, int, int], ...]]]:
        """Function → self, inclusive and calls by transport, the most expensive first."""
        own = _beside([cell.functions() for cell in self.cells])[:most]
        others = [(cell.inclusive(), cell.calls()) for cell in self.cells]
        return [
            (name, tuple((n, all_[name], calls[name])
                         for n, (all_, calls) in zip(values, others, strict=True)))
            for name, values in own
        ]  # fmt: skip

    @property
    def unclassified(self) -> float:
        """The transport's largest share of instructions whose function no layer names."""
        return max(cell.layers()[UNCLASSIFIED] / cell.total for cell in self.cells)


def _beside(counters: list[Counter[str]]) -> list[tuple[str, tuple[int, ...]]]:
    names = {name for counter in counters for name in counter}
    rows = [(name, tuple(counter[name] for counter in counters)) for name in names]
    return sorted(rows, key=lambda row: (-max(row[1]), row[0]))


def compare(cells: tuple[ExactCell, ...]) -> tuple[Comparison, ...]:
    """Each kernel, scheduling, size and placement once, transports side by side; no knobs."""
    groups: dict[Comparison, list[ExactCell]] = {}
    for cell in cells:
        if not cell.knob:
            where = (cell.kernel, cell.scheduling, cell.size, cell.placement)
            words = ", ".join(cell.conditions.unusual)
            groups.setdefault(Comparison(*where, (), cell.pattern, words), []).append(cell)
    return tuple(
        replace(found, cells=tuple(sorted(group, key=lambda c: transport_order(c.transport))))
        for found, group in groups.items()
    )


def copiers(cells: Iterable[ExactCell], kernel: str) -> frozenset[str]:
    """Who was seen to copy payload on that kernel: not every cell is followed, and it is the same
    function in all of them."""
    return frozenset(
        name
        for cell in cells
        if cell.kernel == kernel and cell.payload
        for name in cell.payload.copiers
    )


def rows(run: Run, cells: tuple[ExactCell, ...]) -> Iterator[tuple[Any, ...]]:
    """Rows of the tidy table, in the order of its columns."""
    for cell in cells:
        where = (run.name, f"exact-{cell.scheduling}", cell.kernel, "function", "exact")
        what = (cell.transport, cell.pattern, cell.size, str(cell.conditions), 0, cell.id, False)
        valid = not cell.broken
        for count in _counts(cell) if cell.pattern in WHOLE else ():
            yield (*where, *what, *count, "count", cell.messages_per_iteration, valid)
        for key in ("window",) if cell.pattern in WHOLE else ("window", "total"):
            mean = ("instructions", key, cell.window.instructions, "count", cell.messages, valid)
            yield (*where, *what, *mean)
        if payload := cell.payload:
            for way, size in payload.copied.items():
                copies = ("copy_bytes", way, size, "bytes", payload.messages, payload.valid)
                yield (*where, *what, *copies)
            for name, functions in (("loaded", payload.loaded), ("stored", payload.stored)):
                layers = _by_layer(functions).items()
                sizes = [(name, sum(functions.values()))]
                sizes += [(f"{name} layer:{layer}", size) for layer, size in layers]
                for key, size in sizes:
                    traffic = ("memory_bytes", key, size, "bytes", payload.messages, valid)
                    yield (*where, *what, *traffic)


def _counts(cell: ExactCell) -> list[tuple[str, str, float]]:
    """Quantity, key and value of the steady iteration."""
    return [
        ("instructions", "total", cell.total),
        *(("instructions", f"layer:{name}", n) for name, n in cell.layers().items()),
        *(("instructions", name, n) for name, n in cell.functions().items()),
        ("steps", "total", cell.steps),
        ("steady_share", "", cell.identical / cell.iterations),
        *(("function_calls", name, n) for name, n in cell.calls().items() if n),
    ]


def _by_layer(functions: dict[str, int]) -> Counter[str]:
    return summed((function_layer(name), size) for name, size in functions.items())
