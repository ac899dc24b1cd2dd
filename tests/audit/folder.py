# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a run folder: manifest, lines of JSON, the tidy table. docs/run-folder.md describes it."""

import csv
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ARCHIVE = "raw.tar.xz"


def timed(target: dict[str, Any]) -> bool:
    """Whether a target's times are times: not a guest's, nor of an emulated CPU."""
    return bool(target["kind"] == "host" and target["accelerator"] != "tcg")


def unit(quantity: str) -> str:
    """The unit that the end of a quantity's name says."""
    for end, name in (("_per_s", "1/s"), ("_ns", "ns"), ("_bytes", "bytes"), ("_khz", "kHz")):
        if quantity.endswith(end):
            return name
    return "count"


def is_time(quantity: str) -> bool:
    """Whether it says nothing of an emulated CPU, so that the table leaves it out."""
    return unit(quantity) in ("ns", "1/s") or quantity == "address_share"


class NoRunError(Exception):
    """The folder cannot be audited. The text is one sentence."""


class Where(NamedTuple):
    """The columns of measurements.csv that name a figure."""

    target: str
    kernel: str
    instrument: str
    transport: str
    pattern: str
    size: int
    conditions: str
    repeat: int
    cell: int
    probed: bool
    quantity: str
    key: str

    def __str__(self) -> str:
        name = f"{self.quantity} {self.key}".strip()
        return (
            f"{self.target} {self.kernel}, cell {self.cell} ({self.transport}, {self.pattern}, "
            f"{self.size} B, {self.conditions}, repeat {self.repeat}), {self.instrument}: {name}"
        )


class Figure(NamedTuple):
    """What measurements.csv says of a figure: the total over a window of so many messages."""

    value: float
    unit: str
    messages: int
    probe_level: str
    valid: bool


Figures = dict[Where, Figure]


@dataclass(frozen=True)
class Folder:
    """A run folder whose raw files lie under `raw`, unpacked where the run keeps an archive."""

    path: Path
    raw: Path
    manifest: dict[str, Any]

    def lines(self, target: str, name: str) -> list[dict[str, Any]]:
        """The objects of raw/<target>/<name>, a line each; none where there is no such file."""
        path = self.raw / target / name
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def table(self) -> tuple[Figures, list[str]]:
        """measurements.csv, and one sentence for each figure that stands in it twice."""
        found: Figures = {}
        twice = []
        for row in self.rows("measurements.csv"):
            where, figure = _parse(row)
            if where in found:
                twice.append(f"{where} stands twice in measurements.csv")
            found[where] = figure
        return found, twice

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        """The rows of a table that the analysis wrote."""
        with (self.path / name).open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _parse(row: dict[str, str]) -> tuple[Where, Figure]:
    typed: dict[str, Any] = row | {"value": float(row["value"])}
    typed |= {name: int(row[name]) for name in ("size", "repeat", "cell", "messages")}
    typed |= {name: row[name] == "True" for name in ("probed", "valid")}
    where, figure = ([typed[name] for name in each._fields] for each in (Where, Figure))
    return Where(*where), Figure(*figure)


def open_folder(path: Path, place: Path) -> Folder:
    """Open a run folder; an archive of raw files is unpacked to `place`."""
    if not (path / "run.json").is_file():
        raise NoRunError(f"{path} is no run folder: it has no run.json.")
    raw = path / "raw"
    if not raw.is_dir():
        if not (path / ARCHIVE).is_file():
            raise NoRunError(f"{path} has no raw files: neither raw/ nor {ARCHIVE} is there.")
        shutil.unpack_archive(path / ARCHIVE, place)
        raw = place / "raw"
    if not (path / "measurements.csv").is_file():
        raise NoRunError(f"{path} has no measurements.csv: `python -m analysis {path}` makes it.")
    return Folder(path, raw, json.loads((path / "run.json").read_text(encoding="utf-8")))
