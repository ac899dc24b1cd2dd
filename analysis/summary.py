# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in a few sentences, of counts, of times and of what divides them, from the data."""

from collections.abc import Iterable, Sequence

from analysis.counts.ledger import Ledger
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.times.timing import Latency, Times
from analysis.times.waterfall import Parts
from analysis.times.words import gap_text, gathering, interval_text, packing, whole_text
from analysis.wording import (
    amount,
    capital,
    listed,
    number,
    place,
    size_text,
    spread,
    transport_text,
    ways,
)

MOST_IN_A_SENTENCE = 2  # transports: two are a sentence, nineteen are a table
# Measure, and the words before and after its figure.
COUNTS = (
    ("payload_copies", "copies each payload byte", "times"),
    ("functions_hit", "runs", "different functions"),
    ("function_calls", "makes", "function calls"),
)
NO_COUNTS = "This run has no valid cell in which copies or kernel functions were counted."
NO_TIMES = "It has no times: a guest's are none, and no valid, unprobed cell ran on the host."


def summary(
    ledger: Ledger | None, timings: Iterable[Times], parts: Iterable[Parts]
) -> tuple[str, ...]:
    """What a message costs over each transport, how long its round trip takes, and in what."""
    if ledger is None:
        return ("This run holds no figures: see what is missing.",)
    timed = [
        timing
        for timing in timings
        if (timing.pattern, timing.size) == (ledger.pattern, ledger.size)
        and timing.conditions in ledger.conditions
    ]
    counts, durations = _counts(ledger), [*_times(ledger.size, timed), *_gap(ledger.size, parts)]
    if not durations and (instructions := _instructions(ledger)):
        return (*counts, instructions)  # of an exact run
    if not counts:
        return (*durations, NO_COUNTS)
    return (*counts, *(durations or [NO_TIMES]))


def _counts(ledger: Ledger) -> list[str]:
    clauses = [
        f"{verb} {figures}"
        for measure, verb, unit in COUNTS
        if (figures := _by_transport(ledger, measure, unit))
    ]
    if not clauses:
        return []
    return [f"For a message of {size_text(ledger.size)} the kernel {listed(clauses)}."]


def _instructions(ledger: Ledger) -> str:
    figures = _by_transport(ledger, "instructions", "instructions")
    size = size_text(ledger.size)
    return figures and f"A message of {size} takes {figures}, the kernel's and the program's."


def _by_transport(ledger: Ledger, measure: str, unit: str) -> str:
    """`2.00 times over a Unix socket and TCP alike`, or each transport with its own figure."""
    transports = ledger.transports[:MOST_IN_A_SENTENCE]
    figures = {t: text for t in transports if (text := _figure(ledger, measure, t))}
    if not figures:
        return ""
    (name, figure), *second = [(transport_text(t), text) for t, text in figures.items()]
    text = f"{figure} {unit} over {name}"
    for other, value in second:
        text += f" and {other} alike" if value == figure else f" and {value} over {other}"
    return text


def _figure(ledger: Ledger, measure: str, transport: str) -> str:
    """The best source's valid figures: one number, or a range over placements and repeats."""
    lines = ledger.row(measure).lines
    entries = [
        entry
        for (_, name), entry in (lines[0].entries.items() if lines else ())
        if name == transport and entry.valid
    ]
    if not entries:
        return ""
    low, high = min(e.value for e in entries), max(e.value for e in entries)
    unit = MEASURE_BY_ID[measure].unit
    return spread(low, high, unit) or amount(low, unit)


def _times(size: int, timings: Sequence[Times]) -> list[str]:
    """Medians and ratios, placement by placement, and then the timing that they hold for."""
    shown = [timing for timing in timings if any(latency.p50 for latency in _first(timing))]
    if not shown:
        return []
    medians = listed([_medians(timing) for timing in shown])
    takes = f"A {shown[0].iteration} of {size_text(size)} takes, at the median, {medians}."
    return [takes, _timing(shown), *filter(None, [_modes(shown)])]


def _first(timing: Times) -> tuple[Latency, ...]:
    return timing.latencies[:MOST_IN_A_SENTENCE]


def _medians(timing: Times) -> str:
    """`on one CPU 6.1 µs over a Unix socket and 9.8 µs over TCP (1.60 times as long, …)`."""
    medians = [
        f"{amount(latency.p50.value, 'ns')} over {transport_text(latency.transport)}"
        for latency in _first(timing)
        if latency.p50
    ]
    text = f"{place(timing.conditions)} {listed(medians)}"
    if not (timing.ratios and timing.ratios[0].both == _first(timing)):
        return text
    ratio = timing.ratios[0]
    return (
        f"{text} ({number(ratio.median.value)} times as long, {interval_text(ratio.median)}; "
        f"{whole_text(ratio)})"
    )


def _timing(timings: Sequence[Times]) -> str:
    """What a ratio means nothing without: said once where it is the same for all placements."""
    said: list[str] = []
    for texts in (
        {place(timing.conditions): ways(timing.conditions) for timing in timings},
        {place(timing.conditions): packing(_first(timing)) for timing in timings},
    ):
        if len(set(texts.values())) == 1:
            said.append(next(iter(texts.values())))
        else:
            said += [f"{where} {text}" for where, text in texts.items() if text]
    return f"{capital('; '.join(filter(None, said)))}."


def _modes(timings: Sequence[Times]) -> str:
    """Where latency has several modes: the table of times has the share of each."""
    gathered = [gathering(place(timing.conditions), _first(timing)) for timing in timings]
    if any(gathered):
        return f"Latency has several modes: {'; '.join(filter(None, gathered))}."
    known = {latency.transport for r in timings for latency in _first(r) if latency.modality}
    return f"Latency has one mode ({', '.join(sorted(known))})." if known else ""


def _gap(size: int, parts: Iterable[Parts]) -> list[str]:
    """What the difference between the first two transports is made of, in each placement."""
    gaps = [part for part in parts if part.size == size and part.than]
    first = gaps[0].transport if gaps else ""
    return [gap_text(gap) for gap in gaps if gap.transport == first]
