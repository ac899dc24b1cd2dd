# SPDX-License-Identifier: GPL-2.0-or-later
"""A record cut into laps, each with its shape: the set of its call paths and their counts.

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


class RecordError(Exception):
    """A record that does not hold what it must; the text is a sentence."""


@dataclass(frozen=True)
class Shape:
    """A way in which a lap can go. `laps` says which did, from 0 up."""

    counts: Counts
    laps: list[int]

    @property
    def steps(self) -> int:
        """Instructions of one such lap, each repetition of a string instruction counted."""
        return self.counts.steps.total()


@dataclass
class Window:
    """The window replayed: `before` and `after` are the client's stretches round the laps."""

    tree: Tree
    shapes: list[Shape] = field(default_factory=list)
    total: Counts = field(default_factory=Counts)
    counted: int = 0

    @property
    def laps(self) -> int:
        """Whole laps."""
        return sum(len(shape.laps) for shape in self.shapes)

    @property
    def steady(self) -> Shape:
        """The most frequent shape; of equally frequent ones the first to occur."""
        return self.shapes[0]


def replay(record: Record, symbols: Symbols, round_trips: int) -> Window:
    """Replay a record. Raises RecordError."""
    begin, end = _find(record, Event.CLIENT_BEGIN), _find(record, Event.CLIENT_END)
    first = _find(record, Event.SERVER_BEGIN)
    machine = Replay(record.blocks, record.tasks, symbols)
    state, _ = machine.run(
        machine.start(record.words[first] & VALUE_MASK), record.words[first + 1 : begin]
    )
    client = record.words[begin] & VALUE_MASK
    cuts = find_laps(record, begin + 1, end, client, round_trips)
    window = Window(machine.tree, counted=record.window)
    edges = [begin + 1, *cuts, end]
    laps = _replay_all(machine, state, [record.words[a:b] for a, b in pairwise(edges)])
    _sort(window, laps)
    return window


def _find(record: Record, event: Event) -> int:
    for index, word in enumerate(record.words):
        if word & EVENT_BIT and word >> KIND_SHIFT & KIND_MASK == event:
            return index
    raise RecordError(f"the record has no {event.name.lower().replace('_', ' ')}")


def find_laps(record: Record, begin: int, end: int, client: int, round_trips: int) -> list[int]:
    """Where laps begin: places in the record's words. Raises RecordError."""
    in_user = [0 < block.address < USER_LIMIT for block in record.blocks]
    places: dict[int, list[int]] = {}
    current = client
    resumed = False
    for index in range(begin, end):
        word = record.words[index]
        if word & EVENT_BIT:
            kind = word >> KIND_SHIFT & KIND_MASK
            if kind == Event.SWITCH:
                current = word & VALUE_MASK
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
    shapes: dict[object, Shape] = {}
    for counts in stretches:
        window.total.add(counts)
    for lap, counts in enumerate(stretches[1:-1]):
        shapes.setdefault(counts.key(), Shape(counts, [])).laps.append(lap)
    frequency = Counter({key: len(shape.laps) for key, shape in shapes.items()})
    window.shapes = [shapes[key] for key, _ in frequency.most_common()]
