# SPDX-License-Identifier: GPL-2.0-or-later
"""A record cut into laps, each with its shape: the functions that it calls, and how often.

A lap ends where the client is at the same point of its loop again: the first block of its user
code that runs, in the client, exactly once a round trip. Equal stretches replay equally, so each
is replayed once.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    KIND_MASK,
    KIND_SHIFT,
    VALUE_MASK,
    Event,
    Record,
)
from runners.exact.replay import Counts, Replay, State, Tree
from runners.exact.symbols import USER_LIMIT, Symbols

LONGEST_CYCLE = 6  # laps


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
    laps = _replay_all(machine, state, [record.words[a:b] for a, b in pairwise(edges)])
    _sort(window, laps)
    return window


def _find(record: Record, event: Event) -> int:
    for index, word in enumerate(record.words):
        if _kind(word) == event:
            return index
    raise RecordError(f"the record has no {event.name.lower().replace('_', ' ')}")


def _kind(word: int) -> int | None:
    """Of an event; None for a block."""
    return word >> KIND_SHIFT & KIND_MASK if word & EVENT_BIT else None


def find_laps(record: Record, begin: int, end: int, client: int, round_trips: int) -> list[int]:
    """Where laps begin: places in the record's words. Raises RecordError."""
    in_user = [0 < block.address < USER_LIMIT for block in record.blocks]
    places: dict[int, list[int]] = {}
    current = client
    cpu = next(
        (word & VALUE_MASK for word in reversed(record.words[:begin]) if _kind(word) == Event.CPU),
        0,
    )
    running: dict[int, int] = {}
    resumed = False
    for index in range(begin, end):
        word = record.words[index]
        if (kind := _kind(word)) is not None:
            if kind == Event.SWITCH:
                current = word & VALUE_MASK
            elif kind == Event.CPU:
                running[cpu] = current
                cpu = word & VALUE_MASK
                current = running.get(cpu, -1)
            resumed = kind == Event.RESUME
            continue
        if current == client and in_user[word >> COUNT_BITS] and word & COUNT_MASK and not resumed:
            places.setdefault(word >> COUNT_BITS, []).append(index)
        resumed = False
    for where in places.values():
        if len(where) == round_trips:
            return where
    raise RecordError("the record shows no part of the client's loop that ran once a round trip")


def _replay_all(machine: Replay, state: State, stretches: list[array[int]]) -> list[Counts]:
    known: dict[tuple[State, bytes], tuple[State, Counts]] = {}
    result = []
    for stretch in stretches:
        key = (state, stretch.tobytes())
        if key not in known:
            known[key] = machine.run(state, stretch)
        state, counts = known[key]
        result.append(counts)
    return result


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
