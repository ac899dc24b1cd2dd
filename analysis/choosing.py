# SPDX-License-Identifier: GPL-2.0-or-later
"""Which transport to take: the questions of choosing.toml, with what the atlas measured."""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.atlas import Atlas
from analysis.wording import amount, listed, number, place, size_text, transport_text

TABLE = Path(__file__).with_suffix(".toml")
# Column of the atlas, its words, and how its figures are written.
COMPARED: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("p50", "a round trip takes", lambda value: amount(value, "ns")),
    ("instructions", "a message executes", lambda value: f"{value:,.0f} instructions"),
)


class Edge(NamedTuple):
    """One question, and what a yes leads to."""

    question: str
    take: str
    than: str
    note: str


class Choice(NamedTuple):
    """An edge, and its reasons: a sentence for each size that has figures of both transports."""

    edge: Edge
    reasons: tuple[str, ...]


def read_edges() -> list[Edge]:
    return [Edge(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["edge"]]


def choices(atlases: Sequence[Atlas]) -> list[Choice]:
    """The edges whose two transports this run has measured."""
    found = []
    for edge in read_edges():
        reasons = tuple(sentence for atlas in atlases for sentence in _reasons(atlas, edge))
        if reasons:
            found.append(Choice(edge, reasons))
    return found


def _reasons(atlas: Atlas, edge: Edge) -> Iterator[str]:
    take, than = atlas.entry(edge.take), atlas.entry(edge.than)
    if take is None or than is None:
        return
    said = [
        f"{words} {written(ours)}, {number(ours / theirs)} times {transport_text(edge.than)}'s "
        f"{written(theirs)}"
        for name, words, written in COMPARED
        if (ours := take.figures.get(name)) and (theirs := than.figures.get(name))
    ]
    if said:
        where = f"{size_text(atlas.size)}, {place(atlas.conditions)}"
        yield f"{where}: {listed(said)}."
