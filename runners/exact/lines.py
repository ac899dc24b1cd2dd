# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cache lines and fields a message touches, and which lines move between two CPUs.

Everything follows from the order in which the record has the accesses. What that leaves out is in
docs/cache-lines.md.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from probes.contract import STRUCTURES
from runners.exact.line_misses import estimate
from runners.exact.line_moves import Move, moves
from runners.exact.line_order import Passage, passages
from runners.exact.objects import CPU_SHIFT, MemoryKind
from runners.exact.touches import LINE_BYTES, OUTSIDE, Recorded, Touch

# Iterations at the beginning of the window in which a line's first access by a CPU is no move: its
# copy may be from before.
SETTLED = 10
# Kinds of places whose lines have no lasting place.
NOT_ONE_LINE = (MemoryKind.STACK, MemoryKind.PAGES, MemoryKind.USER, MemoryKind.OTHER)
# Kinds of places whose fields are counted.
TYPED = (MemoryKind.SLAB, MemoryKind.VARIABLE, MemoryKind.PER_CPU)
# Types of which every field has a row, also one that nothing accesses.
LAID_OUT = (*STRUCTURES, "init_net", "linux_mib", "epitem", "eppoll_entry")


@dataclass
class LineRow:
    """A line of an object, over the iterations. Its numbers are sums."""

    objects: set[int] = field(default_factory=set)
    fields: Counter[str] = field(default_factory=Counter)
    loads: int = 0
    stores: int = 0
    fetches: int = 0
    invalidations: int = 0
    fetches_read: int = 0  # of the fetches: those that brought something that was read
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
    users: defaultdict[int, set[tuple[int, bool]]] = field(
        default_factory=lambda: defaultdict(set)
    )  # object → each CPU that loads or stores (True) the field there

    @property
    def sharing(self) -> str:
        """How the CPUs share the field, in the object in which they share it most."""
        return SHARING[max(map(_shared, self.users.values()), default=0)]


# How CPUs share a field of an object, from the least on.
SHARING = ("one CPU", "both read", "one writes", "both write")


def _shared(users: set[tuple[int, bool]]) -> int:
    """The place in SHARING."""
    cpus, writers = {cpu for cpu, _ in users}, {cpu for cpu, stores in users if stores}
    return 0 if len(cpus) < 2 else 1 + len(writers)


LineKey = tuple[str, str, int | None]
"""Kind and name of the object, and the line's first byte in it; None where it has no such place."""


@dataclass
class Lines:
    """What the iterations of a window touched and moved. All numbers are sums over `iterations`."""

    iterations: int
    cpus: int
    totals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  # lines by the kind of their place
    names: Counter[str] = field(default_factory=Counter)  # lines by the name of their object
    misses: Counter[str] = field(default_factory=Counter)  # an estimate, of half the iterations
    usual_moves: int = 0  # of the most frequent iteration
    rows: dict[LineKey, LineRow] = field(default_factory=dict)
    fields: dict[tuple[str, str], FieldRow] = field(default_factory=dict)
    order: tuple[Passage, ...] = ()  # of the first iteration with `usual_moves`


def count_lines(recorded: Recorded, cpus: int) -> Lines:
    """Count the lines, fields and moves of a recorded window."""
    counted = Lines(recorded.iterations, cpus)
    touched: defaultdict[int, dict[int, int]] = defaultdict(dict)  # iteration → line → who, how
    alike: Counter[Touch] = Counter()  # but for when it was
    # Of each line; user space's only where the kernel has no name for it.
    keys: dict[int, LineKey] = {}
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
        key = line_key(recorded, touch)
        for line in touch.lines:
            if line not in keys or keys[line][0] == MemoryKind.USER:
                keys[line] = key
    _lay_out(recorded, counted)
    _add_distinct(counted, touched, keys)
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
    if place.kind not in TYPED:
        return
    seen: dict[str, int] = {}
    for byte in range(touch.size):
        if recorded.objects.structure(place.name, place.offset + byte):
            seen.setdefault(recorded.field(touch, byte), place.offset + byte)
    way, function = recorded.way(touch.node), recorded.function(touch.node)
    for name, at in seen.items():
        structure = recorded.objects.structure(place.name, at)
        row = counted.fields.setdefault((place.name, name), FieldRow(structure, at))
        row.offset = min(row.offset, at)
        row.users[place.base].add((touch.cpu, touch.store))
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
    counted: Lines, touched: dict[int, dict[int, int]], keys: dict[int, LineKey]
) -> None:
    """Distinct lines: all, written, by kind and name, by CPU, of both CPUs."""
    totals, stores = counted.totals, 0b1010
    for lines in touched.values():
        for line, bits in lines.items():
            kind, name, _ = keys[line]
            counted.kinds[kind] += 1
            counted.names[name] += 1
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
    totals = counted.totals
    # Also the iterations in which nothing moves.
    by_iteration = Counter(dict.fromkeys(range(SETTLED, recorded.iterations), 0))
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
        row.fetches_read += move.read is not None
        if move.writer:
            row.written[recorded.field(move.writer)] += 1
            row.writers[recorded.function(move.writer.node)] += 1
    [(counted.usual_moves, _)] = Counter(by_iteration.values()).most_common(1)
    usual = next(n for n, number in by_iteration.items() if number == counted.usual_moves)
    own = [move for move in settled if move.touch.iteration == usual]
    counted.order = tuple(passages(recorded, usual, own, lambda move: _name(recorded, move)))


def _name(recorded: Recorded, move: Move) -> str:
    """`tcp_sock+1472`: the line of a move."""
    _, name, line = line_key(recorded, move.touch)
    return name if line is None else f"{name}+{line}"
