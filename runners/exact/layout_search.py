# SPDX-License-Identifier: GPL-2.0-or-later
"""Searches for an order of a structure's fields with which fewer lines move between two CPUs.

What a line costs follows from what lies in it alone, so a line that a candidate leaves as it was is
not counted again. The search is greedy: of all exchanges of fields it takes the best, then looks
for the next one. An exchange is of neighbouring fields with others that take as many bytes, within
one of the groups of cache lines that the source marks; every other field keeps its place.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from probes.btf import Btf
from runners.exact.lines import SETTLED
from runners.exact.struct_layout import Change, Unit, held, units_of
from runners.exact.touches import LINE_BYTES, OUTSIDE, Recorded, Touch, lines_of
from runners.process import stop_if_told

WIDEST_EXCHANGE = 16  # bytes
LONGEST_ATOM = 8
MOST_CHANGES = 4  # that the search takes after one another
STORED, FIRST_STORES = 1, 2  # bits of what a turn does to an atom; above them the first access
Cost = tuple[float, float]
"""Moves and lines of an iteration."""


class Atom(NamedTuple):
    """Some bytes of a unit of an object, or (unit -1) of what shares a line with an object.

    `at` are bytes from the beginning of the unit; without a unit, the address.
    """

    start: int
    unit: int
    at: int


class TurnOfCpu(NamedTuple):
    """Accesses to a region by one CPU, one after the other, in one iteration."""

    cpu: int
    iteration: int


@dataclass(eq=False)
class Region:
    """Lines that hold objects, and what is done to every atom in them: turn → bits."""

    turns: list[TurnOfCpu] = field(default_factory=list)
    atoms: defaultdict[Atom, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    known: dict[frozenset[Atom], tuple[int, int]] = field(default_factory=dict)
    now: int = 0

    def add(self, touch: Touch, atoms: Iterator[Atom]) -> None:
        turn = TurnOfCpu(touch.cpu, touch.iteration)
        if not self.turns or self.turns[-1] != turn:
            self.turns.append(turn)
        number = len(self.turns) - 1
        self.now += 1
        for atom in atoms:
            done = self.atoms[atom]
            first = self.now << 2 | FIRST_STORES * touch.store
            done[number] = done.get(number, first) | STORED * touch.store

    def cost(self, line: frozenset[Atom]) -> tuple[int, int]:
        """Moves of the settled iterations of a line with these atoms; iterations that touch it."""
        if line not in self.known:
            self.known[line] = self._count(line)
        return self.known[line]

    def _count(self, line: frozenset[Atom]) -> tuple[int, int]:
        done: dict[int, int] = {}
        for atom in line:
            for number, bits in self.atoms[atom].items():
                before = done.get(number, bits)
                done[number] = min(before, bits) & ~STORED | (before | bits) & STORED
        moves, holders, iterations = 0, 0, set[int]()
        for number in sorted(done):
            cpu, iteration = self.turns[number]
            bits, mine = done[number], 1 << cpu
            has = holders & mine
            fetches = bool(not has and holders)
            # A CPU that fetches by a store leaves no copy elsewhere.
            alone = not holders & ~mine or (fetches and bits & FIRST_STORES)
            if iteration >= SETTLED:
                moves += fetches + bool(bits & STORED and not alone)
            holders = mine if bits & STORED else holders | mine
            iterations.add(iteration)
        return moves, len(iterations - {OUTSIDE})


class StructUse:
    """What a recorded cell does to the objects that are or hold a structure."""

    def __init__(self, recorded: Recorded, structure: str) -> None:
        self._recorded, self.structure = recorded, structure
        btf = recorded.objects.btf
        self.units = units_of(btf, structure)
        self._starts = [unit.at for unit in self.units]
        self._size = btf.size(structure)
        self._within: dict[str, list[int]] = {}  # type → where it holds the structure
        self._iterations = recorded.iterations
        accessed = {(touch.physical, touch.virtual) for touch in recorded.touches()}
        self._places = sorted({start for pair in accessed for start in self._objects(*pair)})
        region_of = self._make_regions()
        self._regions = [*dict.fromkeys(region_of.values())]
        for touch in recorded.touches():
            for region in dict.fromkeys(region_of.get(line) for line in touch.lines):
                if region is not None:
                    region.add(touch, self._atoms(touch))
        del self._recorded

    def _objects(self, physical: int, virtual: int) -> Iterator[int]:
        """The physical addresses at which the object that lies there has the structure."""
        objects = self._recorded.objects
        place = objects.place(virtual)
        kind = objects.structures.get(place.name, "")
        if not kind:
            return
        if kind not in self._within:
            self._within[kind] = [*held(objects.btf, objects.btf.place(kind), self.structure)]
        for offset in self._within[kind]:
            yield physical - place.offset % objects.btf.size(kind) + offset

    def _make_regions(self) -> dict[int, Region]:
        """The region of each line that holds objects; objects that share a line share a region."""
        regions: dict[int, Region] = {}
        for start in self._places:
            lines = lines_of(start, self._size)
            region = regions.get(lines[0]) or Region()
            regions |= dict.fromkeys(lines, region)
        return regions

    def _atoms(self, touch: Touch) -> Iterator[Atom]:
        moved = not self._recorded.is_free_pointer(touch)
        seen = set[Atom]()
        for address in range(touch.physical, touch.physical + touch.size):
            number = bisect_right(self._places, address) - 1
            start = self._places[max(0, number)]
            inside = address - start
            atom = Atom(-1, -1, address // LONGEST_ATOM * LONGEST_ATOM)
            if moved and 0 <= inside < self._size:
                unit = max(0, bisect_right(self._starts, inside) - 1)
                at = inside - self._starts[unit]
                if at < self.units[unit].size:
                    atom = Atom(start, unit, at - at % self._atom_size(unit))
            if atom not in seen:
                seen.add(atom)
                yield atom

    def _atom_size(self, unit: int) -> int:
        return min(LONGEST_ATOM, self.units[unit].align)

    @property
    def touched(self) -> set[int]:
        """The numbers of the units that the cell accesses."""
        return {atom.unit for region in self._regions for atom in region.atoms} - {-1}

    def cost(self, starts: Sequence[int]) -> Cost:
        """Moves and lines of an iteration where the units begin at these offsets."""
        moves = lines = 0
        for region in self._regions:
            by_line: defaultdict[int, list[Atom]] = defaultdict(list)
            for atom in region.atoms:
                at = atom.at if atom.unit < 0 else atom.start + starts[atom.unit] + atom.at
                by_line[at // LINE_BYTES].append(atom)
            for atoms in by_line.values():
                of_moves, of_lines = region.cost(frozenset(atoms))
                moves, lines = moves + of_moves, lines + of_lines
        return moves / max(1, self._iterations - SETTLED), lines / self._iterations


def groups_of(units: Sequence[Unit]) -> list[list[int]]:
    """The numbers of the units of each group of cache lines, and of what is between groups."""
    groups: list[list[int]] = [[]]
    for number, unit in enumerate(units):
        if unit.is_marker:
            groups.append([])
        else:
            groups[-1].append(number)
    return [group for group in groups if len(group) > 1]


class Found(NamedTuple):
    """Changes, the last of which the search took at last, and the cost of each cell then."""

    changes: tuple[Change, ...]
    costs: tuple[Cost, ...]


def search(btf: Btf, structure: str, uses: Sequence[StructUse]) -> Iterator[Found]:
    """Yield the layout as it is, and with the best exchange more each time. Raises RunError."""
    order = units_of(btf, structure)
    units, taken = tuple(order), tuple[Change, ...]()
    touched = {units[number] for use in uses for number in use.touched}

    def costs(order: Sequence[Unit]) -> tuple[Cost, ...]:
        stop_if_told()
        places = places_of(order)
        return tuple(use.cost([places[unit] for unit in units]) for use in uses)

    best = costs(order)
    yield Found(taken, best)
    for _ in range(MOST_CHANGES):
        options = (
            (total(found), len(each.changes), each, found)
            for each in exchanges(structure, order)
            if touched.intersection(each.moved)
            for found in (costs(each.order),)
        )
        least, _, exchange, cost = min(options, default=(total(best), 0, None, best))
        if exchange is None or least >= total(best):
            return
        order, taken, best = exchange.order, (*taken, *exchange.changes), cost
        yield Found(taken, best)


def total(costs: Sequence[Cost]) -> Cost:
    """Of all cells: fewer moves count first, then fewer lines."""
    return round(sum(cost[0] for cost in costs), 6), round(sum(cost[1] for cost in costs), 6)


class Exchange(NamedTuple):
    """Two runs of neighbours in each other's place: how to write it, and the order then."""

    changes: tuple[Change, ...]
    moved: tuple[Unit, ...]
    order: list[Unit]


def exchanges(structure: str, order: Sequence[Unit]) -> Iterator[Exchange]:
    """Every exchange, within a group, of runs that take as many bytes; the others stay in place."""
    places = places_of(order)
    for group in groups_of(order):
        by_size: defaultdict[int, list[range]] = defaultdict(list)
        for run in _runs(order, group):
            last = order[run[-1]]
            by_size[places[last] + last.size - places[order[run[0]]]].append(run)
        for runs in by_size.values():
            for one, other in combinations(runs, 2):
                if one.stop > other.start:
                    continue
                made = _exchange(structure, order, one, other)
                after = places_of(made.order)
                if all(after[unit] == at for unit, at in places.items() if unit not in made.moved):
                    yield made


def _runs(order: Sequence[Unit], group: Sequence[int]) -> Iterator[range]:
    """Neighbours of a group that are no wider than an exchange may be, each with a name."""
    for first in group:
        size = 0
        for last in range(first, group[-1] + 1):
            size += order[last].size
            if size > WIDEST_EXCHANGE or not first or not order[last].names[0]:
                break
            yield range(first, last + 1)


def _exchange(structure: str, order: Sequence[Unit], one: range, other: range) -> Exchange:
    first, second = (tuple(order[number] for number in run) for run in (one, other))
    between = order[one.stop : other.start]
    changes = [Change(structure, _names(second), order[one.start - 1].names[0])]
    if between:
        changes.append(Change(structure, _names(first), between[-1].names[0]))
    after = [*order[: one.start], *second, *between, *first, *order[other.stop :]]
    return Exchange(tuple(changes), first + second, after)


def _names(units: Sequence[Unit]) -> tuple[str, ...]:
    return tuple(unit.names[0] for unit in units)


def places_of(order: Sequence[Unit]) -> dict[Unit, int]:
    """Where each unit begins."""
    places: dict[Unit, int] = {}
    at = 0
    for unit in order:
        at = -(-at // unit.align) * unit.align
        places[unit] = at
        at += unit.size + unit.hole
    return places
