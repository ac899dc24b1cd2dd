# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message's time is made of, as far as cells that differ in one thing can tell.

On one CPU a thread that plays ping-pong with itself has no one to switch to: its time is the
stack's. Across CPUs a pair that polls never sleeps: its time is the stack's and the way between two
CPUs. What the usual pair takes longer is switching, or sleeping and waking. A cell's figure is the
mean over repeats of the median iteration, for one message: a round trip is two.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.counts.ledger import transport_order
from analysis.counts.measures import of_times
from analysis.statistics import Estimate, estimates, mean
from analysis.times.timing import iteration_times
from analysis.wording import amount, number, place, signed_amount, size_text
from runners.cell import Conditions

# Placement → pattern and conditions of the cell that shows the stack alone, and of the whole.
CELLS = {
    "same-cpu": (("selfecho", "same-cpu"), ("pingpong", "same-cpu")),
    "cross-cpu": (
        ("pingpong", str(Conditions("cross-cpu", wait="spin"))),
        ("pingpong", "cross-cpu"),
    ),
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


def decompose(tidy: pd.DataFrame) -> tuple[Parts, ...]:
    """By size and placement: each transport's parts, then those of its difference to the first."""
    times = of_times(tidy)
    sizes = times[(times["pattern"] == "pingpong") & (times["quantity"] == "rtt_ns")]["size"]
    return tuple(
        parts
        for size in sorted(set(sizes))
        for placement in CELLS
        for parts in _placement(times[times["size"] == size], int(size), placement)
    )


def _placement(times: pd.DataFrame, size: int, placement: str) -> Iterator[Parts]:
    stack, whole = (times[(times["pattern"] == pattern) & (times["conditions"] == conditions)]
                    for pattern, conditions in CELLS[placement])  # fmt: skip
    stacks, wholes = (iteration_times(cell, "pingpong") / MESSAGES for cell in (stack, whole))
    names = sorted(wholes.columns, key=transport_order)
    segments = {name: _segments(stack, whole, name) for name in names}
    tables = {
        name: pd.DataFrame({"whole": wholes[name]} | (
            {"stack": stacks[name]} if name in stacks and not segments[name] else {}
        )).dropna()
        for name in names
    }  # fmt: skip
    differences = ((name, names[0], tables[name] - tables[names[0]]) for name in names[1:])
    for name, than, table in (*((name, "", tables[name]) for name in names), *differences):
        table = table.dropna(axis=1, how="all").dropna()  # a row for each repeat
        if len(table) and "whole" in table:
            figures = dict(zip(("total", "stack", "rest"), _estimates(table), strict=False))
            yield Parts(size, placement, name, than, figures, segments[name])


def _segments(stack: pd.DataFrame, whole: pd.DataFrame, name: str) -> tuple[float, float] | None:
    """Sent for a message in the two cells; None where they are as many."""
    counted = []
    for cell in (stack, whole):
        rows = cell[(cell["transport"] == name) & (cell["instrument"] == "kernel")]
        rows = rows[(rows["quantity"] == "segments") & (rows["key"] == "out")]
        counted.append(float((rows["value"] / rows["messages"]).median()))
    return (counted[0], counted[1]) if abs(counted[0] - counted[1]) > UNEVEN else None


def _estimates(table: pd.DataFrame) -> list[Estimate]:
    whole = table["whole"].to_numpy()
    if "stack" not in table:
        return [mean(whole)]
    stack = table["stack"].to_numpy()
    return estimates(lambda m: np.stack([m[0], m[1], m[0] - m[1]]), whole, stack)


# What the stack's cell is, and what the whole cell has besides, by placement.
STACK_OF = {
    "same-cpu": "one thread that holds both ends and answers itself (selfecho)",
    "cross-cpu": "two processes on two CPUs that poll and never sleep",
}
REST = {"same-cpu": "switching between the processes", "cross-cpu": "sleeping and waking"}


def part_text(part: Estimate, *, signed: bool = False) -> str:
    """`2.51 µs (2.40 to 2.60)`: the ends without a unit where it is the same."""
    value = (signed_amount if signed else amount)(part.value, "ns")
    if part.low is None or part.high is None:
        return value
    ends = [amount(part.low, "ns"), amount(part.high, "ns")]
    unit = value.rpartition(" ")[2]
    if all(end.endswith(f" {unit}") for end in ends):
        ends = [end.removesuffix(f" {unit}") for end in ends]
    return f"{value} ({ends[0]} to {ends[1]})"


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
    pattern, conditions = CELLS[parts.placement][0]
    return (
        f"There is no {pattern} {conditions} of {size_text(parts.size)} over {parts.transport}: "
        f"--transports {parts.transport} --sizes {parts.size} --patterns pingpong,selfecho --wait "
        "block,spin gives all cells."
    )
