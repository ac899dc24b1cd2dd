# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts what a round trip executes, by what costs time: docs/time-explained.md.

On two CPUs also what lies on its critical path: from where a CPU begins its turn to the interrupt
by which it lets the other CPU run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from runners.exact.cache import CACHE_LINE, LEVEL_1, CacheModel
from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    InstructionRecord,
    RecordEvent,
    event_of,
)
from runners.exact.replay import State
from runners.exact.symbols import Symbols

IDLE_TASK = "swapper"  # how the names of the idle tasks begin
# Events beside the classes of instructions that the architecture names.
INSTRUCTIONS, STRING_BYTES = "instructions", "string_bytes"
CODE_MISSES, SWITCHES, HAND_OVERS = "code_misses", "switches", "hand_overs"
INTERRUPTED = "interrupts"

Events = Counter[str]


class CodePart(NamedTuple):
    """Some of a block's instructions: their events, and the cache lines that they lie in."""

    events: Events
    lines: range = range(0)


class Ran(NamedTuple):
    """What a CPU ran of a block, or a switch to another task."""

    cpu: int
    idle: bool
    part: CodePart
    number: int = 0  # of the block, if its first instruction ran


@dataclass
class Turn:
    """What a CPU runs until the other one does, up to its first interrupt for the other.

    `sent` says whether there is such an interrupt.
    """

    cpu: int
    path: Events = field(default_factory=Counter)
    sent: bool = False

    def followed_by(self, later: "Turn") -> "Turn":
        """Return the turn of which the two are parts."""
        if self.sent:
            return self
        return Turn(self.cpu, self.path + later.path, later.sent)


class EventCounter:
    """Counts events in the words of one record."""

    def __init__(self, record: InstructionRecord, symbols: Symbols) -> None:
        self._record, isa = record, record.isa
        self._parts: dict[tuple[int, int, int], CodePart] = {}
        self._sends: set[int] = set()
        self._interrupts: set[int] = set()
        self._fills: set[int] = set()
        for number, block in enumerate(record.blocks):
            place = symbols.place(block.address)
            if place.start and place.function in isa.sends_interrupt:
                self._sends.add(number)
            if place.entry and isa.interrupt(place.function):
                self._interrupts.add(number)
            if place.function in isa.fills:
                self._fills.add(number)
        self._repeats = [isa.repeats(block.instruction(0)) for block in record.blocks]

    def steady(self, state: State, words: Sequence[int]) -> dict[str, dict[str, int]]:
        """Count the events of an iteration, as its line of cells.jsonl has them."""
        executed: Events = Counter()
        busy: Events = Counter()
        turns: list[Turn] = []
        for ran in self._fetched(state, words):
            executed.update(ran.part.events)
            if not ran.idle:
                busy.update(ran.part.events)
            if not turns or turns[-1].cpu != ran.cpu:
                turns.append(Turn(ran.cpu))
            turns[-1].sent |= ran.number in self._sends
            if not turns[-1].sent:
                turns[-1].path.update(ran.part.events)
        events = {"executed": dict(executed)}
        if len({turn.cpu for turn in turns}) > 1:
            events |= {"busy": dict(busy), "path": critical_path(turns)}
        return events

    def _fetched(self, state: State, words: Sequence[int]) -> Iterator[Ran]:
        """Yield what ran, each part with the lines of code that its CPU's cache would miss.

        The cache is full of the same iteration: that is run through once before.
        """
        caches: defaultdict[int, CacheModel] = defaultdict(lambda: CacheModel(*LEVEL_1))
        for ran in self._run(state, words):
            for line in ran.part.lines:
                caches[ran.cpu].misses(line)
        for ran in self._run(state, words):
            missed = sum([caches[ran.cpu].misses(line) for line in ran.part.lines])
            events = ran.part.events + Counter({CODE_MISSES: missed})
            yield ran._replace(part=CodePart(events))

    def _run(self, state: State, words: Sequence[int]) -> Iterator[Ran]:
        tasks = {cpu: running.task for cpu, running in state.running}
        before = {cpu: running.word for cpu, running in state.running}
        cpu, offset = state.cpu, state.offset
        for word in words:
            idle = self._record.tasks.get(tasks.get(cpu, 0), "").startswith(IDLE_TASK)
            previous = before.get(cpu, 0)
            if not word & EVENT_BIT:
                number, ran = word >> COUNT_BITS, word & COUNT_MASK
                part = self._part(number, offset, offset + ran)
                if self._repeats[number] and not offset and self._goes_on(previous, number):
                    part = part._replace(events=part.events - Counter({INSTRUCTIONS: 1}))
                yield Ran(cpu, idle, part, 0 if offset else number)
                before[cpu], offset = word, 0
                continue
            kind, value = event_of(word)
            if kind == RecordEvent.REPEAT:
                yield Ran(cpu, idle, self._again(previous, value))
            elif kind == RecordEvent.RESUME:
                offset = value
            elif kind == RecordEvent.CPU:
                cpu = value
            elif value != tasks.get(cpu):
                yield Ran(cpu, idle, CodePart(Counter({SWITCHES: 1})))
                tasks[cpu] = value

    def _part(self, number: int, first: int, end: int) -> CodePart:
        """Count the events of some of a block's instructions."""
        key = number, first, end
        if key not in self._parts:
            block = self._record.blocks[number]
            events: Events = Counter()
            for index in range(first, end):
                events.update(self._events(number, block.instruction(index)))
            if number in self._interrupts and first == 0:
                events[INTERRUPTED] += 1
            at = block.address + sum(block.lengths[:first])
            last = block.address + sum(block.lengths[:end]) - 1
            lines = range(at // CACHE_LINE, last // CACHE_LINE + 1)
            self._parts[key] = CodePart(events, lines)
        return self._parts[key]

    def _events(self, number: int, code: bytes) -> Iterator[str]:
        """Yield the events of an instruction of a block."""
        isa = self._record.isa
        if number in self._fills:
            # A processor with fast string instructions has one in the place of the whole loop.
            size = isa.stored_bytes(code)
        else:
            yield INSTRUCTIONS
            size = isa.string_bytes(code)
            if kind := isa.class_of(code):
                yield kind
        yield from repeat(STRING_BYTES, size)

    def _again(self, word: int, times: int) -> CodePart:
        """Count the events of a word's part of a block that ran so many times more."""
        number, ran = word >> COUNT_BITS, word & COUNT_MASK
        part = self._part(number, 0, ran)
        events = Counter({name: n * times for name, n in part.events.items()})
        if self._repeats[number] and len(self._record.blocks[number].lengths) == 1:
            del events[INSTRUCTIONS]  # each run of the block is a step of the same instruction
        return part._replace(events=events)

    def _goes_on(self, before: int, number: int) -> bool:
        """Whether the block begins with the string instruction in which that of the word ended."""
        previous = self._record.blocks[before >> COUNT_BITS]
        return previous.address <= self._record.blocks[number].address < previous.end


def critical_path(turns: Sequence[Turn]) -> dict[str, int]:
    """Sum what each CPU runs up to its interrupt for the other, and count these interrupts.

    The iteration is cut somewhere in a turn: its two ends belong together.
    """
    joined = list(turns)
    if len(turns) > 2 and turns[0].cpu == turns[-1].cpu:
        joined = [turns[-1].followed_by(turns[0]), *turns[1:-1]]
    handing = [turn for turn in joined if turn.sent]
    path: Events = sum((turn.path for turn in handing), Counter())
    return dict(path + Counter({HAND_OVERS: len(handing)}))
