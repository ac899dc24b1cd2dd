# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps the finished cells of an interrupted run in the cache, so that they are not counted again.

A cell is identified by everything that decides its figures: the stored machine, the recorder, our
own code, and the cell itself. A run that completes removes the checkpoints that it used.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from runners.exact.cells import ExactCell
from runners.exact.machine.boot import PLUGIN, digest
from runners.exact.machine.guest import ExactGuest, room_in_cache
from runners.guest.contents import unused
from runners.guest.sealed import read_sealed, remove, write_sealed

UNUSED_DAYS = 7


class CountedCell(NamedTuple):
    """A cell's line of cells.jsonl, its call tree and its steady iteration (empty if it failed).

    `refused` says why no machine can run such a cell; empty where one can.
    """

    line: dict[str, Any]
    tree: str
    iteration: str
    refused: str = ""


Count = Callable[[ExactGuest, ExactCell], CountedCell]


def code_digest() -> str:
    """The recorder, and our own code."""
    sources = [PLUGIN, *sorted(Path(__file__).parents[1].rglob("*.py"))]
    return digest(b"".join(path.read_bytes() for path in sources))


class Checkpoints:
    """A folder with a file for each finished cell. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.used: list[Path] = []
        self._code = code_digest()
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if unused(path, UNUSED_DAYS):
                remove(path)

    def get_or_count(self, guest: ExactGuest, cell: ExactCell, count: Count) -> CountedCell:
        """The cell's checkpoint. Without it, count the cell, and keep the result unless it failed.

        A damaged checkpoint is none. Raises RunError where a result cannot be kept.
        """
        inputs = [guest.recipe, self._code, asdict(cell), cell.order]
        key = digest(json.dumps(inputs, sort_keys=True).encode())
        path = self._folder / f"{key[:32]}.json"
        self.used.append(path)
        if (known := read_sealed(path)) is not None:
            self.count += 1
            return CountedCell(*known)
        remove(path)
        result = count(guest, cell)
        if result.line["error"] is None:
            with room_in_cache("a finished cell", self._folder):
                write_sealed(path, result)
            self.count += 1
        return result

    def forget(self) -> None:
        """Remove the checkpoints of a run that is complete."""
        for path in self.used:
            remove(path)
