# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios and parts of a message's time in words, never without conditions and interval."""

from collections.abc import Mapping, Sequence

from analysis.counts.quantities import program_of
from analysis.statistics import MOST_REPEATS, Estimate
from analysis.times.timing import Latency, Ratio, Times
from analysis.times.waterfall import CELLS, STACK, Parts
from analysis.wording import (
    amount,
    counted,
    number,
    place,
    signed_amount,
    size_text,
    ways,
)
from runners.cell import Conditions

# What the stack's cell is, and what the whole cell has besides, by placement.
STACK_OF = {
    "same-cpu": "one thread that holds both ends and answers itself (selfecho)",
    "cross-cpu": "two processes on two CPUs that poll and never sleep",
}
REST = {"same-cpu": "switching between the processes", "cross-cpu": "sleeping and waking"}


def conditions_text(times: Times) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = place(Conditions.parse(times.conditions).placement)
    where = f"{times.pattern}, {size_text(times.size)}, {name}"
    if program_of(times.pattern):
        return f"{where}; a real program, its own loop on either side"
    return f"{where}; {ways(times.conditions)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix at the median (…)`; its conditions stand beside."""
    words = (
        f"{ratio.transport.transport} takes {number(ratio.median.value)} times as long as "
        f"{ratio.than.transport} at the median ({interval_text(ratio.median)})"
    )
    if ratio.all is None:
        return words
    sure = "" if ratio.all.low is None else f", {interval_text(ratio.all, repeats=False)}"
    return f"{words}; {number(ratio.all.value)} times by the mean{sure}"


def interval_text(figure: Estimate, *, repeats: bool = True) -> str:
    """`95 % interval 1.55 to 1.66, 6 repeats`; of many repeats `95 % interval within this run`."""
    said = [counted(figure.repeats, "repeat")] if repeats else []
    if figure.low is None or figure.high is None:
        return ", ".join([*said, "too few for an interval"])
    within = " within this run" if figure.repeats > MOST_REPEATS else ""
    return ", ".join(
        [f"95 % interval{within} {number(figure.low)} to {number(figure.high)}", *said]
    )


def packing(latencies: Sequence[Latency]) -> str:
    """`4.00 messages per segment (tcp); 2.00 messages per read (unix)`; empty where unknown."""
    found: dict[str, dict[str, str]] = {"segment": {}, "read": {}}
    for latency in latencies:
        for what, spread in (("segment", latency.per_segment), ("read", latency.per_read)):
            if spread:
                found[what][latency.transport] = number(spread.value)
    if {figure for figures in found.values() for figure in figures.values()} == {"1.00"}:
        return f"no batching: one message per {' and per '.join(filter(found.get, found))}"
    return "; ".join(_packed(figures, what) for what, figures in found.items() if figures)


def _packed(figures: Mapping[str, str], what: str) -> str:
    """The figure once where all transports have the same, else each its own."""
    if len(set(figures.values())) == 1:
        return f"{next(iter(figures.values()))} messages per {what} ({', '.join(figures)})"
    each = ", ".join(f"{figure} ({name})" for name, figure in figures.items())
    return f"{each} messages per {what}"


def modes_text(latencies: Sequence[Latency]) -> str:
    """`unix: 2 modes at …, from iteration to iteration; tcp: one mode`; empty for too few."""
    known = {latency.transport: latency.modality for latency in latencies if latency.modality}
    if known and not any(modality.several() for modality in known.values()):
        return f"one mode ({', '.join(known)})"
    return "; ".join(f"{name}: {modality.words()}" for name, modality in known.items())


def timing_of_ratio(times: Times, ratio: Ratio) -> str:
    """All that a ratio means nothing without."""
    parts = [conditions_text(times), packing(ratio.both), modes_text(ratio.both)]
    return "; ".join(filter(None, parts))


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


def conditions_name(parts: Parts) -> str:
    """`tcp minus unix, across two CPUs`."""
    name = f"{parts.transport} minus {parts.than}" if parts.than else parts.transport
    return f"{name}, {place(parts.placement)}"


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
    if parts.stack or parts.segments:
        return ""
    pattern, conditions = CELLS[parts.placement][STACK]
    return (
        f"There is no {pattern} {conditions} of {size_text(parts.size)} over {parts.transport}: "
        f"--transports {parts.transport} --sizes {parts.size} --patterns pingpong,selfecho --wait "
        "block,spin gives all cells."
    )
