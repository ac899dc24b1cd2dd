# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays a structure out as C does, with its fields in another order.

A *unit* is what moves as one: a member, or the bit fields that share a number. BTF has no
attributes, so a unit is aligned as its type is, or as the hole before it tells. What else a hole
may be for is not known: such a hole stays behind the unit that it follows.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from probes.btf import GROUP_BEGIN, GROUP_END, Btf, Member
from probes.messages import UsageError, shown

LINE_SIZE, LARGEST_ATTRIBUTE = 64, 64  # alignments; the largest is that many lines


@dataclass(frozen=True)
class Unit:
    """Members that stay together: `at` is where they are, `hole` the bytes kept behind them."""

    names: tuple[str, ...]
    at: int
    size: int
    align: int
    place: int = 0  # of its type, 0 for bit fields
    hole: int = 0

    def __str__(self) -> str:
        return "|".join(filter(None, self.names)) or "(no name)"

    @property
    def is_marker(self) -> bool:
        """Whether it marks where a group of cache lines begins or ends."""
        return self.names[0].startswith((GROUP_BEGIN, GROUP_END))


class Piece(NamedTuple):
    """Bytes that stay together, before and in the new layout."""

    old: int
    size: int
    new: int


class Change(NamedTuple):
    """Fields of a structure that are moved behind another one."""

    structure: str
    fields: tuple[str, ...]
    behind: str

    def __str__(self) -> str:
        return f"{self.structure}: {','.join(self.fields)} after {self.behind}"


def units_of(btf: Btf, structure: str) -> list[Unit]:
    """The units of a structure, in their order. Raises RunError."""
    return _units(btf, btf.place(structure))


def _units(btf: Btf, place: int) -> list[Unit]:
    """The units of the structure or array that stands there."""
    made: list[Unit] = []
    most = btf.alignment(place)
    for group in _together(btf, btf.parts(place)):
        first, end = group[0], max(member.at + member.size for member in group)
        align = min(most, btf.alignment(first.place))
        while first.at % align:  # packed, or a bit field within a number
            align //= 2
        names = tuple(name for member in group for name in btf.names(member))
        before = made[-1].at + made[-1].size if made else 0
        if first.at > _up(before, align):
            by_attribute = _attribute(before, first.at)
            if by_attribute:
                align = by_attribute
            else:
                made[-1] = replace(made[-1], hole=first.at - before)
        inner = 0 if first.bits else first.place
        made.append(Unit(names, first.at, end - first.at, align, inner))
    return made


def _together(btf: Btf, members: Sequence[Member]) -> Iterator[list[Member]]:
    """Members, and bit fields that share a byte or a number, each in a list."""
    group: list[Member] = []
    end, number = 0, (0, 0)
    for member in members:
        each = btf.alignment(member.place)
        both = group and group[0].bits and member.bits
        if group and not (both and (member.at < end or number == (each, member.at // each))):
            yield group
            group = []
        end, number = member.at + member.size, (each, member.at // each)
        group.append(member)
    if group:
        yield group


def _attribute(before: int, at: int) -> int:
    """The alignment that explains a hole: a line's if it does, else the least; 0 for none."""
    likely = [LINE_SIZE, LINE_SIZE // 2, LINE_SIZE // 4, LINE_SIZE // 8]
    larger = [LINE_SIZE << shift for shift in range(1, LARGEST_ATTRIBUTE.bit_length())]
    return next((align for align in (*likely, *larger) if _up(before, align) == at), 0)


def _up(at: int, align: int) -> int:
    return (at + align - 1) // align * align


def changed(btf: Btf, units: Sequence[Unit], changes: Sequence[Change]) -> list[Unit]:
    """The units in the order that the changes of their structure give, one after the other.

    Raises UsageError for a field that is not there, or is there twice.
    """
    order = list(units)
    for change in changes:
        if len(set(change.fields)) < len(change.fields):
            raise UsageError(f"--layout {shown(str(change))} moves a field twice.")
        moved = list(dict.fromkeys(_find(order, name, change) for name in change.fields))
        behind = _find(order, change.behind, change)
        if behind in moved:
            raise UsageError(f"--layout {shown(str(change))} moves a field behind itself.")
        order = [unit for unit in order if unit not in moved]
        at = order.index(behind) + 1
        order[at:at] = moved
    return order


def _find(units: Sequence[Unit], name: str, change: Change) -> Unit:
    for unit in units:
        if name in unit.names:
            return unit
    raise UsageError(
        f"--layout: this kernel's struct {change.structure} declares no field {shown(name)} "
        "itself; a field of a structure within it is laid out in that one."
    )


def held(btf: Btf, place: int, structure: str) -> Iterator[int]:
    """The offsets at which the type that stands there is or holds a structure."""
    if btf.name_of(place) == structure:
        yield 0
        return
    for part in btf.parts(place):
        if not part.bits:
            yield from (part.at + offset for offset in held(btf, part.place, structure))


class Layout:
    """The structures of a kernel, some of which have their units in another order.

    `orders` has these: name → units.
    """

    def __init__(self, btf: Btf, orders: Mapping[str, Sequence[Unit]]) -> None:
        self._btf, self._orders = btf, orders
        self._lay = cache(self._lay_out)
        self.mapped = cache(self._mapped)

    def _mapped(self, structure: str) -> "Mapped | None":
        """Where the bytes of an object of this type go; None where all stay."""
        size, _, pieces = self._lay(self._btf.place(structure))
        if size == self._btf.size(structure) and all(piece.old == piece.new for piece in pieces):
            return None
        return Mapped(pieces, self._btf.size(structure), size)

    def _lay_out(self, place: int) -> tuple[int, int, tuple[Piece, ...]]:
        """Size, alignment and pieces of the type that stands there."""
        btf = self._btf
        now, parts = btf.size_at(place), btf.parts(place)
        order = self._orders.get(btf.name_of(place))
        inner = {part.place: self._lay(part.place) for part in parts if not part.bits}
        if order is None and all(_is_same(laid) for laid in inner.values()):
            return now, btf.alignment(place), (Piece(0, now, 0),)
        pieces: list[Piece] = []
        at, most = 0, 1
        for unit in order or _units(btf, place):
            size, least, within = inner.get(unit.place) or (unit.size, 1, (Piece(0, unit.size, 0),))
            align = max(unit.align, least) if not _is_same((size, least, within)) else unit.align
            at, most = _up(at, align), max(most, align)
            pieces += [Piece(unit.at + p.old, p.size, at + p.new) for p in within if p.size]
            at += size + unit.hole
        end = max((unit.at + unit.size for unit in _units(btf, place)), default=0)
        if now > _up(end, most):  # an attribute of its own, or bytes without a name
            most = _attribute(end, now) or most
            at += now - _up(end, most)
        return _up(at, most), most, tuple(sorted(pieces))


def _is_same(laid: tuple[int, int, tuple[Piece, ...]]) -> bool:
    return len(laid[2]) <= 1 and all(piece.old == piece.new for piece in laid[2])


class Mapped:
    """Where the bytes of an object of one type are, before and in the new layout."""

    def __init__(self, pieces: Sequence[Piece], old_size: int, new_size: int) -> None:
        self.old_size, self.new_size = old_size, new_size
        self._old = sorted(piece for piece in pieces if piece.size)
        self._new = sorted(self._old, key=lambda piece: piece.new)
        self._old_starts = [piece.old for piece in self._old]
        self._new_starts = [piece.new for piece in self._new]

    def moved(self, offset: int, size: int) -> list[Piece]:
        """The parts of an access to `size` bytes at an offset; what is a hole alone stays."""
        index, at = divmod(offset, self.old_size)
        found: list[Piece] = []
        number = max(0, bisect_right(self._old_starts, at) - 1)
        for piece in self._old[number:]:
            if piece.old >= at + size:
                break
            first, last = max(at, piece.old), min(at + size, piece.old + piece.size)
            if first < last:
                new = piece.new + first - piece.old + index * self.new_size
                start = index * self.old_size + first
                if found and found[-1].new + found[-1].size == new:
                    before = found.pop()
                    found.append(Piece(before.old, start + last - first - before.old, before.new))
                else:
                    found.append(Piece(start, last - first, new))
        return found or [Piece(offset, size, index * self.new_size + at)]

    def before(self, offset: int) -> int:
        """The offset, before, of what is at an offset in the new layout."""
        index, at = divmod(offset, self.new_size)
        piece = self._new[max(0, bisect_right(self._new_starts, at) - 1)]
        inside = at - piece.new
        return index * self.old_size + (piece.old + inside if inside < piece.size else at)
