# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorded window replayed with the fields of its objects elsewhere.

What ran stays the same; an access to a field that is moved counts for the line where the field is
then. An object keeps its address. One that grows beyond its place gets another, with the same place
in its first line.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from probes.btf import Btf
from runners.exact.objects import MemoryPlace, Objects
from runners.exact.struct_layout import Layout, held
from runners.exact.touches import LINE_BYTES, Recorded, Touch, lines_of

ELSEWHERE = 1 << 62  # an address that nothing has: of objects that have grown
SPACE = 1 << 20  # for each of them


class RelaidObjects(Objects):
    """Names for places, where fields are as a layout has them."""

    def __init__(self, objects: Objects, layout: Layout) -> None:
        self.__dict__ |= objects.__dict__
        self._usual, self._layout = objects, layout
        self._grown: dict[int, int] = {}  # by its base: the number of an object that has grown
        self._places: list[tuple[MemoryPlace, int]] = []  # with its first byte within a line
        self.place = cache(self._relaid_place)
        self.field = cache(self._relaid_field)

    def moved(self, virtual: int, size: int) -> list[tuple[int, int]]:
        """Where an access goes: bytes, and their address."""
        place = self._usual.place(virtual)
        structure = self.structures.get(place.name, "")
        mapped = self._layout.mapped(structure) if structure else None
        if mapped is None:
            return [(size, virtual)]
        start = virtual - place.offset
        if mapped.new_size > mapped.old_size:
            start = self._elsewhere(place, start)
        return [(piece.size, start + piece.new) for piece in mapped.moved(place.offset, size)]

    def _elsewhere(self, place: MemoryPlace, start: int) -> int:
        """The new address of an object that has grown."""
        if place.base not in self._grown:
            self._grown[place.base] = len(self._places)
            self._places.append((place, start % LINE_BYTES))
        return ELSEWHERE + SPACE * self._grown[place.base] + start % LINE_BYTES

    def _relaid_place(self, address: int) -> MemoryPlace:
        number, inside = divmod(address - ELSEWHERE, SPACE)
        if not 0 <= number < len(self._places):
            return self._usual.place(address)
        place, first = self._places[number]
        return place._replace(offset=inside - first)

    def structure(self, name: str, offset: int) -> str:
        return self._usual.structure(name, self._before(name, offset))

    def layout(self, name: str) -> list[tuple[str, int, int]]:
        mapped = self._layout.mapped(self.structures[name])
        rows = self._usual.layout(name)
        if mapped is None:
            return rows
        return [(field, mapped.moved(at, size)[0].new, size) for field, at, size in rows]

    def _relaid_field(self, name: str, offset: int) -> str:
        return self._usual.field(name, self._before(name, offset))

    def _before(self, name: str, offset: int) -> int:
        structure = self.structures.get(name, "")
        mapped = self._layout.mapped(structure) if structure else None
        return mapped.before(offset) if mapped else offset


class Narrowed(Recorded):
    """The part of a recorded window that touches the lines of objects that hold structures."""

    def __init__(self, recorded: Recorded, structures: Sequence[str]) -> None:
        self.__dict__ |= recorded.__dict__
        accessed = {(touch.physical, touch.virtual) for touch in recorded.touches()}
        lines = {line for pair in accessed for line in self._lines(*pair, structures)}
        self._touches = [touch for touch in recorded.touches() if not lines.isdisjoint(touch.lines)]

    def _lines(self, physical: int, virtual: int, structures: Sequence[str]) -> range:
        """The lines of the object that lies there; none of an object without such a structure."""
        objects = self.objects
        place = objects.place(virtual)
        kind = objects.structures.get(place.name, "")
        if not kind or not _holds(objects.btf, kind, tuple(structures)):
            return range(0)
        size = objects.btf.size(kind)
        return lines_of(physical - place.offset % size, size)

    def touches(self) -> Iterator[Touch]:
        return iter(self._touches)


@cache
def _holds(btf: Btf, kind: str, structures: tuple[str, ...]) -> bool:
    """Whether an object of this type holds one of the structures."""
    return any(next(held(btf, btf.place(kind), name), None) is not None for name in structures)


class Relaid(Recorded):
    """A recorded window with another layout."""

    def __init__(self, recorded: Recorded, layout: Layout) -> None:
        self.__dict__ |= recorded.__dict__
        self._usual = recorded
        self.objects = self._moved = RelaidObjects(recorded.objects, layout)
        self._parts = cache(self._moved.moved)

    def touches(self) -> Iterator[Touch]:
        for touch in self._usual.touches():
            # The allocator's link has its own place in a free object, whatever field is there.
            if self._usual.is_free_pointer(touch):
                yield touch
                continue
            for size, virtual in self._parts(touch.virtual, touch.size):
                by = virtual - touch.virtual
                if not by and size == touch.size:
                    yield touch
                else:
                    yield touch._replace(physical=touch.physical + by, virtual=virtual, size=size)
