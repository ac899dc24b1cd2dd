# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures that the labs ask for, computed of what a run has left: of a student's run as of ours.

instructions FUNCTION      of one round trip, with all that the function calls
steps FUNCTION             the same, where each repetition of a string instruction is a step
rest FUNCTION OTHER …      the first's instructions without those of the others below it
calls FUNCTION             of one round trip
share FUNCTION FUNCTION    the first's part of the second's instructions, in per cent
functions                  how many different functions a round trip calls
largest FUNCTION           which function that it calls takes the most instructions
paths                      a digest of all call paths of a round trip, and how often each is called
outcome FUNCTION           of a lesion that returns 0
saved FUNCTION             instructions of a round trip that this lesion saves
"""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from analysis.paths.tree import Span, calls_of, inclusive, summed
from probes.contract import CELLS, ENVIRONMENT, MANIFEST, SERIES
from probes.files import read_regular
from probes.messages import shown
from runners.labs.lab import Truth

LESIONS = "lesions.csv"
LARGEST_FILE = 16 << 20
MOST_TARGETS = 8  # folders of a run's raw/
MOST_CELLS = 500
ROUND_TRIPS = 23  # of 46 messages
PATHS = "paths"
RETURNS = "0"  # what a lesion returns that the labs ask about


class Lesioned(NamedTuple):
    """What a round trip did without a function, and how many instructions that saved."""

    outcome: str
    saved: int


@dataclass(frozen=True)
class CountedCell:
    """A cell of a run: its name (`unix 64 psi=0`), the kernel, and its call tree or lesions.

    In a gate's folder the name begins with the kernel's state: `base` or `nop.patch`.
    """

    name: str
    kernel: str
    spans: tuple[Span, ...] = ()
    lesions: Mapping[str, Lesioned] = field(default_factory=dict)  # by function

    def figure(self, wanted: str) -> Truth | None:
        """One of the figures above; None where the cell does not have it."""
        kind, *names = wanted.split()
        if kind in ("outcome", "saved"):
            lesion = self.lesions.get(names[0])
            return lesion and getattr(lesion, kind)
        if kind == "instructions":
            return self._instructions(names[0])
        if kind == "rest":
            return self._instructions(names[0]) - sum(map(self._instructions, names[1:]))
        if kind == "steps":
            return sum(span.steps for span in self.spans if names[0] in span.path)
        if kind == "share":
            whole = self._instructions(names[1])
            return round(100 * self._instructions(names[0]) / whole) if whole else None
        if kind == "calls":
            return calls_of(self.spans)[names[0]]
        if kind == PATHS:
            return self._digest()
        if kind == "proof":
            return calls_of(self.spans)[names[0]] * ROUND_TRIPS
        if kind == "functions":
            return len(+calls_of(self.spans))
        if kind == "largest":
            return self._largest(names[0])
        if kind == "caller":
            return self._caller(names[0])
        return None

    def _instructions(self, function: str) -> int:
        """With all that the function calls."""
        return sum(span.instructions for span in self.spans if function in span.path)

    def _digest(self) -> str:
        """Two round trips with this digest call the same functions by the same paths."""
        called = sorted(f"{';'.join(span.path)} {span.calls}" for span in self.spans if span.calls)
        digest = hashlib.sha256("\n".join(called).encode()).hexdigest()
        return f"sha256:{digest[:16]}"

    def _largest(self, function: str) -> str | None:
        below = summed(
            (path[-1], count)
            for path, count in inclusive(self.spans).items()
            if path[-2:-1] == (function,)
        )
        return below.most_common(1)[0][0] if below else None

    def _caller(self, function: str) -> str | None:
        above = summed(
            (span.path[-2], span.calls)
            for span in self.spans
            if span.path[-1] == function and len(span.path) > 1
        )
        most = max(above.values(), default=0)
        return "|".join(sorted(name for name, calls in above.items() if calls == most)) or None


@dataclass(frozen=True)
class FoundRun:
    """A run's folder: when it began, its cells; a copy has the same `mark`, and no other run."""

    folder: Path
    started: str
    mark: str
    cells: tuple[CountedCell, ...]


def read_json(path: Path, folder: Path) -> Any:
    """A JSON file below a folder. Raises OSError, ValueError."""
    try:
        return json.loads(read_own(path, folder))
    except RecursionError:
        raise ValueError("its brackets are too deep") from None


def read_own(path: Path, folder: Path) -> str:
    """The text of a regular file, up to a limit. Raises OSError, and ValueError for a link.

    None of the folders that lead from `folder` to the file may be a link, either.
    """
    for place in (path, *path.parents):
        if place == folder:
            break
        if place.is_symlink():
            raise ValueError(f"{shown(place.name)} is a link")
    return read_regular(path, LARGEST_FILE).decode()


def read_run(folder: Path) -> FoundRun:
    """Read what a run has left, of which nothing is executed. Raises OSError, ValueError.

    A study of lesions has no manifest, so its copies are not told from others.
    """
    if not (folder / MANIFEST).exists():
        ended = datetime.fromtimestamp((folder / LESIONS).lstat().st_mtime, UTC)
        try:
            cells = tuple(lesions_of(folder / LESIONS))
        except (KeyError, TypeError, csv.Error) as error:
            raise ValueError(f"it has no {error}") from None
        return FoundRun(folder, ended.isoformat(timespec="seconds"), "", cells)
    manifest = read_json(folder / MANIFEST, folder)
    try:
        started, seconds = str(manifest["started"]), manifest["seconds_by_step"]
        mark = f"{started} {json.dumps(seconds, sort_keys=True)}"
        return FoundRun(folder, started, mark, tuple(_cells(folder, state_of(folder))))
    except (KeyError, TypeError, IndexError, AttributeError, csv.Error) as error:
        raise ValueError(f"it has no {error}") from None


def state_of(folder: Path) -> str:
    """Of a run within a gate's folder: `base`, or the patch's file; else nothing."""
    if not (folder.parent / SERIES).exists():
        return ""
    steps = read_json(folder.parent / SERIES, folder.parent)["steps"]
    subjects = {step["folder"]: str(step["subject"]) for step in steps[1:]}
    return f"{subjects.get(folder.name, 'base')} "


def _cells(folder: Path, state: str) -> Iterator[CountedCell]:
    for target in sorted((folder / "raw").glob("exact-*"))[:MOST_TARGETS]:
        kernel = str(read_json(target / ENVIRONMENT, folder)["version"])
        for text in read_own(target / CELLS, folder).splitlines()[:MOST_CELLS]:
            cell = json.loads(text)
            if cell["error"] is None and cell["sched"] == "fifo" and cell["pattern"] == "pingpong":
                tree = read_own(target / "tree" / f"{int(cell['id'])}.tsv", folder)
                yield CountedCell(state + name_of(cell), kernel, tuple(read_tree(tree)))


def name_of(cell: dict[str, Any]) -> str:
    """What questions call a cell: `unix 64`, `unix 64 cross-cpu`, `unix 64 psi=0`."""
    words = [cell["transport"], str(cell["size"])]
    if cell["placement"] != "same-cpu":
        words.append(cell["placement"])
    if cell["knob"]:
        words.append(cell["knob"]["name"])
    return " ".join(words)


def read_tree(text: str) -> Iterator[Span]:
    """The lines of a call tree. Raises ValueError, KeyError, TypeError, AttributeError."""
    rows = csv.DictReader(StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in rows:
        calls, steps, own = (int(row[name]) for name in ("calls", "steps", "instructions"))
        yield Span(tuple(row["path"].split(";")), own, calls, steps)


def lesions_of(path: Path) -> Iterator[CountedCell]:
    """The cells of a study of lesions. Raises OSError, ValueError, KeyError."""
    cells: dict[tuple[str, str, str], dict[str, Lesioned]] = {}
    for row in csv.DictReader(StringIO(read_own(path, path.parent))):
        if (row["placement"], row["knob"], row["gives"]) == ("same-cpu", "", RETURNS):
            own = cells.setdefault((row["transport"], row["size"], row["kernel"]), {})
            own.setdefault(row["function"], Lesioned(row["outcome"], int(row["saved"] or 0)))
    for (transport, size, kernel), own in cells.items():
        yield CountedCell(f"{transport} {size} lesions", kernel, lesions=own)
