# SPDX-License-Identifier: GPL-2.0-or-later
"""Cuts a record into iterations and sorts them by shape: which functions each calls, and how often.

An iteration ends where the client is at the same point of its loop again: at the first block of its
user code that the client runs exactly once per iteration. Equal parts of a record replay equally,
so each is replayed once.
"""

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from probes.isa import USUAL, Isa
from runners.exact.events import EventCounter
from runners.exact.record import (
    COUNT_BITS,
    VALUE_MASK,
    CodeBlock,
    InstructionRecord,
    RecordEvent,
    end_of_window,
)
from runners.exact.replay import CallTree, Counts, NodeVisit, Replay, State
from runners.exact.symbols import Symbols
from runners.process import stop_if_told

FIRST_ITERATIONS = 8
SIDES = {RecordEvent.CLIENT_END: "client", RecordEvent.SERVER_END: "server"}


class RecordError(Exception):
    """The record lacks something that it must hold; the text is a sentence."""


@dataclass(frozen=True)
class IterationShape:
    """Iterations that call the same functions equally often. `iterations` has their numbers, from 0
    up.

    They may differ by branches within a function (a clock that has moved on) and by who calls
    (which of two tasks is the leftmost). `counts` is the most frequent variant, `identical` the
    number of iterations of that variant.
    """

    counts: Counts
    iterations: list[int]
    identical: int
    least: int  # steps of the shortest iteration, and of the longest
    most: int
    variants: tuple[tuple[Counts, int], ...]  # with the number of iterations, most frequent first

    @property
    def steps(self) -> int:
        """Instructions of the most frequent variant; each repetition of a string move counts."""
        return self.counts.steps.total()


@dataclass
class ReplayedWindow:
    """The window's iterations by shape. `total` also has what ran before and after them.

    `outside` is the part of `total` that a side ran after its own window had ended.
    """

    tree: CallTree
    shapes: list[IterationShape] = field(default_factory=list)
    total: Counts = field(default_factory=Counts)
    outside: Counts = field(default_factory=Counts)
    counted: int = 0
    order: list[NodeVisit] = field(default_factory=list)  # a steady iteration of the usual variant
    events: dict[str, dict[str, int]] = field(default_factory=dict)  # of the same iteration
    blocks: list[CodeBlock] = field(default_factory=list)  # the record's
    isa: Isa = USUAL
    symbols: Symbols = field(default_factory=lambda: Symbols(USUAL, {}))  # of the boot that ran it

    @property
    def iterations(self) -> int:
        return sum(len(shape.iterations) for shape in self.shapes)

    @property
    def steady(self) -> IterationShape:
        """Return the most frequent shape; of equally frequent shapes the first to occur."""
        return self.shapes[0]


def replay(
    record: InstructionRecord, symbols: Symbols, iterations: int, *, one_way: bool = False
) -> ReplayedWindow:
    """Replay a record in which the client iterates so often. Raises RecordError."""
    last = end_of_window(one_way)
    begin, end = find(record, RecordEvent.CLIENT_BEGIN), find(record, last)
    machine = Replay(record, symbols)
    state, _ = machine.run(State(), record.words[: begin + 1])
    client = record.words[begin] & VALUE_MASK
    cuts = find_iterations(record, begin + 1, end, client, iterations)
    counted = record.marks[last] - record.marks.get(RecordEvent.CLIENT_BEGIN, 0)
    window = ReplayedWindow(
        machine.tree,
        counted=counted,
        blocks=record.blocks,
        isa=record.isa,
        symbols=symbols,
    )
    bounds = [begin + 1, *cuts, end]
    parts = [record.words[a:b] for a, b in pairwise(bounds)]
    pieces, states, counts = Pieces(machine), [state], list[Counts]()
    for part in parts:
        stop_if_told()
        state, its = pieces.run(state, part.tobytes())
        states.append(state)
        counts.append(its)
    _sort(window, counts)
    for mark in SIDES:
        _add_outside(window, machine, record, mark, bounds, states)
    usual = next(n for n, iteration in enumerate(counts) if iteration is window.steady.counts)
    machine.run(states[usual], parts[usual], window.order)
    if record.isa.classes:  # else nothing has a price
        window.events = EventCounter(record, symbols).steady(states[usual], parts[usual])
    return window


def _add_outside(
    window: ReplayedWindow,
    machine: Replay,
    record: InstructionRecord,
    mark: RecordEvent,
    bounds: list[int],
    states: list[State],
) -> None:
    """Add to `window.outside` what the side of this end marker ran after it, up to the window's."""
    at = _kinds(record.words).find(_kind(mark))
    if not 0 <= at < bounds[-1]:
        return
    part = bisect_right(bounds, at) - 1
    state, _ = machine.run(states[part], record.words[bounds[part] : at + 1])
    _, counts = machine.run(state, record.words[at + 1 : bounds[-1]])
    for name, counter in vars(counts).items():
        mine = {n: c for n, c in counter.items() if machine.tree.path(n)[0] == SIDES[mark]}
        getattr(window.outside, name).update(mine)


def find(record: InstructionRecord, event: RecordEvent) -> int:
    """Return the index of the first event of a kind. Raises RecordError."""
    index = _kinds(record.words).find(_kind(event))
    if index < 0:
        raise RecordError(f"the record has no {event.name.lower().replace('_', ' ')}")
    return index


# Words are searched as bytes: a loop over millions of words took longer than their replay.
def _kinds(words: "array[int]") -> bytes:
    """Return the highest byte of each word, which tells events from blocks."""
    return words.tobytes()[3::4]


def _kind(event: RecordEvent) -> int:
    return 0x80 | event


class ClientRuns:
    """Where the client, which runs at `begin`, runs a block from its beginning."""

    def __init__(self, words: "array[int]", begin: int, end: int, client: int) -> None:
        self._data, self._kinds, self._begin = words.tobytes(), _kinds(words), begin
        self._turns = [begin]  # where the client began to run and where it stopped, alternately
        task_or_cpu = re.compile(b"[%c%c]" % (_kind(RecordEvent.SWITCH), _kind(RecordEvent.CPU)))
        before = self._kinds.rfind(_kind(RecordEvent.CPU), 0, begin)
        cpu = words[before] & VALUE_MASK if before >= 0 else 0
        running = {cpu: client}
        for match in task_or_cpu.finditer(self._kinds, begin, end):
            value = words[match.start()] & VALUE_MASK
            if self._kinds[match.start()] == _kind(RecordEvent.CPU):
                cpu = value
            else:
                running[cpu] = value
            if (running.get(cpu, -1) == client) != len(self._turns) % 2:
                self._turns.append(match.start())

    def places_of(self, number: int, end: int) -> list[int]:
        """Return the indices, up to `end`, of the words at which the client begins this block."""
        needle = (number << COUNT_BITS >> 8).to_bytes(3, "little")  # a word's upper three bytes
        places = []
        at = self._data.find(needle, 4 * self._begin, 4 * end)
        while at >= 0:
            place, byte = divmod(at, 4)
            resumed = self._kinds[place - 1] == _kind(RecordEvent.RESUME)
            is_number = byte == 1  # else the bytes are of two words, or of another part of one
            client_runs = bisect_right(self._turns, place) % 2 == 1
            if is_number and client_runs and not resumed:
                places.append(place)
            at = self._data.find(needle, at + 1, 4 * end)
        return places


def find_iterations(
    record: InstructionRecord, begin: int, end: int, client: int, iterations: int
) -> list[int]:
    """Return where the iterations begin, as indices of the record's words. Raises RecordError."""
    client_runs = ClientRuns(record.words, begin, end, client)
    # A block that runs in every iteration runs in one of the first iterations.
    soon = min(end, begin + FIRST_ITERATIONS * (end - begin) // iterations)
    user = [
        number
        for number, block in enumerate(record.blocks)
        # The number of a longer block does not begin at a byte; the workload's loop has no such.
        if 0 < block.address < record.isa.user_limit and len(block.lengths) < 1 << 8
    ]
    first_runs = ((client_runs.places_of(number, soon), number) for number in user)
    for _, number in sorted((places[0], number) for places, number in first_runs if places):
        if len(places := client_runs.places_of(number, end)) == iterations:
            return places
    raise RecordError("no part of the client's loop ran exactly once per iteration in the record")


class Pieces:
    """Replays words in pieces, each once: iterations that differ do so in a few places.

    A piece begins where one of every 64 blocks runs (its number ends in six zeros), so that one
    that is longer moves no other's beginning.
    """

    def __init__(self, machine: Replay) -> None:
        self.tree = machine.tree
        self.run = cache(self._run)
        self._piece = cache(lambda state, data: machine.run(state, array("I", data)))

    def _run(self, state: State, words: bytes) -> tuple[State, Counts]:
        """As Replay.run. Equal words from one state share one object."""
        sums = Counts()
        marks = (4 * match.start() for match in re.finditer(b"\0", words[1::4]))
        for start, end in pairwise([0, *filter(None, marks), len(words)]):
            state, counts = self._piece(state, words[start:end])
            sums.add(counts)
        return state, sums


def _sort(window: ReplayedWindow, parts: list[Counts]) -> None:
    """Fill `window`. The first part and the last, set-up and the loop's exit, are no iterations."""
    for counts in parts:
        window.total.add(counts)
    keys: dict[int, tuple[object, object]] = {}
    shapes: dict[object, dict[object, list[int]]] = {}
    iterations = parts[1:-1]
    for iteration, counts in enumerate(iterations):
        if id(counts) not in keys:
            calls = frozenset(window.tree.by_function(counts.calls).items())
            keys[id(counts)] = calls, counts.key()
        shape, variant = keys[id(counts)]
        shapes.setdefault(shape, {}).setdefault(variant, []).append(iteration)
    made = [_shape(iterations, list(variants.values())) for variants in shapes.values()]
    window.shapes = sorted(made, key=lambda shape: (-len(shape.iterations), shape.iterations[0]))


def _shape(iterations: list[Counts], variants: list[list[int]]) -> IterationShape:
    variants.sort(key=lambda numbers: (-len(numbers), numbers[0]))
    counted = tuple((iterations[numbers[0]], len(numbers)) for numbers in variants)
    steps = [counts.steps.total() for counts, _ in counted]
    numbers = sorted(number for numbers in variants for number in numbers)
    return IterationShape(counted[0][0], numbers, counted[0][1], min(steps), max(steps), counted)
