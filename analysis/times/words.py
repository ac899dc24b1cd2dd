# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios and parts of a message's time in words, never without conditions and interval."""

from collections.abc import Mapping, Sequence

from analysis.counts.quantities import program_of
from analysis.statistics import MOST_REPEATS, Estimate
from analysis.times.modes import ITERATIONS
from analysis.times.timing import Latency, Ratio, Times
from analysis.times.waterfall import CELLS, STACK, Parts
from analysis.wording import (
    amount,
    capital,
    counted,
    number,
    place,
    signed_amount,
    size_text,
    transport_text,
    ways,
)
from runners.cell import Conditions

# What the stack's cell is, and what the whole cell has besides, by placement.
STACK_OF = {
    "same-cpu": "one thread that holds both ends and answers itself (selfecho)",
    "cross-cpu": "two processes on two CPUs that poll and never sleep",
}
REST = {"same-cpu": "switching between the processes", "cross-cpu": "sleeping and waking"}
WIDEST_SHARE = 0.5  # of an interval: a share that may be a quarter or three is none


def conditions_text(times: Times) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = place(Conditions.parse(times.conditions).placement)
    where = f"{times.pattern}, {size_text(times.size)}, {name}"
    if program_of(times.pattern):
        return f"{where}; a real program, its own loop on either side"
    return f"{where}; {ways(times.conditions)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix at the median (…)`; its conditions stand beside."""
    return (
        f"{ratio.transport.transport} takes {number(ratio.median.value)} times as long as "
        f"{ratio.than.transport} at the median ({interval_text(ratio.median)}){whole_text(ratio)}"
    )


def whole_text(ratio: Ratio) -> str:
    """`; 1.72 times by the mean, 95 % interval 1.60 to 1.84`; empty where it is unknown."""
    if ratio.all is None:
        return ""
    sure = "" if ratio.all.low is None else f", {interval_text(ratio.all, repeats=False)}"
    return f"; {number(ratio.all.value)} times by the mean{sure}"


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


def gathering(where: str, latencies: Sequence[Latency]) -> str:
    """`on one CPU at 22.0 µs and 41.0 µs (unix)`: of what has several modes; else empty."""
    found = [
        f"at {modes.places()} ({latency.transport}{'' if of == ITERATIONS else f', {of}'})"
        for latency in latencies
        if latency.modality and (several := latency.modality.several())
        for of, modes in [several]
    ]
    return f"{where} {', '.join(found)}" if found else ""


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


def gap_text(gap: Parts) -> str:
    """`Across two CPUs a message of 64 B takes 7.1 µs (…) longer over TCP …: +2.5 µs (…) …`"""
    less = gap.total.value < 0
    said = (
        f"{capital(place(gap.placement))} a message of {size_text(gap.size)} takes "
        f"{part_text(-gap.total if less else gap.total)} {'less' if less else 'longer'} over "
        f"{transport_text(gap.transport)} than over {transport_text(gap.than)}"
    )
    if gap.stack and gap.rest:
        places, shares = ("the stack", REST[gap.placement]), _share(gap)
        parts = zip((gap.stack, gap.rest), shares, places, strict=True)
        said += f": {' and '.join(_in_part(*part) for part in parts)}"
    if gap.total.low is None:
        said += f" ({interval_text(gap.total)})"
    elif gap.total.spans(0):
        said += ". The interval holds zero: this run cannot tell whether there is a difference"
    return f"{said}."


def _in_part(part: Estimate, share: str, where: str) -> str:
    open_ = part.low is not None and part.spans(0)
    words = ", which this run cannot tell from none" if open_ else ""
    return f"{part_text(part, signed=True)}{f', {share} %,' if share else ''} in {where}{words}"


def _share(gap: Parts) -> tuple[str, str]:
    """Percent of stack and rest, where both are parts of a whole and the share is known well."""
    share = gap.stack_share
    if share is None or share.low is None or share.high is None or gap.total.spans(0):
        return "", ""
    parts = gap.stack, gap.rest
    if any(part is None or part.value / gap.total.value < 0 for part in parts):
        return "", ""
    stack = round(share.value * 100)
    known = share.high - share.low <= WIDEST_SHARE
    return (f"{stack}", f"{100 - stack}") if known else ("", "")


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
