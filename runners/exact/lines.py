# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cache lines and fields a message touches, and which lines move between two CPUs.

Everything follows from the order in which the record has the accesses. A CPU *fetches* a line that
it lacks and another CPU has or wrote; it *invalidates* the other's copy where it has the line and
writes. Both are moves: MESI's rule, with caches that never run out of room. A fetch is *unread*
where the CPU loads nothing, while it has the line, of what the other has written since: false
sharing, or overwriting. What that leaves out is in docs/cache-lines.md.
"""

from array import array
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.files import read_rows
from runners.exact.accesses import DEVICE_REGISTER, STORE, accesses
from runners.exact.iterations import find, find_iterations
from runners.exact.objects import CPU_SHIFT, MemoryKind, Objects
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

LINE_SHIFT = 6
LINE_BYTES = 1 << LINE_SHIFT
# Iterations at the beginning of the window in which a line's first access by a CPU is no move: its
# copy may be from before.
SETTLED = 10
OUTSIDE = -1  # the iteration of what ran before the first one and after the last
WAY_OF = {row["function"]: row["way"] for row in read_rows(Path(__file__).with_name("ways.tsv"))}
OTHERWISE = "other"
# The allocator's functions: what they access in the middle of a free object is its link.
ALLOCATOR = ("kmem_cache_", "__kmalloc", "kmalloc", "kfree", "__slab_", "___slab_", "slab_")
FREE_POINTER = "(free pointer)"
NOT_ONE_LINE = (
    MemoryKind.STACK,
    MemoryKind.PAGES,
    MemoryKind.USER,
    MemoryKind.OTHER,
)  # kinds of places whose lines have no lasting place
# Kinds of places whose fields are counted.
TYPED = (MemoryKind.SLAB, MemoryKind.VARIABLE, MemoryKind.PER_CPU)
# Types of which every field has a row, also one that nothing accesses.
LAID_OUT = (
    "tcp_sock",
    "tcp6_sock",
    "unix_sock",
    "udp_sock",
    "udp6_sock",
    "sk_buff",
    "sk_buff_fclones",
    "socket_alloc",
    "net_device",
)
MOST_NAMES = 3  # fields and functions that a row names at most

# The caches of the estimate: bytes, and lines of a set.
LEVEL_1, LEVEL_2 = (32 << 10, 8), (1 << 20, 16)


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
        last = self.physical + self.size - 1
        return range(self.physical >> LINE_SHIFT, (last >> LINE_SHIFT) + 1)


@dataclass
class Positions:
    """What ran at each position of the trace, from 1: its word, CPU, node and iteration."""

    words: "array[int]" = field(default_factory=lambda: array("I", [0]))
    cpus: "array[int]" = field(default_factory=lambda: array("B", [0]))
    nodes: "array[int]" = field(default_factory=lambda: array("I", [0]))
    iterations: "array[int]" = field(default_factory=lambda: array("i", [OUTSIDE]))

    def add(self, word: int, visit: NodeVisit, iteration: int, times: int = 1) -> None:
        self.words.extend([word] * times)
        self.cpus.extend([visit.cpu] * times)
        self.nodes.extend([visit.node] * times)
        self.iterations.extend([iteration] * times)


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
        self.iterations = iterations - 1  # the last one ends outside the window
        replay = Replay(record, symbols)
        order: list[NodeVisit] = []
        replay.run(State(), record.words, order)
        self.tree = replay.tree
        self.positions = self._positions(order, iterations)
        self.way = cache(self._way)

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
        place = self.objects.place(touch.virtual)
        link = self.objects.free_pointers.get(place.name)
        if (
            link is not None
            and place.offset & ~7 == link
            and self.function(touch.node).startswith(ALLOCATOR)
        ):
            return FREE_POINTER
        return self.objects.field(place.name, place.offset + offset)

    def code_lines(self) -> int:
        """Distinct lines of code, summed over the iterations."""
        spans: dict[int, range] = {}
        touched: defaultdict[int, set[int]] = defaultdict(set)
        for word, iteration in zip(self.positions.words, self.positions.iterations, strict=True):
            if iteration == OUTSIDE:
                continue
            if word not in spans:
                block = self.record.blocks[word >> COUNT_BITS]
                size = sum(block.lengths[: word & COUNT_MASK]) or len(block.code)
                last = block.address + size - 1
                spans[word] = range(block.address >> LINE_SHIFT, (last >> LINE_SHIFT) + 1)
            touched[iteration].update(spans[word])
        return sum(map(len, touched.values()))


@dataclass(slots=True)
class Move:
    """A line that a CPU gets from another one, or whose copy elsewhere it makes invalid.

    `read` is the first load of something that the other had written, while this CPU has the line.
    """

    line: int
    touch: Touch
    invalidates: bool
    writer: Touch | None
    read: Touch | None = None


@dataclass(slots=True)
class _Line:
    """Which CPUs have it (a bit each), who wrote last, and what of it is new to whom."""

    holders: int = 0
    writer: Touch | None = None
    news: dict[int, int] = field(default_factory=dict)  # CPU → a bit for each byte
    fetched: dict[int, Move] = field(default_factory=dict)  # CPU → the move by which it has it


def moves(touches: Iterable[Touch], cpus: int) -> Iterator[Move]:
    """Every move of the window, in order; also those of no iteration.

    What `read` says is known at the end of the window only.
    """
    lines: defaultdict[int, _Line] = defaultdict(_Line)
    for touch in touches:
        mine = 1 << touch.cpu
        for number in touch.lines:
            line = lines[number]
            begin = number << LINE_SHIFT
            first = max(touch.physical, begin) - begin
            last = min(touch.physical + touch.size, begin + LINE_BYTES) - begin
            touched = (1 << last) - (1 << first)  # a bit for each byte
            has = bool(line.holders & mine)
            if not has and (line.holders or line.writer):
                line.fetched[touch.cpu] = move = Move(number, touch, False, line.writer)
                yield move
            elif has and touch.store and line.holders & ~mine:
                yield Move(number, touch, True, line.writer)
            new = line.news.get(touch.cpu, 0)
            if new & touched:
                if not touch.store and (fetch := line.fetched.get(touch.cpu)) and not fetch.read:
                    fetch.read = touch
                line.news[touch.cpu] = new & ~touched
            if not touch.store:
                line.holders |= mine
                continue
            line.holders, line.writer = mine, touch
            for other in range(cpus):
                if other != touch.cpu:
                    line.news[other] = line.news.get(other, 0) | touched


class _Cache:
    """A cache of sets, of which the line that was not used longest goes first."""

    def __init__(self, size: int, ways: int) -> None:
        self._sets: list[OrderedDict[int, None]] = [
            OrderedDict() for _ in range(size // LINE_BYTES // ways)
        ]
        self._ways = ways

    def misses(self, line: int) -> bool:
        held = self._sets[line % len(self._sets)]
        missed = line not in held
        held[line] = None
        held.move_to_end(line)
        if len(held) > self._ways:
            held.popitem(last=False)
        return missed


def estimate(recorded: Recorded) -> Counter[str]:
    """Misses of one CPU's caches in the second half of the window, by level and by what."""
    first_data, first_code = _Cache(*LEVEL_1), _Cache(*LEVEL_1)
    second = _Cache(*LEVEL_2)
    half = recorded.iterations // 2
    missed: Counter[str] = Counter()
    iterations, words = recorded.positions.iterations, recorded.positions.words
    done = 0
    for touch in recorded.touches():
        while done < touch.position:
            done += 1
            block = recorded.record.blocks[words[done] >> COUNT_BITS]
            counts = iterations[done] >= half
            for line in range(block.address >> LINE_SHIFT, (block.end - 1 >> LINE_SHIFT) + 1):
                if first_code.misses(line):
                    missed["l1_code"] += counts
                    missed["l2_code"] += second.misses(line) and counts
        counts = touch.iteration >= half
        for line in touch.lines:
            if first_data.misses(line):
                missed["l1_data"] += counts
                missed["l2_data"] += second.misses(line) and counts
    return missed


@dataclass
class LineRow:
    """A line of an object, over the iterations. Its numbers are sums."""

    objects: set[int] = field(default_factory=set)
    fields: Counter[str] = field(default_factory=Counter)
    loads: int = 0
    stores: int = 0
    fetches: int = 0
    invalidations: int = 0
    read: int = 0  # fetches that brought something that was read
    written: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    takers: Counter[str] = field(default_factory=Counter)

    @property
    def moves(self) -> int:
        return self.fetches + self.invalidations


@dataclass
class FieldRow:
    """A field of an object, over the iterations: loads and stores by way, and who makes them.

    `structure` is the one that declares it. `size` is 0 where the object's type is not one of
    LAID_OUT.
    """

    structure: str
    offset: int
    size: int = 0
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    loaders: Counter[str] = field(default_factory=Counter)
    storers: Counter[str] = field(default_factory=Counter)


LineKey = tuple[str, str, int | None]
"""Kind and name of the object, and the line's first byte in it; None where it has no such place."""


@dataclass
class Lines:
    """What the iterations of a window touched and moved. All numbers are sums over `iterations`."""

    iterations: int
    cpus: int
    totals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  # lines by the kind of their place
    misses: Counter[str] = field(default_factory=Counter)  # an estimate, of half the iterations
    usual_moves: int = 0  # of the most frequent iteration
    rows: dict[LineKey, LineRow] = field(default_factory=dict)
    fields: dict[tuple[str, str], FieldRow] = field(default_factory=dict)


def count_lines(recorded: Recorded, cpus: int) -> Lines:
    """Count the lines, fields and moves of a recorded window."""
    counted = Lines(recorded.iterations, cpus)
    touched: defaultdict[int, dict[int, int]] = defaultdict(dict)  # iteration → line → who, how
    alike: Counter[Touch] = Counter()  # but for when it was
    kinds: dict[
        int, str
    ] = {}  # of each line; user space's only where the kernel has no name for it
    for touch in recorded.touches():
        if touch.iteration == OUTSIDE:
            continue
        alike[touch._replace(iteration=0, position=0)] += 1
        bit = 1 << 2 * touch.cpu + touch.store
        lines = touched[touch.iteration]
        for line in touch.lines:
            lines[line] = lines.get(line, 0) | bit
    for touch, times in alike.items():
        counted.totals["stores" if touch.store else "loads"] += times
        _add_to_line(recorded, counted, touch, times)
        _add_to_fields(recorded, counted, touch, times)
        kind = recorded.objects.place(touch.virtual).kind
        for line in touch.lines:
            if kinds.get(line, MemoryKind.USER) == MemoryKind.USER:
                kinds[line] = kind
    _lay_out(recorded, counted)
    _add_distinct(counted, touched, kinds)
    counted.totals["code_lines"] = recorded.code_lines()
    if cpus > 1:
        _add_moves(recorded, counted)
    else:
        counted.misses = estimate(recorded)
    return counted


def line_key(recorded: Recorded, touch: Touch) -> LineKey:
    """The row of the line in which an access begins."""
    place = recorded.objects.place(touch.virtual)
    if place.kind in NOT_ONE_LINE:
        return place.kind, place.name, None
    name = (
        f"{place.name} of CPU {place.base >> CPU_SHIFT}"
        if place.kind == MemoryKind.PER_CPU
        else place.name
    )
    return place.kind, name, max(0, place.offset - touch.physical % LINE_BYTES)


def _add_to_line(recorded: Recorded, counted: Lines, touch: Touch, times: int) -> None:
    row = counted.rows.setdefault(line_key(recorded, touch), LineRow())
    row.objects.add(recorded.objects.place(touch.virtual).base)
    row.fields[recorded.field(touch)] += times
    if touch.store:
        row.stores += times
    else:
        row.loads += times


def _add_to_fields(recorded: Recorded, counted: Lines, touch: Touch, times: int) -> None:
    """Each field that an access reaches counts it once."""
    place = recorded.objects.place(touch.virtual)
    if place.kind not in TYPED or place.name not in recorded.objects.structures:
        return
    seen: dict[str, int] = {}
    for byte in range(touch.size):
        seen.setdefault(recorded.field(touch, byte), place.offset + byte)
    way, function = recorded.way(touch.node), recorded.function(touch.node)
    for name, at in seen.items():
        structure = recorded.objects.structure(place.name, at)
        row = counted.fields.setdefault((place.name, name), FieldRow(structure, at))
        row.offset = min(row.offset, at)
        if touch.store:
            row.stores[way] += times
            row.storers[f"{way} {function}"] += times
        else:
            row.loads[way] += times
            row.loaders[f"{way} {function}"] += times


def _lay_out(recorded: Recorded, counted: Lines) -> None:
    """Give the fields their sizes, and a row to those that nothing accesses."""
    touched = {name for name, _ in counted.fields}
    for name in touched.intersection(LAID_OUT):
        for field_name, at, size in recorded.objects.layout(name):
            structure = recorded.objects.structure(name, at)
            row = counted.fields.setdefault((name, field_name), FieldRow(structure, at))
            row.offset, row.size = at, size


def _add_distinct(
    counted: Lines, touched: dict[int, dict[int, int]], kinds: dict[int, str]
) -> None:
    """Distinct lines: all, written, by kind, by CPU, of both CPUs."""
    totals, stores = counted.totals, 0b1010
    for lines in touched.values():
        for line, bits in lines.items():
            counted.kinds[kinds[line]] += 1
            users = [cpu for cpu in range(counted.cpus) if bits >> 2 * cpu & 3]
            totals["lines"] += 1
            totals["lines_written"] += bool(bits & stores)
            if counted.cpus > 1:
                for cpu in users:
                    totals[f"lines_cpu{cpu}"] += 1
                totals["lines_shared"] += len(users) > 1
                totals["lines_shared_written"] += len(users) > 1 and bool(bits & stores)


def _add_moves(recorded: Recorded, counted: Lines) -> None:
    """Moves of the iterations in which each line has been seen before."""
    totals, by_iteration = counted.totals, Counter[int]()
    settled = [m for m in moves(recorded.touches(), counted.cpus) if m.touch.iteration >= SETTLED]
    counted.totals["settled_iterations"] = recorded.iterations - SETTLED
    for move in settled:
        by_iteration[move.touch.iteration] += 1
        row = counted.rows[line_key(recorded, move.touch)]
        row.taken[recorded.field(move.touch)] += 1
        row.takers[recorded.function(move.touch.node)] += 1
        if move.invalidates:
            totals["invalidations"] += 1
            row.invalidations += 1
            continue
        totals["fetches"] += 1
        totals["fetches_unread"] += move.read is None
        row.fetches += 1
        row.read += move.read is not None
        if move.writer:
            row.written[recorded.field(move.writer)] += 1
            row.writers[recorded.function(move.writer.node)] += 1
    most = Counter(by_iteration.values()).most_common(1)
    counted.usual_moves = most[0][0] if most else 0
