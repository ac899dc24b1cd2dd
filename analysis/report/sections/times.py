# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a message's time goes: round trips, their parts, wake-ups and samples."""

from collections.abc import Sequence

from analysis.analyse import Analysis
from analysis.counts.ledger import MOST_TOGETHER
from analysis.report.blocks import Column, Group, SideBySide, Table, Text, numbers
from analysis.report.inline import above, code, conditions_text, hidden, joined, say, spanned
from analysis.report.sections.counts import Blocks, Figures
from analysis.statistics import LEAST_REPEATS, Estimate
from analysis.times import words
from analysis.times.timing import Times
from analysis.times.waterfall import Parts
from analysis.wording import NOT_MEASURED, amount, counted, number, size_text

WAKERS = ("sock_def_readable", "unix_write_space")  # the socket layer's reasons to wake


def times(analysis: Analysis, figures: Figures) -> Blocks:
    cells = (cell for target in analysis.run.targets if target.timed for cell in target.cells)
    readings = (cell.result.clock_cost_ns for cell in cells if cell.result)
    clock = max(filter(None, readings), default=0)  # the most expensive one
    cost = f"; one reading of the clock cost at most {amount(clock, 'ns')}" if clock else ""
    yield (
        f"Times come from unprobed cells of the host only{cost}. An emulated guest's times are "
        "never shown."
    )
    yield _absent(analysis)
    yield figures.get("latency")
    if analysis.timings:
        yield from _timings(analysis)
    else:
        yield "No times: this run has no valid, unprobed cell on the host."
    yield Text("heading", "What it is made of")
    yield figures.get("waterfall")
    for size in dict.fromkeys(part.size for part in analysis.parts):
        parts = [part for part in analysis.parts if part.size == size]
        yield Group("closed", f"All transports, {size_text(size)}", [_parts_table(parts, size)])
    if (sizes := figures.get("sizes")) and sizes.svg:  # else it is among what was not asked
        yield Text("heading", "And with the size of the message")
        yield sizes


def _absent(analysis: Analysis) -> str | None:
    guest = say("; a guest has it, for counts: <code>--target guest</code>")
    texts = [
        say("<strong>{}</strong> ({}): {}{}", missing.what, missing.target, missing.why,
            guest if missing.target == "host" else "")
        for missing in analysis.tables.missing
        if missing.transport
    ]  # fmt: skip
    return say("Absent here: {}", joined(texts, "; ")) if texts else None


def _timings(analysis: Analysis) -> Blocks:
    """Those of the ledger's pattern and size, then the others."""
    ledger = analysis.ledgers[0] if analysis.ledgers else None  # none, of programs alone
    first = (ledger.pattern, ledger.size) if ledger else None
    main = [timing for timing in analysis.timings if (timing.pattern, timing.size) == first]
    others = [timing for timing in analysis.timings if timing not in main]
    if not ledger:
        main, others = others, []
    yield from _ratios(main)
    if ledger and len(ledger.transports) > len(ledger.narrow(MOST_TOGETHER).transports):
        summary = f"The times of all {len(ledger.transports)} transports"
        yield Group("closed", summary, [_times_table(main)])
    else:
        yield _times_table(main)
    paced = any(timing.pattern == "paced" for timing in analysis.timings)
    yield Text("note", say(
        "p50 and p99 are taken over the iterations of a repeat (an iteration is a round trip; in "
        "selfloop a message, in stream a send{}). The figure is their mean over repeats; below it "
        "is its 95 % interval, from {} repeats up. Where a time's interval begins at 0, a few "
        "repeats lie far from the others. A ratio divides two such means; its interval pairs the "
        "repeats. Intervals hold for this run: <code>docs/reading-times.md</code> says what they "
        "cover. Hartigan's dip test says whether there are several modes; a mode has a name if it "
        "holds 5 % of the iterations and lies 10 % from the next "
        "(<code>analysis/times/modes.py</code>).",
        "; in paced a request from when it was due" if paced else "", LEAST_REPEATS,
    ))  # fmt: skip
    if others:
        summary = f"{counted(len(others), 'more timing')}: other patterns and sizes"
        yield Group("closed", summary, [*_ratios(others), _times_table(others)])


def _ratios(timings: Sequence[Times]) -> Blocks:
    """Each timing's first ratio; those of the other transports are folded."""
    first, others = (
        Table(
            "Slowdown, with its conditions", ("slowdown", Column("conditions", "from")),
            [
                (words.ratio_text(ratio), words.timing_of_ratio(timing, ratio))
                for timing in timings
                for ratio in timing.ratios[part]
            ],
            "ratios",
        )
        for part in (slice(1), slice(1, None))
    )  # fmt: skip
    yield first
    if more := len(others.rows):
        yield Group("closed", f"{counted(more, 'more ratio')}, of the other transports", [others])


def _times_table(timings: Sequence[Times]) -> Table:
    names = ("p50", "p99", "messages a second", "messages per segment", "messages per read")
    rows = [
        (
            hidden("same") if place else conditions_text(timing), one.transport,
            spanned(one.p50, "ns"), spanned(one.p99, "ns"), spanned(one.messages_per_s),
            spanned(one.per_segment), spanned(one.per_read),
            one.modality.words() if one.modality else NOT_MEASURED,
        )
        for timing in timings
        for place, one in enumerate(timing.latencies)
    ]  # fmt: skip
    heads = ["conditions", "transport", *numbers(*names), Column("modes", "from")]
    return Table("Times, unprobed, host", heads, rows)


def _parts_table(parts: Sequence[Parts], size: int) -> Table:
    def figure(part: Estimate | None) -> str:
        return words.part_text(part) if part else NOT_MEASURED

    rows = [
        (
            words.conditions_name(part), figure(part.total), figure(part.stack), figure(part.rest)
        )
        for part in parts
    ]  # fmt: skip
    heads = ["message", *numbers("in all", "stack", "switching, or sleeping and waking")]
    return Table(f"What a message of {size_text(size)} takes, and in what", heads, rows, "narrow")


def path(analysis: Analysis, _: Figures) -> Blocks:
    if not (found := analysis.path):
        return
    names = [part.name.replace("-", " → ") for part in found[0].parts]
    rows, histograms = [], []
    for one in found:
        parts = [
            above(amount(part.mean_ns, "ns"), counted(part.count, "time"))
            if part.count
            else NOT_MEASURED
            for part in one.parts
        ]
        awake = above(str(one.not_woken), f"of {counted(one.messages, 'message')}")
        rows.append((above(one.transport, one.where), *parts, awake))
        for name, part in zip(names, one.parts, strict=True):
            slots = [
                f"{low:>12} ns  {'█' * round(40 * count / part.count):40}  {count}\n"
                for low, count in part.slots
            ]
            if part.count:
                head = f"{one.transport}, {name} · {one.where}\n"
                histograms.append(Text("pre", head + "".join(slots)))
    yield Table(
        "Parts of the way from send to receive, on probed cells: compare the parts; the whole is "
        "better taken from unprobed ones",
        ["cell", *numbers(*names, "reader was awake")], rows,
    )  # fmt: skip
    yield Group("closed", "As histograms, by powers of two", histograms)


def wakeups(analysis: Analysis, _: Figures) -> Blocks:
    if analysis.wakeups:
        yield say(
            "The kernel stack of the process that wakes the other, from its system call inwards. "
            "<code>sock_def_readable</code> wakes a reader because a message has come. "
            "<code>unix_write_space</code> wakes a writer because its socket has space again, "
            "for which nobody waits in ping-pong."
        )
    for place, one in enumerate(analysis.wakeups):
        stacks = []
        for way in one.ways:
            by = next((name for name in way.functions if name in WAKERS), way.functions[-1])
            task = ", of another task" if way.elsewhere else ""
            caption = say("{} a round trip, by {}{}", number(way.per_round_trip), code(by), task)
            stacks.append((caption, "".join(f"{name}\n" for name in way.functions)))
        rarer = Text("note", f"{counted(one.others, 'other way')}, rarer.") if one.others else None
        kind = "open" if place < 2 else "closed"
        yield Group(kind, f"{one.transport} · {one.where}", [SideBySide(stacks), rarer])


def profile(analysis: Analysis, figures: Figures) -> Blocks:
    if analysis.profiles:
        yield (
            "Samples of the stacks in which the two processes ran. Sampling disturbs, so no time "
            "in this report comes from it."
        )
        yield from (figure for name, figure in figures.items() if name.startswith("profile-"))
