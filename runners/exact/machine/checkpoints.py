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
from runners.exact.machine.guest import ExactGuest, is_unused, room_in_cache


class CountedCell(NamedTuple):
    """A cell's line of cells.jsonl, its call tree and its steady iteration (empty if it failed)."""

    line: dict[str, Any]
    tree: str
    iteration: str


Count = Callable[[ExactGuest, ExactCell], CountedCell]


class Checkpoints:
    """A folder with a file for each finished cell. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: list[Path] = []
        sources = [PLUGIN, *sorted(Path(__file__).parents[1].rglob("*.py"))]
        self._code = digest(b"".join(path.read_bytes() for path in sources))
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)
        for path in filter(is_unused, folder.iterdir()):
            path.unlink(missing_ok=True)

    def get_or_count(self, guest: ExactGuest, cell: ExactCell, count: Count) -> CountedCell:
        """The cell's checkpoint. Without it, count the cell, and keep the result unless it failed.

        Raises GuestError where it cannot be kept.
        """
        inputs = [guest.recipe, self._code, asdict(cell), cell.order]
        key = digest(json.dumps(inputs, sort_keys=True).encode())
        path = self._folder / f"{key[:32]}.json"
        self._used.append(path)
        if path.is_file():
            self.count += 1
            return CountedCell(*json.loads(path.read_text(encoding="utf-8")))
        result = count(guest, cell)
        if result.line["error"] is None:
            partial = path.with_suffix(".partial")
            try:
                with room_in_cache("a finished cell", self._folder):
                    partial.write_text(json.dumps(result), encoding="utf-8")
                    partial.rename(path)
            finally:
                partial.unlink(missing_ok=True)
            self.count += 1
        return result

    def forget(self) -> None:
        """Remove the checkpoints of a run that is complete."""
        for path in self._used:
            path.unlink(missing_ok=True)
