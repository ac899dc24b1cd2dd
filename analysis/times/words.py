# SPDX-License-Identifier: GPL-2.0-or-later
"""How ratios and parts of a message's time are said: never without their regime and interval."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.conditions import Conditions
from analysis.counts.quantities import APPS
from analysis.languages import say, say_many, to_say
from analysis.times.modes import LAPS
from analysis.times.timing import Latency, Ratio, Regime, Spread
from analysis.times.waterfall import CELLS, PATH, SLEEP, SWITCH, WAKEUP, Gap, Part, Waterfall
from analysis.wording import amount, listed, number, place, size_text, transport_text, ways

# What the step to a cell adds, and which cells it compares.
STEPS = {
    PATH: (
        to_say("the path alone"),
        to_say("selfecho, one thread that holds both ends and answers itself"),
    ),
    SWITCH: (to_say("+ the switch"), to_say("two processes on one CPU")),
    WAKEUP: (
        to_say("+ wake-up, idle exit"),
        to_say("on two CPUs, each asleep until its message comes"),
    ),
    SLEEP: (to_say("\N{MINUS SIGN} sleep"), to_say("on two CPUs that poll and never sleep")),
}
WIDEST_SHARE = 0.5  # of an interval: a share that may be a quarter or three is none


class OfGap(NamedTuple):
    """What a part of a gap is, and the same with its share of the whole."""

    plain: str
    with_share: str


OF_GAP = {
    # For translators: stands in a list, in "Of the … that a message of … takes longer over …".
    PATH: OfGap(to_say("{time} is stack"), to_say("{time}, {share} %, is stack")),
    SWITCH: OfGap(to_say("{time} is the switch"), to_say("{time}, {share} %, is the switch")),
    WAKEUP: OfGap(
        to_say("{time} is wake-up and idle exit"),
        to_say("{time}, {share} %, is wake-up and idle exit"),
    ),
}
STACK_AND_SWITCH = OfGap(
    to_say("{time} is stack and switch"), to_say("{time}, {share} %, is stack and switch")
)
LONGER = to_say(
    "Of the {time} that a message of {size} takes longer over {transport} than over {than} "
    "across two CPUs, {parts} ({median})."
)
LESS = to_say(
    "Of the {time} that a message of {size} takes less over {transport} than over {than} "
    "across two CPUs, {parts} ({median})."
)


class LapWords(NamedTuple):
    """What is said of a lap, whole, since a language may bend its name in each of them."""

    how_long: str
    takes: str
    p50: str
    by_size: str
    by_size_alt: str


OF_LAP = {
    "round trip": LapWords(
        to_say("How long a round trip takes"),
        to_say("A round trip of {size} takes, at the median, {medians}."),
        to_say("p50 of a round trip, µs"),
        to_say(
            "p50 of a round trip against the payload, both logarithmic; the band spans the repeats."
        ),
        to_say("p50 of a round trip by message size for each transport, by placement."),
    ),
    "message": LapWords(
        to_say("How long a message takes"),
        to_say("A message of {size} takes, at the median, {medians}."),
        to_say("p50 of a message, µs"),
        to_say(
            "p50 of a message against the payload, both logarithmic; the band spans the repeats."
        ),
        to_say("p50 of a message by message size for each transport, by placement."),
    ),
    "send": LapWords(
        to_say("How long a send takes"),
        to_say("A send of {size} takes, at the median, {medians}."),
        to_say("p50 of a send, µs"),
        to_say("p50 of a send against the payload, both logarithmic; the band spans the repeats."),
        to_say("p50 of a send by message size for each transport, by placement."),
    ),
}
# Messages in one segment and in one read: the same for all of some transports, and each its own.
PER_SEGMENT = (
    to_say("{figure} messages a segment ({transports})"),
    to_say("{figures} messages a segment"),
)
PER_READ = (
    to_say("{figure} messages a read ({transports})"),
    to_say("{figures} messages a read"),
)
GATHERED = {
    # For translators: stands in a list after "on one CPU"; {places} are times.
    LAPS: to_say("at {places} ({transport})"),
    "medians of stretches": to_say("at {places} ({transport}, medians of stretches)"),
    "medians of repeats": to_say("at {places} ({transport}, medians of repeats)"),
}


def regime_text(regime: Regime) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = place(Conditions.parse(regime.placement).placement)
    where = f"{regime.pattern}, {size_text(regime.size)}, {name}"
    if regime.pattern in APPS:
        program = say("an article's own program, an event loop on either side")
        return f"{where}; {program}"
    return f"{where}; {ways(regime.placement)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix`, interval and repeats; the regime is said beside."""
    return say(
        "{transport} takes {ratio} times as long as {than}, {interval}",
        transport=ratio.transport.transport,
        ratio=number(ratio.value),
        than=ratio.than.transport,
        interval=interval_text(ratio),
    )


def interval_text(ratio: Ratio) -> str:
    """`95 % interval 1.55 to 1.66, 6 repeats`."""
    if ratio.low is None or ratio.high is None:
        return say_many(
            "{count} repeat, too few for an interval",
            "{count} repeats, too few for an interval",
            ratio.repeats,
        )
    return say_many(
        "95 % interval {low} to {high}, {count} repeat",
        "95 % interval {low} to {high}, {count} repeats",
        ratio.repeats,
        low=number(ratio.low),
        high=number(ratio.high),
    )


def packing(latencies: Sequence[Latency]) -> str:
    """`1.00 messages a segment (tcp), 1.00 a read (unix, tcp)`; empty where unknown."""
    segments = {one.transport: one.per_segment for one in latencies}
    reads = {one.transport: one.per_read for one in latencies}
    return say("; ").join(filter(None, (_packed(PER_SEGMENT, segments), _packed(PER_READ, reads))))


def _packed(texts: tuple[str, str], figures: Mapping[str, Spread | None]) -> str:
    alike, apart = texts
    known = {name: number(spread.value) for name, spread in figures.items() if spread}
    if len(set(known.values())) == 1:
        return say(alike, figure=next(iter(known.values())), transports=", ".join(known))
    each = ", ".join(f"{text} ({name})" for name, text in known.items())
    return say(apart, figures=each) if known else ""


def modes_text(latencies: Sequence[Latency]) -> str:
    """`unix: two modes at …, from lap to lap; tcp: one mode`; empty for too few laps."""
    known = {one.transport: one.modality for one in latencies if one.modality}
    if known and not any(modality.several() for modality in known.values()):
        return say("one mode ({transports})", transports=", ".join(known))
    return say("; ").join(f"{name}: {modality.words()}" for name, modality in known.items())


def gathering(where: str, latencies: Sequence[Latency]) -> str:
    """`on one CPU at 22.0 µs and 41.0 µs (unix)`: of what has several modes; else empty."""
    found = [
        say(GATHERED[of], places=modes.places(), transport=one.transport)
        for one in latencies
        if one.modality and (several := one.modality.several())
        for of, modes in [several]
    ]
    return say("{where} {what}", where=where, what=say(", ").join(found)) if found else ""


def regime_of_ratio(regime: Regime, ratio: Ratio) -> str:
    """All that a ratio means nothing without."""
    parts = [regime_text(regime), packing(ratio.both), modes_text(ratio.both)]
    return say("; ").join(part for part in parts if part)


def part_text(part: Part) -> str:
    """`2.51 µs (2.40 to 2.60)`: the ends without a unit where it is the same."""
    value = amount(part.value, "ns")
    if part.low is None or part.high is None:
        return value
    ends = [amount(part.low, "ns"), amount(part.high, "ns")]
    unit = value.rpartition(" ")[2]
    if all(end.endswith(f" {unit}") for end in ends):
        ends = [end.removesuffix(f" {unit}") for end in ends]
    return say("{value} ({low} to {high})", value=value, low=ends[0], high=ends[1])


def gap_text(gap: Gap, size: int) -> str:
    """`Of the 7.1 µs (…) that a message of 64 B takes longer over TCP …, 2.5 µs (…) is stack, …`"""
    if gap.total.value < 0:
        text, factor = LESS, -1
    else:
        text, factor = LONGER, 1
    said = say(
        text,
        time=part_text(_times(gap.total, factor)),
        size=size_text(size),
        transport=transport_text(gap.transport),
        than=transport_text(gap.than),
        parts=listed([_part_of_gap(gap, name, factor) for name in gap.parts]),
        median=_median_of(gap),
    )
    doubt = say("Whether there is such a difference at all, this run cannot tell.")
    return f"{said} {doubt}" if _doubtful(gap) else said


def _part_of_gap(gap: Gap, name: str, factor: int) -> str:
    texts = OF_GAP[name]
    if name == SWITCH and PATH not in gap.parts:
        texts = STACK_AND_SWITCH
    time, share = part_text(_times(gap.parts[name], factor)), _share(gap, name)
    return say(texts.with_share, time=time, share=share) if share else say(texts.plain, time=time)


def _doubtful(gap: Gap) -> bool:
    total = gap.total
    return total.low is not None and total.high is not None and total.low <= 0 <= total.high


def _median_of(gap: Gap) -> str:
    if gap.total.low is None:
        return say_many(
            "median of {count} repeat, too few for intervals",
            "median of {count} repeats, too few for intervals",
            gap.repeats,
        )
    return say_many(
        "median of {count} repeat; in brackets 95 % intervals",
        "median of {count} repeats; in brackets 95 % intervals",
        gap.repeats,
    )


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
    return say(
        "Over {transport} selfecho sends {alone} segments a message and ping-pong "
        "{answered}: ACKs travel alone in one of them. So the path alone is not that of a "
        "ping-pong message, and what it is wrong by is in the switch; their sum is not touched.",
        transport=waterfall.transport,
        alone=alone,
        answered=answered,
    )


def lacking(waterfall: Waterfall, size: int) -> str:
    """Which cells a waterfall lacks, and the command that gives them."""
    cells = [" ".join(CELLS[name]) for name in waterfall.missing]
    return say(
        "{transport} has no {cells} of {size}: {options} gives all four cells.",
        transport=waterfall.transport,
        cells=listed(cells, "or"),
        size=size_text(size),
        options=f"--transports {waterfall.transport} --sizes {size} "
        "--patterns pingpong,selfecho --wait block,spin",
    )
