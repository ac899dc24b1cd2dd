# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorded window as touches: each access to memory with its CPU, caller, iteration and field."""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.files import read_rows
from runners.exact.accesses import DEVICE_REGISTER, STORE, accesses
from runners.exact.iterations import find, find_iterations
from runners.exact.objects import Objects
from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    VALUE_MASK,
    InstructionRecord,
    RecordEvent,
    end_of_window,
    event_of,
)
from runners.exact.replay import NodeVisit, Replay, State
from runners.exact.symbols import Symbols
from runners.process import stop_if_told

LINE_SHIFT = 6
LINE_BYTES = 1 << LINE_SHIFT
OUTSIDE = -1  # the iteration of what ran before the first one and after the last
WAY_OF = {row["function"]: row["way"] for row in read_rows(Path(__file__).with_name("ways.tsv"))}
OTHERWISE = "other"
# The allocator's functions: what they access in the middle of a free object is its link.
ALLOCATOR = ("kmem_cache_", "__kmalloc", "kmalloc", "kfree", "__slab_", "___slab_", "slab_")
FREE_POINTER = "(free pointer)"


def lines_of(address: int, size: int) -> range:
    """The numbers of the lines that so many bytes lie in."""
    return range(address >> LINE_SHIFT, (address + size - 1 >> LINE_SHIFT) + 1)


class Touch(NamedTuple):
    """An access, with the CPU that made it, its node of the call tree, and the iteration.

    `position` is where it stands in the trace.
    """

    cpu: int
    node: int
    iteration: int
    position: int
    physical: int
    virtual: int
    size: int
    store: bool

    @property
    def lines(self) -> range:
        return lines_of(self.physical, self.size)


@dataclass
class Positions:
    """What ran at each position of the trace, from 1: its word, CPU, node and iteration.

    `instructions` are those that ran there; a block that repeats has all of them at its first
    position.
    """

    words: "array[int]" = field(default_factory=lambda: array("I", [0]))
    cpus: "array[int]" = field(default_factory=lambda: array("B", [0]))
    nodes: "array[int]" = field(default_factory=lambda: array("I", [0]))
    iterations: "array[int]" = field(default_factory=lambda: array("i", [OUTSIDE]))
    instructions: "array[int]" = field(default_factory=lambda: array("I", [0]))

    def add(self, word: int, visit: NodeVisit, iteration: int, times: int = 1) -> None:
        self.words.extend([word] * times)
        self.cpus.extend([visit.cpu] * times)
        self.nodes.extend([visit.node] * times)
        self.iterations.extend([iteration] * times)
        self.instructions.extend([visit.instructions, *[0] * (times - 1)])


class Recorded:
    """A recorded window, with names for its memory. Raises RecordError."""

    def __init__(
        self,
        record: InstructionRecord,
        symbols: Symbols,
        objects: Objects,
        file: Path,
        iterations: int,
        *,
        one_way: bool,
    ) -> None:
        self.record, self.objects, self._file, self._one_way = record, objects, file, one_way
        # The last one ends outside the window; in a stream it has what the reader does after it.
        self.iterations = iterations if one_way else iterations - 1
        replay = Replay(record, symbols)
        order: list[NodeVisit] = []
        replay.run(State(), record.words, order)
        self.tree = replay.tree
        self.positions = self._positions(order, iterations)
        self.way = cache(self._way)
        self.code_of = cache(self._code_of)

    def _positions(self, order: Sequence[NodeVisit], iterations: int) -> Positions:
        record = self.record
        begin = find(record, RecordEvent.CLIENT_BEGIN)
        end = find(record, end_of_window(self._one_way))
        client = record.words[begin] & VALUE_MASK
        cuts = {*find_iterations(record, begin + 1, end, client, iterations)}
        made, visits = Positions(), iter(order)
        iteration, before = OUTSIDE, 0
        for index, word in enumerate(record.words):
            if index in cuts:
                iteration += 1
            here = iteration if index < end and iteration < self.iterations else OUTSIDE
            if not word & EVENT_BIT:
                made.add(word, next(visits), here)
                before = word
                continue
            kind, value = event_of(word)
            if kind == RecordEvent.REPEAT:
                made.add(before, next(visits), here, value)
        return made

    def touches(self) -> Iterator[Touch]:
        """The accesses to memory in the window, in their order."""
        positions = self.positions
        cpus, nodes, iterations = positions.cpus, positions.nodes, positions.iterations
        for access in accesses(self.record, self._file, one_way=self._one_way):
            stop_if_told()
            if access.flags & DEVICE_REGISTER:
                continue
            at = access.position
            yield Touch(
                cpus[at],
                nodes[at],
                iterations[at],
                at,
                access.physical,
                access.virtual,
                access.size,
                bool(access.flags & STORE),
            )

    def function(self, node: int) -> str:
        return self.tree.functions[node]

    def _way(self, node: int) -> str:
        """Which way the innermost function works that ways.tsv knows."""
        found = [WAY_OF[name] for name in self.tree.path(node) if name in WAY_OF]
        return found[-1] if found else OTHERWISE

    def field(self, touch: Touch, offset: int = 0) -> str:
        """The field that an access is to, `offset` bytes on."""
        if self.is_free_pointer(touch):
            return FREE_POINTER
        place = self.objects.place(touch.virtual)
        return self.objects.field(place.name, place.offset + offset)

    def is_free_pointer(self, touch: Touch) -> bool:
        """Whether an access is to what the allocator keeps in a free object."""
        place = self.objects.place(touch.virtual)
        link = self.objects.free_pointers.get(place.name)
        return (
            link is not None
            and place.offset & ~7 == link
            and self.function(touch.node).startswith(ALLOCATOR)
        )

    def _code_of(self, word: int) -> range:
        """The lines of the code that a word of the record stands for."""
        block = self.record.blocks[word >> COUNT_BITS]
        size = sum(block.lengths[: word & COUNT_MASK]) or len(block.code)
        return lines_of(block.address, size)

    def code_lines(self) -> int:
        """Distinct lines of code, summed over the iterations."""
        touched: defaultdict[int, set[int]] = defaultdict(set)
        for word, iteration in zip(self.positions.words, self.positions.iterations, strict=True):
            if iteration != OUTSIDE:
                touched[iteration].update(self.code_of(word))
        return sum(map(len, touched.values()))
