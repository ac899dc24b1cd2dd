# SPDX-License-Identifier: GPL-2.0-or-later
"""Finished cells of a run that did not end: kept in the cache, and not counted again.

A cell is known by everything that its figures hang on: the stored machine, the recorder, this
program's own code, and what was asked of it. A run that ends takes what it used away.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from runners.exact.boot import PLUGIN, digest
from runners.exact.cells import ExactCell
from runners.exact.lane import Guest
from runners.guest import GuestError
from runners.guest.machine import User

UNUSED_DAYS = 7


class Result(NamedTuple):
    """A cell's line of cells.jsonl, its call tree and its steady lap (empty when it failed)."""

    line: dict[str, Any]
    tree: str
    lap: str


Count = Callable[[Guest, ExactCell, User | None], Result]


class Kept:
    """A folder with a file for each finished cell. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: list[Path] = []
        self._code = digest(b"".join(path.read_bytes() for path in _sources()))
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > UNUSED_DAYS * 86400:
                path.unlink(missing_ok=True)

    def get_or_count(
        self, guest: Guest, cell: ExactCell, user: User | None, count: Count
    ) -> Result:
        """What was kept of the cell, else counted now, and kept unless it failed.

        Raises GuestError where it cannot be kept.
        """
        path = self._path(guest, cell)
        self._used.append(path)
        if path.is_file():
            self.count += 1
            return Result(*json.loads(path.read_text(encoding="utf-8")))
        result = count(guest, cell, user)
        if result.line["error"] is None:
            self._keep(path, result)
            self.count += 1
        return result

    def _keep(self, path: Path, result: Result) -> None:
        partial = path.with_suffix(".partial")
        try:
            partial.write_text(json.dumps(result), encoding="utf-8")
            partial.rename(path)
        except OSError as error:
            raise GuestError(
                f"cannot keep a finished cell in {self._folder}: {error.strerror}; make room "
                "there, or set PATHCOST_CACHE to another folder"
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    def forget(self) -> None:
        """The run is whole: what it kept has done its service."""
        for path in self._used:
            path.unlink(missing_ok=True)

    def _path(self, guest: Guest, cell: ExactCell) -> Path:
        inputs = [guest.recipe, self._code, cell.fields(), cell.order]
        key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{key[:32]}.json"


def _sources() -> list[Path]:
    return [PLUGIN, *sorted(Path(__file__).parent.glob("*.py"))]
