# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in a few sentences, of counts, of times and of what divides them, from the data."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis.counts.ledger import Ledger
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.times.timing import Latency, Regime, Spread
from analysis.times.waterfall import Decomposition
from analysis.times.words import OF_LAP, gap_text, gathering, interval_text, packing
from analysis.wording import (
    amount,
    capital,
    listed,
    number,
    place,
    sentence,
    size_text,
    spread,
    transport_text,
    ways,
)

MOST_IN_A_SENTENCE = 2  # transports


class ByTransport(NamedTuple):
    """How a figure is said of one transport, of two that have the same, of two that differ."""

    one: str
    alike: str
    apart: str


# Measure → what the kernel does.
COUNTS = {
    "payload_copies": ByTransport(
        "copies each payload byte {figure} times over {transport}",
        "copies each payload byte {figure} times over {transport} and {other} alike",
        "copies each payload byte {figure} times over {transport} and {second} over {other}",
    ),
    "functions_hit": ByTransport(
        "goes through {figure} of its functions over {transport}",
        "goes through {figure} of its functions over {transport} and {other} alike",
        "goes through {figure} of its functions over {transport} and {second} over {other}",
    ),
    "function_calls": ByTransport(
        "calls them {figure} times over {transport}",
        "calls them {figure} times over {transport} and {other} alike",
        "calls them {figure} times over {transport} and {second} over {other}",
    ),
}
INSTRUCTIONS = ByTransport(
    (
        "A message of {size} takes {figure} instructions over {transport}, the kernel's and the "
        "program's."
    ),
    (
        "A message of {size} takes {figure} instructions over {transport} and {other} alike, the "
        "kernel's and the program's."
    ),
    (
        "A message of {size} takes {figure} instructions over {transport} and {second} over "
        "{other}, the kernel's and the program's."
    ),
)

NO_COUNTS = "This run has no sound cell in which copies or kernel functions were counted."
NO_TIMES = "It has no times: a guest's are none, and no sound, unprobed cell ran on the host."


def answer(
    ledger: Ledger | None, regimes: Iterable[Regime], parts: Iterable[Decomposition]
) -> tuple[str, ...]:
    """What a message costs over each transport, how long its round trip takes, and in what."""
    if ledger is None:
        return ("This run holds no figures: see what is missing.",)
    asked = {where for where, _ in ledger.columns}
    times = [
        one
        for one in regimes
        if (one.pattern, one.size) == (ledger.pattern, ledger.size) and one.placement in asked
    ]
    counts = [counted] if (counted := _counts(ledger)) else []
    durations = [*_times(ledger.size, times), *_gap(ledger.size, parts)]
    if not durations and (executed := _instructions(ledger)):
        return (*counts, executed)  # of an exact run, say
    if not counts:
        return (*durations, NO_COUNTS)
    return (*counts, *(durations or [NO_TIMES]))


def _gap(size: int, parts: Iterable[Decomposition]) -> list[str]:
    """Of the first two transports."""
    gaps = [gap for one in parts if one.size == size for gap in one.gaps]
    return [gap_text(gap, size) for gap in gaps[:1]]


def _counts(ledger: Ledger) -> str:
    clauses = [
        _by_transport(texts, found)
        for measure, texts in COUNTS.items()
        if (found := _figures(ledger, measure))
    ]
    if not clauses:
        return ""
    size, does = size_text(ledger.size), listed(clauses)
    return f"For a message of {size} the kernel {does}."


def _instructions(ledger: Ledger) -> str:
    found = _figures(ledger, "instructions")
    return _by_transport(INSTRUCTIONS, found, size=size_text(ledger.size)) if found else ""


def _figures(ledger: Ledger, measure: str) -> dict[str, str]:
    transports = ledger.transports[:MOST_IN_A_SENTENCE]
    return {t: text for t in transports if (text := _figure(ledger, measure, t))}


def _by_transport(texts: ByTransport, figures: dict[str, str], **values: str) -> str:
    """`… 2.00 times over a Unix socket and TCP alike`, or each transport with its own figure."""
    names = [transport_text(transport) for transport in figures]
    figure, *second = figures.values()
    if not second:
        return texts.one.format(figure=figure, transport=names[0], **values)
    text = texts.alike if second == [figure] else texts.apart
    transport, other = names
    both = {"transport": transport, "other": other, "second": second[0]}
    return text.format(figure=figure, **both, **values)


def _figure(ledger: Ledger, measure: str, transport: str) -> str:
    """The best source's sound figures: one number, or a range over placements and repeats."""
    lines = ledger.row(measure).lines
    entries = [
        entry
        for (_, name), entry in (lines[0].entries.items() if lines else ())
        if name == transport and entry.sound
    ]
    if not entries:
        return ""
    low, high = min(e.value for e in entries), max(e.value for e in entries)
    unit = MEASURE_BY_ID[measure].unit
    return spread(low, high, unit) or amount(low, unit)


def _times(size: int, regimes: Sequence[Regime]) -> list[str]:
    """Medians and ratios, placement by placement, and then the regime that they hold for."""
    shown = [regime for regime in regimes if any(one.p50 for one in _first(regime))]
    if not shown:
        return []
    medians = listed([_medians(regime) for regime in shown])
    takes = OF_LAP[shown[0].lap].takes.format(size=size_text(size), medians=medians)
    return [takes, _regime(shown), *_modes(shown)]


def _first(regime: Regime) -> tuple[Latency, ...]:
    """Two transports are a sentence, nineteen are a table."""
    return regime.latencies[:MOST_IN_A_SENTENCE]


def _medians(regime: Regime) -> str:
    medians = listed([_over(one, one.p50) for one in _first(regime) if one.p50])
    where = place(regime.placement)
    if not (regime.ratios and regime.ratios[0].both == _first(regime)):
        return f"{where} {medians}"
    ratio = regime.ratios[0]
    return f"{where} {medians} ({number(ratio.value)} times as long, {interval_text(ratio)})"


def _over(one: Latency, p50: Spread) -> str:
    time, transport = amount(p50.value, "ns"), transport_text(one.transport)
    return f"{time} over {transport}"


def _regime(regimes: Sequence[Regime]) -> str:
    """What a ratio means nothing without: said once where it is the same for all placements."""
    said: list[str] = []
    for texts in (
        {place(one.placement): ways(one.placement) for one in regimes},
        {place(one.placement): packing(_first(one)) for one in regimes},
    ):
        if len(set(texts.values())) == 1:
            said.append(next(iter(texts.values())))
        else:
            said += [f"{where} {text}" for where, text in texts.items() if text]
    text = "; ".join(filter(None, said))
    return sentence(capital(text))


def _modes(regimes: Sequence[Regime]) -> list[str]:
    """Where a median stands for several times: how often each comes is in the table of times."""
    found = [text for one in regimes if (text := gathering(place(one.placement), _first(one)))]
    if found:
        values = "; ".join(found)
        return [f"Times that gather at several values (modes), not at one: {values}."]
    known = {one.transport for regime in regimes for one in _first(regime) if one.modality}
    names = ", ".join(sorted(known))
    return [f"Each has one mode ({names})."] if known else []
