# SPDX-License-Identifier: GPL-2.0-or-later
"""How ratios and parts of a message's time are said: never without their regime and interval."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.conditions import Conditions
from analysis.counts.quantities import APPS
from analysis.times.modes import LAPS
from analysis.times.timing import Latency, Ratio, Regime, Spread
from analysis.times.waterfall import CELLS, PATH, SLEEP, SWITCH, WAKEUP, Gap, Part, Waterfall
from analysis.wording import amount, counted, listed, number, place, size_text, transport_text, ways

# What the step to a cell adds, and which cells it compares.
STEPS = {
    PATH: (
        "the path alone",
        "selfecho, one thread that holds both ends and answers itself",
    ),
    SWITCH: ("+ the switch", "two processes on one CPU"),
    WAKEUP: (
        "+ wake-up, idle exit",
        "on two CPUs, each asleep until its message comes",
    ),
    SLEEP: ("\N{MINUS SIGN} sleep", "on two CPUs that poll and never sleep"),
}
WIDEST_SHARE = 0.5  # of an interval: a share that may be a quarter or three is none


class OfGap(NamedTuple):
    """What a part of a gap is, and the same with its share of the whole."""

    plain: str
    with_share: str


OF_GAP = {
    PATH: OfGap("{time} is stack", "{time}, {share} %, is stack"),
    SWITCH: OfGap("{time} is the switch", "{time}, {share} %, is the switch"),
    WAKEUP: OfGap(
        "{time} is wake-up and idle exit",
        "{time}, {share} %, is wake-up and idle exit",
    ),
}
STACK_AND_SWITCH = OfGap("{time} is stack and switch", "{time}, {share} %, is stack and switch")
LONGER = (
    "Of the {time} that a message of {size} takes longer over {transport} than over {than} "
    "across two CPUs, {parts} ({median})."
)
LESS = (
    "Of the {time} that a message of {size} takes less over {transport} than over {than} "
    "across two CPUs, {parts} ({median})."
)


class LapWords(NamedTuple):
    """What is said of a lap."""

    how_long: str
    takes: str
    p50: str
    by_size: str
    by_size_alt: str


OF_LAP = {
    "round trip": LapWords(
        "How long a round trip takes",
        "A round trip of {size} takes, at the median, {medians}.",
        "p50 of a round trip, µs",
        "p50 of a round trip against the payload, both logarithmic; the band spans the repeats.",
        "p50 of a round trip by message size for each transport, by placement.",
    ),
    "message": LapWords(
        "How long a message takes",
        "A message of {size} takes, at the median, {medians}.",
        "p50 of a message, µs",
        "p50 of a message against the payload, both logarithmic; the band spans the repeats.",
        "p50 of a message by message size for each transport, by placement.",
    ),
    "send": LapWords(
        "How long a send takes",
        "A send of {size} takes, at the median, {medians}.",
        "p50 of a send, µs",
        "p50 of a send against the payload, both logarithmic; the band spans the repeats.",
        "p50 of a send by message size for each transport, by placement.",
    ),
}
# Messages in one segment and in one read: the same for all of some transports, and each its own.
PER_SEGMENT = (
    "{figure} messages a segment ({transports})",
    "{figures} messages a segment",
)
PER_READ = (
    "{figure} messages a read ({transports})",
    "{figures} messages a read",
)
GATHERED = {
    LAPS: "at {places} ({transport})",
    "medians of stretches": "at {places} ({transport}, medians of stretches)",
    "medians of repeats": "at {places} ({transport}, medians of repeats)",
}


def regime_text(regime: Regime) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = place(Conditions.parse(regime.placement).placement)
    where = f"{regime.pattern}, {size_text(regime.size)}, {name}"
    if regime.pattern in APPS:
        program = "an article's own program, an event loop on either side"
        return f"{where}; {program}"
    return f"{where}; {ways(regime.placement)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix`, interval and repeats; the regime is said beside."""
    return (
        f"{ratio.transport.transport} takes {number(ratio.value)} times as long as "
        f"{ratio.than.transport}, {interval_text(ratio)}"
    )


def interval_text(ratio: Ratio) -> str:
    """`95 % interval 1.55 to 1.66, 6 repeats`."""
    if ratio.low is None or ratio.high is None:
        return f"{counted(ratio.repeats, 'repeat')}, too few for an interval"
    return (
        f"95 % interval {number(ratio.low)} to {number(ratio.high)}, "
        f"{counted(ratio.repeats, 'repeat')}"
    )


def packing(latencies: Sequence[Latency]) -> str:
    """`1.00 messages a segment (tcp), 1.00 a read (unix, tcp)`; empty where unknown."""
    segments = {one.transport: one.per_segment for one in latencies}
    reads = {one.transport: one.per_read for one in latencies}
    return "; ".join(filter(None, (_packed(PER_SEGMENT, segments), _packed(PER_READ, reads))))


def _packed(texts: tuple[str, str], figures: Mapping[str, Spread | None]) -> str:
    alike, apart = texts
    known = {name: number(spread.value) for name, spread in figures.items() if spread}
    if len(set(known.values())) == 1:
        return alike.format(figure=next(iter(known.values())), transports=", ".join(known))
    each = ", ".join(f"{text} ({name})" for name, text in known.items())
    return apart.format(figures=each) if known else ""


def modes_text(latencies: Sequence[Latency]) -> str:
    """`unix: two modes at …, from lap to lap; tcp: one mode`; empty for too few laps."""
    known = {one.transport: one.modality for one in latencies if one.modality}
    if known and not any(modality.several() for modality in known.values()):
        return f"one mode ({', '.join(known)})"
    return "; ".join(f"{name}: {modality.words()}" for name, modality in known.items())


def gathering(where: str, latencies: Sequence[Latency]) -> str:
    """`on one CPU at 22.0 µs and 41.0 µs (unix)`: of what has several modes; else empty."""
    found = [
        GATHERED[of].format(places=modes.places(), transport=one.transport)
        for one in latencies
        if one.modality and (several := one.modality.several())
        for of, modes in [several]
    ]
    return f"{where} {', '.join(found)}" if found else ""


def regime_of_ratio(regime: Regime, ratio: Ratio) -> str:
    """All that a ratio means nothing without."""
    parts = [regime_text(regime), packing(ratio.both), modes_text(ratio.both)]
    return "; ".join(part for part in parts if part)


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
    if gap.total.value < 0:
        text, factor = LESS, -1
    else:
        text, factor = LONGER, 1
    said = text.format(
        time=part_text(_times(gap.total, factor)),
        size=size_text(size),
        transport=transport_text(gap.transport),
        than=transport_text(gap.than),
        parts=listed([_part_of_gap(gap, name, factor) for name in gap.parts]),
        median=_median_of(gap),
    )
    doubt = "Whether there is such a difference at all, this run cannot tell."
    return f"{said} {doubt}" if _doubtful(gap) else said


def _part_of_gap(gap: Gap, name: str, factor: int) -> str:
    texts = OF_GAP[name]
    if name == SWITCH and PATH not in gap.parts:
        texts = STACK_AND_SWITCH
    time, share = part_text(_times(gap.parts[name], factor)), _share(gap, name)
    return (
        texts.with_share.format(time=time, share=share) if share else texts.plain.format(time=time)
    )


def _doubtful(gap: Gap) -> bool:
    total = gap.total
    return total.low is not None and total.high is not None and total.low <= 0 <= total.high


def _median_of(gap: Gap) -> str:
    if gap.total.low is None:
        return f"median of {counted(gap.repeats, 'repeat')}, too few for intervals"
    return f"median of {counted(gap.repeats, 'repeat')}; in brackets 95 % intervals"


def _share(gap: Gap, name: str) -> str:
    """Percent of the whole, where that is known well: shares of what may be 0 mean nothing."""
    share = gap.shares[name]
    if _doubtful(gap) or share.low is None or share.high is None:
        return ""
    if not share.high - share.low <= WIDEST_SHARE:
        return ""
    return f"{share.value * 100:.0f}".replace("-", "\N{MINUS SIGN}")


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
    return "{transport} has no {cells} of {size}: {options} gives all four cells.".format(
        transport=waterfall.transport,
        cells=listed(cells, "or"),
        size=size_text(size),
        options=f"--transports {waterfall.transport} --sizes {size} "
        "--patterns pingpong,selfecho --wait block,spin",
    )
