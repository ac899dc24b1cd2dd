# SPDX-License-Identifier: GPL-2.0-or-later
"""A record cut into laps, each with its shape: the functions that it calls, and how often.

A lap ends where the client is at the same point of its loop again: the first block of its user
code that runs, in the client, exactly once a round trip. Equal stretches replay equally, so each
is replayed once.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from runners.exact.decode.record import (
    COUNT_BITS,
    EVENT_BIT,
    KIND_SHIFT,
    VALUE_MASK,
    Event,
    Record,
)
from runners.exact.decode.replay import Counts, Replay, State, Stretch, Tree
from runners.exact.machine.symbols import USER_LIMIT, Symbols

LONGEST_CYCLE = 6  # laps
FIRST_LAPS = 8


class RecordError(Exception):
    """A record that does not hold what it must; the text is a sentence."""


@dataclass(frozen=True)
class Shape:
    """A way in which a lap can go. `laps` says which did, from 0 up.

    Laps of one shape call the same functions equally often. They may differ by branches within a
    function (a clock that has moved on) and by who calls (which of two tasks is the leftmost):
    `counts` is the most frequent variant, `alike` the laps of that variant.
    """

    counts: Counts
    laps: list[int]
    alike: int
    least: int  # steps of the shortest lap, and of the longest
    most: int
    variants: tuple[tuple[Counts, int], ...]  # and how many laps are of each, most frequent first

    @property
    def steps(self) -> int:
        """Instructions of its most frequent variant, each repetition of a string one counted."""
        return self.counts.steps.total()


@dataclass(frozen=True)
class Cycle:
    """Shapes that follow each other again and again; of one shape where that repeats itself.

    `shapes` are places in the window's list, `laps` how many laps such rounds took up.
    """

    shapes: tuple[int, ...]
    laps: int


@dataclass
class Window:
    """The window replayed: its laps by shape, and `total`, which is more than its laps."""

    tree: Tree
    shapes: list[Shape] = field(default_factory=list)
    total: Counts = field(default_factory=Counts)
    counted: int = 0
    order: list[Stretch] = field(default_factory=list)  # a steady lap of the usual variant

    @property
    def laps(self) -> int:
        """Whole laps."""
        return sum(len(shape.laps) for shape in self.shapes)

    def cycles(self) -> list[Cycle]:
        """How the shapes follow each other, the cycle that took up most laps first."""
        order = {lap: number for number, shape in enumerate(self.shapes) for lap in shape.laps}
        return find_cycles([order[lap] for lap in range(self.laps)])

    @property
    def steady(self) -> Shape:
        """The most frequent shape; of equally frequent ones the first to occur."""
        return self.shapes[0]


def replay(record: Record, symbols: Symbols, round_trips: int) -> Window:
    """Replay a record. Raises RecordError."""
    begin, end = _find(record, Event.CLIENT_BEGIN), _find(record, Event.CLIENT_END)
    machine = Replay(record.blocks, record.tasks, symbols)
    state, _ = machine.run(machine.start(), record.words[: begin + 1])
    client = record.words[begin] & VALUE_MASK
    cuts = find_laps(record, begin + 1, end, client, round_trips)
    window = Window(machine.tree, counted=record.window)
    edges = [begin + 1, *cuts, end]
    stretches = [record.words[a:b] for a, b in pairwise(edges)]
    states, laps = _replay_all(machine, state, stretches)
    _sort(window, laps)
    usual = next(n for n, one in enumerate(laps) if one is window.steady.counts)
    machine.run(states[usual], stretches[usual], window.order)
    return window


def _find(record: Record, event: Event) -> int:
    index = _kinds(record.words).find(_kind(event))
    if index < 0:
        raise RecordError(f"the record has no {event.name.lower().replace('_', ' ')}")
    return index


# Words are searched as bytes: looking at each of some millions took longer than replaying them.
def _kinds(words: array[int]) -> bytes:
    """Of each word the byte that tells an event, and which."""
    return words.tobytes()[3::4]


def _kind(event: Event) -> int:
    return (EVENT_BIT | event << KIND_SHIFT) >> KIND_SHIFT


def find_laps(record: Record, begin: int, end: int, client: int, round_trips: int) -> list[int]:
    """Where laps begin: places in the record's words. Raises RecordError."""
    words = record.words
    data, kinds = words.tobytes(), _kinds(words)
    turns = _turns(words, kinds, begin, end, client)

    def ran(number: int, end: int) -> list[int]:
        found = _places(data, number << COUNT_BITS >> 8, begin, end)
        return [one for one in found if _is_in(turns, one) and not _resumed(kinds, one)]

    # What runs in every lap runs in one of the first.
    soon = min(end, begin + FIRST_LAPS * (end - begin) // round_trips)
    user = [
        number
        for number, block in enumerate(record.blocks)
        # A longer block's number does not begin at a byte; the workload's loop has none such.
        if 0 < block.address < USER_LIMIT and len(block.lengths) < 1 << 8
    ]
    for _, number in sorted((found[0], one) for one in user if (found := ran(one, soon))):
        if len(where := ran(number, end)) == round_trips:
            return where
    raise RecordError("the record shows no part of the client's loop that ran once a round trip")


def _turns(words: array[int], kinds: bytes, begin: int, end: int, client: int) -> list[int]:
    """Where the client began to run, and stopped, in turns."""
    tells = re.compile(b"[%c%c]" % (_kind(Event.SWITCH), _kind(Event.CPU)))
    before = kinds.rfind(_kind(Event.CPU), 0, begin)
    cpu = words[before] & VALUE_MASK if before >= 0 else 0
    running = {cpu: client}
    turns = [begin]
    for match in tells.finditer(kinds, begin, end):
        value = words[match.start()] & VALUE_MASK
        if kinds[match.start()] == _kind(Event.CPU):
            cpu = value
        else:
            running[cpu] = value
        if (running.get(cpu, -1) == client) != len(turns) % 2:
            turns.append(match.start())
    return turns


def _is_in(turns: list[int], place: int) -> bool:
    return bisect_right(turns, place) % 2 == 1


def _resumed(kinds: bytes, place: int) -> bool:
    """Whether the block there had begun before."""
    return kinds[place - 1] == _kind(Event.RESUME)


def _places(data: bytes, high: int, begin: int, end: int) -> list[int]:
    """The words, from `begin` to `end`, whose upper three bytes are `high`."""
    needle = high.to_bytes(3, "little")
    found = []
    at = data.find(needle, 4 * begin, 4 * end)
    while at >= 0:
        if at % 4 == 1:
            found.append(at // 4)
        at = data.find(needle, at + 1, 4 * end)
    return found


def _replay_all(
    machine: Replay, state: State, stretches: list[array[int]]
) -> tuple[list[State], list[Counts]]:
    """Of each stretch the state before it, and what it cost."""
    known: dict[tuple[State, bytes], tuple[State, Counts]] = {}
    states, result = [], []
    for stretch in stretches:
        states.append(state)
        key = (state, stretch.tobytes())
        if key not in known:
            known[key] = machine.run(state, stretch)
        state, counts = known[key]
        result.append(counts)
    return states, result


def _sort(window: Window, stretches: list[Counts]) -> None:
    """The first stretch and the last are no laps: set-up, and the way out of the loop."""
    for counts in stretches:
        window.total.add(counts)
    keys: dict[int, tuple[object, object]] = {}
    shapes: dict[object, dict[object, list[int]]] = {}
    laps = stretches[1:-1]
    for lap, counts in enumerate(laps):
        if id(counts) not in keys:  # equal stretches are one object
            keys[id(counts)] = _calls(window.tree, counts), counts.key()
        shape, variant = keys[id(counts)]
        shapes.setdefault(shape, {}).setdefault(variant, []).append(lap)
    found = [_shape(laps, variants) for variants in shapes.values()]
    window.shapes = sorted(found, key=lambda shape: (-len(shape.laps), shape.laps[0]))


def _calls(tree: Tree, counts: Counts) -> frozenset[tuple[str, int]]:
    calls: Counter[str] = Counter()
    for node, count in counts.calls.items():
        calls[tree.functions[node]] += count
    return frozenset(calls.items())


def _shape(laps: list[Counts], variants: dict[object, list[int]]) -> Shape:
    ordered = sorted(variants.values(), key=lambda which: (-len(which), which[0]))
    usual = ordered[0]
    steps = [laps[which[0]].steps.total() for which in variants.values()]
    which = sorted(lap for one in variants.values() for lap in one)
    counted = tuple((laps[one[0]], len(one)) for one in ordered)
    return Shape(laps[usual[0]], which, len(usual), min(steps), max(steps), counted)


def find_cycles(order: list[int]) -> list[Cycle]:
    """The stretches of `order` that repeat what came before, summed by what they repeat."""
    found: Counter[tuple[int, ...]] = Counter()
    at = 0
    while at < len(order):
        for length in range(1, LONGEST_CYCLE + 1):
            end = at + length
            while end < len(order) and order[end] == order[end - length]:
                end += 1
            if end >= at + 2 * length:
                found[_rotated(tuple(order[at : at + length]))] += end - at
                at = end
                break
        else:
            at += 1
    return [Cycle(shapes, laps) for shapes, laps in found.most_common()]


def _rotated(shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The same cycle wherever it is entered."""
    return min(shapes[n:] + shapes[:n] for n in range(len(shapes)))
