# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios and parts of a message's time in words, never without conditions and interval."""

from collections.abc import Mapping, Sequence

from analysis.conditions import Conditions
from analysis.counts.quantities import PROGRAMS
from analysis.times.modes import ITERATIONS
from analysis.times.timing import Latency, Ratio, Times
from analysis.times.waterfall import CELLS, PATH, SLEEP, SWITCH, WAKEUP, Gap, Part, Waterfall
from analysis.wording import (
    MINUS,
    amount,
    counted,
    listed,
    number,
    place,
    size_text,
    transport_text,
    ways,
)

# What the step to a cell adds, and which cells it compares.
STEPS = {
    PATH: ("the path alone", "selfecho, one thread that holds both ends and answers itself"),
    SWITCH: ("+ the switch", "two processes on one CPU"),
    WAKEUP: ("+ wake-up, idle exit", "on two CPUs, each asleep until its message comes"),
    SLEEP: (f"{MINUS} sleep", "on two CPUs that poll and never sleep"),
}
# What a part of a gap is.
PARTS = {PATH: "stack", SWITCH: "the switch", WAKEUP: "wake-up and idle exit"}
WIDEST_SHARE = 0.5  # of an interval: a share that may be a quarter or three is none


def conditions_text(times: Times) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = place(Conditions.parse(times.conditions).placement)
    where = f"{times.pattern}, {size_text(times.size)}, {name}"
    if times.pattern in PROGRAMS:
        return f"{where}; an article's own program, an event loop on either side"
    return f"{where}; {ways(times.conditions)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix`, interval and repeats; the conditions stand beside."""
    return (
        f"{ratio.transport.transport} takes {number(ratio.value)} times as long as "
        f"{ratio.than.transport}, {interval_text(ratio)}"
    )


def interval_text(ratio: Ratio) -> str:
    """`95 % interval 1.55 to 1.66, 6 repeats`."""
    repeats = counted(ratio.repeats, "repeat")
    if ratio.low is None or ratio.high is None:
        return f"{repeats}, too few for an interval"
    return f"95 % interval {number(ratio.low)} to {number(ratio.high)}, {repeats}"


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


def part_text(part: Part) -> str:
    """`2.51 µs (2.40 to 2.60)`: the ends without a unit where it is the same."""
    value = amount(part.value, "ns")
    if part.low is None or part.high is None:
        return value
    ends = [amount(part.low, "ns"), amount(part.high, "ns")]
    unit = value.rpartition(" ")[2]
    if all(end.endswith(f" {unit}") for end in ends):
        ends = [end.removesuffix(f" {unit}") for end in ends]
    return f"{value} ({ends[0]} to {ends[1]})"


def gap_text(gap: Gap, size: int) -> str:
    """`Of the 7.1 µs (…) that a message of 64 B takes longer over TCP …, 2.5 µs (…) is stack, …`"""
    factor, longer = (-1, "less") if gap.total.value < 0 else (1, "longer")
    parts = listed([_part_of_gap(gap, name, factor) for name in gap.parts])
    repeats = f"median of {counted(gap.repeats, 'repeat')}"
    intervals = (
        ", too few for intervals" if gap.total.low is None else "; in brackets 95 % intervals"
    )
    said = (
        f"Of the {part_text(_times(gap.total, factor))} that a message of {size_text(size)} takes "
        f"{longer} over {transport_text(gap.transport)} than over {transport_text(gap.than)} "
        f"across two CPUs, {parts} ({repeats}{intervals})."
    )
    doubt = " Whether there is such a difference at all, this run cannot tell."
    return f"{said}{doubt if _doubtful(gap) else ''}"


def _part_of_gap(gap: Gap, name: str, factor: int) -> str:
    """`2.5 µs (2.4 to 2.6), 35 %, is stack`; without its share where that is not known well."""
    what = "stack and switch" if name == SWITCH and PATH not in gap.parts else PARTS[name]
    time, share = part_text(_times(gap.parts[name], factor)), _share(gap, name)
    return f"{time}, {share} %, is {what}" if share else f"{time} is {what}"


def _doubtful(gap: Gap) -> bool:
    total = gap.total
    return total.low is not None and total.high is not None and total.low <= 0 <= total.high


def _share(gap: Gap, name: str) -> str:
    """Percent of the whole, where that is known well: shares of what may be 0 mean nothing."""
    share = gap.shares[name]
    if _doubtful(gap) or share.low is None or share.high is None:
        return ""
    known = share.high - share.low <= WIDEST_SHARE
    return f"{share.value * 100:.0f}".replace("-", MINUS) if known else ""


def _times(part: Part, factor: int) -> Part:
    if factor == 1 or part.low is None or part.high is None:
        return Part(part.value * factor, part.low, part.high)
    return Part(-part.value, -part.high, -part.low)


def uneven(waterfall: Waterfall) -> str:
    """Why the path alone is not that of a ping-pong message; empty where it is."""
    if not waterfall.segments:
        return ""
    alone, answered = map(number, waterfall.segments)
    return (
        f"Over {waterfall.transport} selfecho sends {alone} segments a message and ping-pong "
        f"{answered}: ACKs travel alone in one of them. So the path alone is not that of a "
        "ping-pong message, and what it is wrong by is in the switch; their sum is not touched."
    )


def lacking(waterfall: Waterfall, size: int) -> str:
    """Which cells a waterfall lacks, and the command that gives them."""
    cells = [" ".join(CELLS[name]) for name in waterfall.missing]
    options = (
        f"--transports {waterfall.transport} --sizes {size} --patterns pingpong,selfecho "
        "--wait block,spin"
    )
    return (
        f"{waterfall.transport} has no {listed(cells, 'or')} of {size_text(size)}: {options} gives "
        "all four cells."
    )
