# SPDX-License-Identifier: GPL-2.0-or-later
"""Delivers the kernel's tick at each instruction of one steady round trip, and sorts what follows.

The recorder stops the machine where the round trip begins and copies it for each moment
(probes/exact/moments.h), so a copy differs from the machine by when its tick is due, and by nothing
else. Moments after which the same functions are called equally often lead to one *path*.
"""

import csv
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from probes.cell import CellRun
from runners.exact.cells import cpus_of, iterations_of, order
from runners.exact.count import code_digest
from runners.exact.guest import ExactGuest, symbols_entry
from runners.exact.iterations import ClientRuns, Pieces, RecordError, find, find_iterations, replay
from runners.exact.machine import digest, scratch
from runners.exact.record import (
    COUNT_BITS,
    COUNT_MASK,
    EVENT_BIT,
    VALUE_MASK,
    CodeBlock,
    InstructionRecord,
    RecordEvent,
    event_of,
    read_record,
)
from runners.exact.replay import Replay, State
from runners.exact.symbols import Symbols
from runners.guest.store import Cache
from runners.process import Progress, RunError

CHUNK = 256  # moments of one start of the machine
FOLLOWED = 8  # round trips that a copy has the time for
WAKE_UP = "try_to_wake_up"
# The tick's timer: the CPU's data, what it calls (from 6.8 and before), and when it is due next.
TICK, CALLED, NEXT = "tick_cpu_sched", ("tick_nohz_handler", "tick_sched_timer"), "tick_next_period"
Trip = tuple[Counter[str], int]
"""A round trip's calls by function, and its instructions."""


class Moment(NamedTuple):
    """An interrupt after `at` instructions of a round trip, in `function`, and what follows.

    Figures are more than in as many round trips without it; `round_trips`: until all that follow
    are like those, up to FOLLOWED.
    """

    at: int
    function: str
    path: str
    instructions: int
    switches: int
    wakeups: int
    round_trips: int


def study(
    work: Sequence[tuple[ExactGuest, CellRun]], step: int, out: Path, store: Cache, say: Progress
) -> None:
    """Study the cells that one CPU runs in ping-pong: their paths go to `out` and the terminal.

    Raises RunError.
    """
    cells = [(g, r) for g, r in work if cpus_of(r.cell) == 1 and r.cell.pattern == "pingpong"]
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = list(pool.map(lambda cell: every_moment(cell[0], cell[1], step, store), cells))
    except RecordError as error:
        raise RunError(str(error)) from None
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["transport", "size", "sched", "first", "last", *Moment._fields[1:]])
        for (_, run), moments in zip(cells, found, strict=True):
            cell = run.cell.transport, run.cell.size, run.cell.sched
            for same, group in groupby(moments, lambda moment: moment[1:]):
                at = [moment.at for moment in group]
                rows.writerow([*cell, at[0], at[-1], *same])
            for line in told(run, moments):
                say.note(line)


def told(run: CellRun, moments: Sequence[Moment]) -> Iterator[str]:
    """Yield the paths of a cell as lines of text, the most frequent first."""
    paths: dict[str, list[Moment]] = {}
    for moment in moments:
        paths.setdefault(moment.path, []).append(moment)
    yield f"{run.cell}: a tick at {len(moments)} moments, {len(paths)} paths; more than without it:"
    yield f"{'moments':>8} {'instructions':>13} switches wake-ups round trips  first in"
    for group in sorted(paths.values(), key=len, reverse=True):
        first, ran = group[0], [moment.instructions for moment in group]
        span = "-".join(f"{n:,}" for n in sorted({min(ran), max(ran)}))
        yield (
            f"{len(group) / len(moments):8.2%} {span:>13} "
            f"{first.switches:+8} {first.wakeups:+8} {first.round_trips:11}  {first.function}"
        )


def every_moment(guest: ExactGuest, run: CellRun, step: int, store: Cache) -> list[Moment]:
    """Return each `step`th moment. A part that the cache has is not made again. Raises RunError."""
    tick = tick_of(symbols_entry(store, guest.machine, guest.stored) / "symbols")
    iterations = iterations_of(run.cell)
    with scratch() as folder:
        alone, symbols = record_copies(guest, run, folder, {})
        number, before, length = _start(alone, symbols, iterations)
    recipe = {"snapshot": guest.stored.parent.name, "order": order(run), "code": code_digest()}
    moments: list[Moment] = []
    for first in range(0, length, CHUNK * step):
        count = min(CHUNK, -(-(length - first) // step))
        words = (before, first, step, count, FOLLOWED * length)
        settings = {"tick": tick, "moments": ":".join(map(str, words))}

        def make(partial: Path, settings: Mapping[str, str] = settings) -> dict[str, object]:
            with scratch() as folder:
                record, symbols = record_copies(guest, run, folder, settings)
                copies = Copies(record, symbols, number, iterations, folder)
                (partial / "moments.json").write_text(json.dumps(list(copies.moments())))
            return {"what": f"{run.cell}, {settings['moments']}"}

        entry = store.entry("moments", {**recipe, **settings}, make)
        moments += (Moment(*row) for row in json.loads((entry / "moments.json").read_text()))
    return moments


def tick_of(symbols: Path) -> str:
    """Where the kernel keeps its tick, as the recorder takes it. Raises RunError."""
    rows = (line.split()[:3] for line in symbols.read_text(encoding="utf-8").splitlines())
    at = {name: address for address, _, name in rows if name in (TICK, *CALLED, NEXT)}
    called = next((name for name in CALLED if name in at), CALLED[0])
    if lacks := [name for name in (TICK, called, NEXT) if name not in at]:
        raise RunError(f"the kernel has no symbol {lacks[0]}, so its tick cannot be moved")
    return ":".join(at[name] for name in (TICK, called, NEXT))


def record_copies(
    guest: ExactGuest, run: CellRun, folder: Path, settings: Mapping[str, str]
) -> tuple[InstructionRecord, Symbols]:
    """Run a cell, and its machine's copies where `settings` ask for some.

    Returns the machine's record and symbols.
    """
    guest.boot(order(run, guest.steps), folder, guest.stored, settings)
    return read_record(folder, guest.machine.isa), guest.symbols_in(folder)


def cuts_of(record: InstructionRecord, iterations: int) -> tuple[list[int], int]:
    """Where the iterations begin, as indices of the record's words; and the client's number."""
    begin, end = (find(record, e) for e in (RecordEvent.CLIENT_BEGIN, RecordEvent.CLIENT_END))
    client = record.words[begin] & VALUE_MASK
    return find_iterations(record, begin + 1, end, client, iterations), client


def steps_of(words: "array[int]") -> Iterator[int]:
    """How many instructions ran at each word."""
    ran = 0
    for word in words:
        kind, value = event_of(word)
        if not word & EVENT_BIT:
            ran, value = word & COUNT_MASK, 1
        yield ran * value if not word & EVENT_BIT or kind == RecordEvent.REPEAT else 0


def _start(record: InstructionRecord, symbols: Symbols, iterations: int) -> tuple[int, int, int]:
    """Choose a steady round trip after which most are alike, and none has a tick of its own.

    Returns its number, the instructions before it, and its own.
    """
    window, shapes = replay(record, symbols, iterations), dict[int, int]()
    for number, shape in enumerate(window.shapes):
        calls = window.tree.by_function(shape.counts.calls)
        if not any(calls[name] for name in CALLED):
            shapes |= dict.fromkeys(shape.iterations, number)
    following = {n: range(n, n + FOLLOWED + 1) for n in window.steady.iterations}
    quiet = {n: trips for n, trips in following.items() if shapes.keys() >= set(trips)}
    if not quiet:
        raise RunError(f"no steady round trip has {FOLLOWED} without a tick behind it; send more")
    first = min(quiet, key=lambda n: len({shapes[trip] for trip in quiet[n]}))
    cuts, _ = cuts_of(record, iterations)
    begin, end = cuts[first : first + 2]
    return first, sum(steps_of(record.words[:begin])), sum(steps_of(record.words[begin:end]))


class Copies:
    """The records of the copies in a folder, which begin with iteration `number` of the machine.

    `own` are the machine's own round trips from there.
    """

    def __init__(
        self,
        record: InstructionRecord,
        symbols: Symbols,
        number: int,
        iterations: int,
        folder: Path,
    ) -> None:
        cuts, self._client = cuts_of(record, iterations)
        cuts = cuts[number : number + FOLLOWED + 1]
        self._record, self._symbols = record, symbols
        self._first = record.words[cuts[0] : cuts[1]]
        before = record.words[: cuts[0]]
        self._blocks = max(word >> COUNT_BITS for word in before if not word & EVENT_BIT)
        self._numbers: dict[CodeBlock, int] = {}  # of the copies
        numbers = sorted(int(path.suffix[1:]) for path in folder.glob("trace.*"))
        self._words = {
            at: self._renumbered(read_record(folder, record.isa, f".{at}")) for at in numbers
        }
        address = record.blocks[self._first[0] >> COUNT_BITS].address
        self._at_begin = [n for n, block in enumerate(record.blocks) if block.address == address]
        machine = Replay(record, symbols)
        self._state, _ = machine.run(State(), before)
        self._pieces = Pieces(machine)
        self.own = self._trips(record.words, cuts)

    def trips(self, at: int) -> list[Trip]:
        """Return a copy's round trips."""
        words = self._words[at]
        runs = ClientRuns(words, 0, len(words), self._client)
        begins = sorted(chain.from_iterable(runs.places_of(n, len(words)) for n in self._at_begin))
        # The first round trip begins before its interrupt.
        return self._trips(words, [0, *begins[1 : FOLLOWED + 1]])

    def moments(self) -> Iterator[Moment]:
        """Yield what the copies went through. Raises RunError."""
        known = [calls for calls, _ in self.own]
        functions, name = list[str](), ""
        for word, ran in zip(self._first, steps_of(self._first), strict=True):
            if not word & EVENT_BIT:
                name = self._symbols.place(self._record.blocks[word >> COUNT_BITS].address).function
            functions += [name] * ran
        for at in self._words:
            trips = self.trips(at)
            unlike = (n for n, (calls, _) in enumerate(trips, 1) if calls not in known)
            changed = max(unlike, default=0)
            more, instructions = Counter[str](), 0
            for (calls, ran), (usual, usually) in zip(trips[:changed], self.own, strict=False):
                more.update(calls)
                more.subtract(usual)
                instructions += ran - usually
            if not any(more[name] for name in CALLED):
                raise RunError(f"the interrupt after {at} instructions was not the tick's")
            path = json.dumps([changed, sorted((f, n) for f, n in more.items() if n)])
            figures = instructions, more[self._record.isa.switch], more[WAKE_UP], changed
            yield Moment(at, functions[at], digest(path.encode())[:8], *figures)

    def _renumbered(self, copy: InstructionRecord) -> "array[int]":
        """Its words, in which a block has one number in all copies."""
        blocks, numbers = self._record.blocks, dict[int, int]()
        for number, block in enumerate(copy.blocks[1:], self._blocks + 1):
            if block not in self._numbers:
                self._numbers[block] = len(blocks)
                blocks.append(block)
            numbers[number] = self._numbers[block]

        def renumbered(word: int) -> int:
            number = word >> COUNT_BITS  # of an event it is larger than a block's
            return numbers.get(number, number) << COUNT_BITS | word & COUNT_MASK

        return array("I", map(cache(renumbered), copy.words))

    def _trips(self, words: "array[int]", cuts: list[int]) -> list[Trip]:
        trips, state = [], self._state
        for begin, end in pairwise(cuts):
            state, counts = self._pieces.run(state, words[begin:end].tobytes())
            calls = self._pieces.tree.by_function(counts.calls)
            trips.append((calls, counts.instructions))
        return trips
