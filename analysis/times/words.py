# SPDX-License-Identifier: GPL-2.0-or-later
"""How ratios and parts of a message's time are said: never without their regime and interval."""

from collections.abc import Sequence

from analysis.counts.quantities import APPS
from analysis.times.timing import Latency, Ratio, Regime
from analysis.times.waterfall import CELLS, PATH, SLEEP, SWITCH, WAKEUP, Gap, Part, Waterfall
from analysis.wording import TRANSPORTS, amount, counted, listed, number, place, size_text, ways

# What the step to a cell adds, and which cells it compares.
STEPS = {
    PATH: ("the path alone", "selfecho, one thread that holds both ends and answers itself"),
    SWITCH: ("+ the switch", "two processes on one CPU"),
    WAKEUP: ("+ wake-up, idle exit", "on two CPUs, each asleep until its message comes"),
    SLEEP: ("\N{MINUS SIGN} sleep", "on two CPUs that poll and never sleep"),
}
WIDEST_SHARE = 0.5  # of an interval: a share that may be a quarter or three is none
OF_GAP_WORDS = {PATH: "stack", SWITCH: "the switch", WAKEUP: "wake-up and idle exit"}


def regime_text(regime: Regime) -> str:
    """`pingpong, 64 B, on one CPU; blocking reads, default scheduler, one connection`."""
    name = regime.placement.partition("+")[0]
    where = f"{regime.pattern}, {size_text(regime.size)}, {place(name)}"
    if regime.pattern in APPS:
        return f"{where}; an article's own program, an event loop on either side"
    return f"{where}; {ways(regime.placement)}"


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix`, interval and repeats; the regime is said beside."""
    text = f"{ratio.transport.transport} takes {number(ratio.value)} times as long as"
    return f"{text} {ratio.than.transport}, {interval_text(ratio)}"


def interval_text(ratio: Ratio) -> str:
    """`95 % interval 1.55 to 1.66, 6 repeats`."""
    repeats = counted(ratio.repeats, "repeat")
    if ratio.low is None or ratio.high is None:
        return f"{repeats}, too few for an interval"
    return f"95 % interval {number(ratio.low)} to {number(ratio.high)}, {repeats}"


def packing(latencies: Sequence[Latency]) -> str:
    """`1.00 messages a segment (tcp), 1.00 a read (unix, tcp)`; empty where unknown."""
    said = []
    for what, figures in (
        ("messages a segment", {one.transport: one.per_segment for one in latencies}),
        ("messages a read", {one.transport: one.per_read for one in latencies}),
    ):
        known = {name: number(spread.value) for name, spread in figures.items() if spread}
        texts = set(known.values())
        if len(texts) == 1:
            said.append(f"{texts.pop()} {what} ({', '.join(known)})")
        elif known:
            each = ", ".join(f"{text} ({name})" for name, text in known.items())
            said.append(f"{each} {what}")
    return "; ".join(said)


def modes_text(latencies: Sequence[Latency]) -> str:
    """`unix: two modes at …, from lap to lap; tcp: one mode`; empty for too few laps."""
    known = {one.transport: one.modality.words() for one in latencies if one.modality}
    if set(known.values()) == {"one mode"}:
        return f"one mode ({', '.join(known)})"
    return "; ".join(f"{name}: {words}" for name, words in known.items())


def gathering(where: str, latencies: Sequence[Latency]) -> str:
    """`on one CPU at 22.0 µs and 41.0 µs (unix)`: of what has several modes; else empty."""
    found = [
        f"at {modes.places()} ({one.transport}{f', {of}' if of != 'laps' else ''})"
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
    value = signed(part.value)
    if part.low is None or part.high is None:
        return value
    ends = [signed(part.low), signed(part.high)]
    unit = value.rpartition(" ")[2]
    if all(end.endswith(f" {unit}") for end in ends):
        ends = [end.removesuffix(f" {unit}") for end in ends]
    return f"{value} ({ends[0]} to {ends[1]})"


def signed(nanoseconds: float) -> str:
    """With a real minus sign."""
    text = amount(abs(nanoseconds), "ns")
    return f"\N{MINUS SIGN}{text}" if nanoseconds < 0 else text


def gap_text(gap: Gap, size: int) -> str:
    """`Of the 7.1 µs (…) that a message of 64 B takes longer over TCP …, 2.5 µs (…) is stack, …`"""
    first, second = (TRANSPORTS.get(name, name) for name in (gap.transport, gap.than))
    sooner = gap.total.value < 0
    comparison = "less" if sooner else "longer"
    factor = -1 if sooner else 1
    words = OF_GAP_WORDS if PATH in gap.parts else OF_GAP_WORDS | {SWITCH: "stack and switch"}
    parts = [
        f"{part_text(_times(part, factor))}{_share(gap, name)} is {words[name]}"
        for name, part in gap.parts.items()
    ]
    return (
        f"Of the {part_text(_times(gap.total, factor))} that a message of {size_text(size)} takes "
        f"{comparison} over {first} than over {second} across two CPUs, {listed(parts)}"
        f" (median of {counted(gap.repeats, 'repeat')}{_without(gap)}).{_doubt(gap)}"
    )


def _doubt(gap: Gap) -> str:
    total = gap.total
    if total.low is None or total.high is None or not total.low <= 0 <= total.high:
        return ""
    return " Whether there is such a difference at all, this run cannot tell."


def _without(gap: Gap) -> str:
    if gap.total.low is None:
        return ", too few for intervals"
    return "; in brackets 95 % intervals"


def _share(gap: Gap, name: str) -> str:
    """Its share, where that is known well: shares of what may be 0 mean nothing."""
    share = gap.shares[name]
    if _doubt(gap) or share.low is None or share.high is None:
        return ""
    if not share.high - share.low <= WIDEST_SHARE:
        return ""
    return f", {share.value * 100:.0f} %,".replace("-", "\N{MINUS SIGN}")


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
    return (
        f"{waterfall.transport} has no {listed(cells, 'or')} of {size_text(size)}: "
        f"--transports {waterfall.transport} --sizes {size} --patterns pingpong,selfecho "
        "--wait block,spin gives all four cells."
    )
