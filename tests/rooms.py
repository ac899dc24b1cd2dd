# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the house: which room of `runners` and `analysis` imports which.

    python -m tests.rooms [--repository DIR]

A room is a folder or a module that lies loose. A room stands on the floor above the highest room
that it imports, so no rooms may import each other in a circle.
"""

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class House:
    """The rooms of one package: what each imports, its lines, and the modules that lie loose."""

    imports: dict[str, set[str]]
    lines: dict[str, int]
    loose: tuple[str, ...]

    @property
    def floors(self) -> dict[str, int]:
        """Room → its floor; the ground is 1. Raises CycleError where an arrow runs back up."""
        floors: dict[str, int] = {}
        for room in TopologicalSorter(self.imports).static_order():
            floors[room] = 1 + max((floors[other] for other in self.imports[room]), default=0)
        return floors


def read(package: Path) -> House:
    """The house that a package is."""
    modules = sorted(path for path in package.rglob("*.py") if "build" not in path.parts)
    room_of = {path: path.relative_to(package).parts[0].removesuffix(".py") for path in modules}
    rooms = set(room_of.values()) - {"__init__"}
    imports: dict[str, set[str]] = {room: set() for room in rooms}
    lines = dict.fromkeys(rooms, 0)
    for path, room in room_of.items():
        if room in rooms:
            text = path.read_text(encoding="utf-8")
            lines[room] += text.count("\n")
            imports[room] |= {name for name in _imported(text, package.name) if name in rooms}
            imports[room].discard(room)
    loose = tuple(sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__"))
    return House(imports, lines, loose)


def _imported(text: str, package: str) -> Iterator[str]:
    """The rooms that a module names: `runners.guest.qemu` and `from runners import guest`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != package else []
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith(f"{package}."))


def draw(house: House, name: str) -> str:
    """The house in words, from the top floor down."""
    floors = house.floors
    arrows = sum(map(len, house.imports.values()))
    text = f"{name}: {max(floors.values())} floors, {arrows} arrows, {len(house.loose)} loose\n"
    for floor in range(max(floors.values()), 0, -1):
        for room in sorted(room for room in floors if floors[room] == floor):
            others = ", ".join(sorted(house.imports[room], key=lambda other: -floors[other]))
            size = f"{room} {house.lines[room]}"
            text += f"{floor:3}  {size:22}{'→ ' + others if others else ''}\n"
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    repository = parser.parse_args().repository
    for name in ("runners", "analysis"):
        print(draw(read(repository / name), name))
