# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message's time is made of: the network stack, and what the processes take besides."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.counts.ledger import transport_order
from analysis.counts.measures import of_times
from analysis.statistics import Estimate, estimates
from analysis.times.timing import iteration_times
from analysis.wording import number, place, size_text

# Placement → pattern and conditions of the cell that shows the stack alone, and of the whole.
STACK_CELLS = {
    "same-cpu": (("selfecho", "same-cpu"), ("pingpong", "same-cpu")),
    "cross-cpu": (("pingpong", "cross-cpu+spin"), ("pingpong", "cross-cpu")),
}
MESSAGES = 2
# Where TCP's ACKs travel alone in the one cell and on data in the other, the first is not the stack
# of a ping-pong message. Told by segments sent for a message; more than this apart.
UNEVEN = 0.05


@dataclass(frozen=True)
class Parts:
    """A message's nanoseconds over `transport`, or how much more they are than over `than`.

    `stack` and `rest` add up to `total`. They are absent where the cell of the stack is missing, or
    where it sends other `segments` a message than the whole cell does (stack's, whole's).
    """

    size: int
    placement: str
    transport: str
    than: str
    figures: dict[str, Estimate]  # total, stack, rest
    segments: tuple[float, float] | None = None
    rest_share: Estimate | None = None  # of the difference: the part that is not the stack's


def decompose(tidy: pd.DataFrame) -> tuple[Parts, ...]:
    """By size and placement: each transport's parts, then those of its difference to the first.

    On one CPU a thread that plays ping-pong with itself has no one to switch to: its time is the
    stack's. Across CPUs a pair that polls never sleeps: its time is the stack's and the way between
    two CPUs. What the usual pair takes longer is switching, or sleeping and waking. A cell's figure
    is the mean over repeats of the median iteration, for one message: a round trip is two.
    """
    times = of_times(tidy)
    sizes = times[(times["pattern"] == "pingpong") & (times["quantity"] == "rtt_ns")]["size"]
    return tuple(
        parts
        for size in sorted(set(sizes))
        for placement in STACK_CELLS
        for parts in _placement(times[times["size"] == size], int(size), placement)
    )


def _placement(times: pd.DataFrame, size: int, placement: str) -> Iterator[Parts]:
    stack, whole = (
        times[(times["pattern"] == pattern) & (times["conditions"] == conditions)]
        for pattern, conditions in STACK_CELLS[placement]
    )
    stacks, wholes = (iteration_times(cell, "pingpong") / MESSAGES for cell in (stack, whole))
    names = sorted(wholes.columns, key=transport_order)
    segments = {name: _segments(stack, whole, name) for name in names}
    tables = {}
    for name in names:
        columns = {"total": wholes[name]}
        if name in stacks and not segments[name]:
            columns["stack"] = stacks[name]
        tables[name] = pd.DataFrame(columns).dropna()
    known: dict[tuple[str, str], dict[str, Estimate]] = {}
    for name in names[1:] or names:
        pair = dict.fromkeys((names[0], name))
        known = _figures({each: tables[each] for each in pair}) | known
    order = [(name, "") for name in names] + [(name, names[0]) for name in names[1:]]
    for name, than in order:
        if figures := known.get((name, than)):
            share = _rest_share(tables[than], tables[name]) if "rest" in figures and than else None
            yield Parts(size, placement, name, than, figures, segments[name], share)


def _rest_share(first: pd.DataFrame, second: pd.DataFrame) -> Estimate:
    """The part of the difference that is not the stack's.

    The difference is the first figure, so it decides which repeats count.
    """
    added = (second - first).dropna()

    def figures(means: Any) -> Any:
        total, stack = means
        return np.stack([total, 1 - stack / total])

    with np.errstate(divide="ignore", invalid="ignore"):  # of no difference there is no part
        return estimates(figures, added["total"].to_numpy(), added["stack"].to_numpy())[1]


def _figures(tables: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], dict[str, Estimate]]:
    """The parts of one or two transports and of their difference, all of the same repeats."""
    table = pd.concat(tables, axis=1).dropna(axis=1, how="all").dropna()  # a row for each repeat
    # Each figure is a sum of columns: it is written as the columns' weights.
    weights_of = pd.DataFrame(np.eye(len(table.columns)), columns=table.columns)
    rows = {(name, ""): dict[Any, Any](weights_of[name].items()) for name in tables if len(table)}
    for parts in rows.values():
        if "stack" in parts:
            parts["rest"] = parts["total"] - parts["stack"]
    if len(rows) > 1:
        (than, first), (name, second) = ((key[0], parts) for key, parts in rows.items())
        more = {part: second[part] - first[part] for part in second if part in first}
        rows = {(name, than): more} | rows  # by the first figure `estimates` leaves repeats out
    weights = np.array([row for parts in rows.values() for row in parts.values()])
    values = iter(estimates(lambda means: weights @ means, *table.to_numpy().T) if rows else ())
    return {key: {part: next(values) for part in parts} for key, parts in rows.items()}


def _segments(stack: pd.DataFrame, whole: pd.DataFrame, name: str) -> tuple[float, float] | None:
    """Sent for a message in the two cells; None where they are as many."""
    counted = []
    for cell in (stack, whole):
        rows = cell[(cell["transport"] == name) & (cell["instrument"] == "kernel")]
        rows = rows[(rows["quantity"] == "segments") & (rows["key"] == "out")]
        counted.append(float((rows["value"] / rows["messages"]).median()))
    return (counted[0], counted[1]) if abs(counted[0] - counted[1]) > UNEVEN else None


# What the stack's cell is, and what the whole cell has besides, by placement.
STACK_OF = {
    "same-cpu": "one thread that holds both ends and answers itself (selfecho)",
    "cross-cpu": "two processes on two CPUs that poll and never sleep",
}
REST = {"same-cpu": "switching between the processes", "cross-cpu": "sleeping and waking"}


def uneven(parts: Parts) -> str:
    """Why the stack's cell is not the stack of a ping-pong message; empty where it is."""
    if not parts.segments:
        return ""
    stack, whole = map(number, parts.segments)
    return (
        f"Over {parts.transport}, {place(parts.placement)}, the cell of the stack sends {stack} "
        f"segments a message and ping-pong {whole}: ACKs travel alone in one of them. So it is not "
        "the stack of a ping-pong message, and the time is not divided."
    )


def lacking(parts: Parts) -> str:
    """Which cell the division lacks, and the command that gives it; empty where it lacks none."""
    if "stack" in parts.figures or parts.segments:
        return ""
    pattern, conditions = STACK_CELLS[parts.placement][0]
    return (
        f"There is no {pattern} {conditions} of {size_text(parts.size)} over {parts.transport}: "
        f"--transports {parts.transport} --sizes {parts.size} --patterns pingpong,selfecho --wait "
        "block,spin gives all cells."
    )
