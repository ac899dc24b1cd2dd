# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in a few sentences, of counts, of times and of what divides them, from the data."""

from collections.abc import Iterable, Sequence

from analysis.counts.ledger import Ledger
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.times.timing import Latency, Regime
from analysis.times.waterfall import Decomposition
from analysis.times.words import gap_text, gathering, interval_text, packing
from analysis.wording import (
    TRANSPORTS,
    amount,
    listed,
    number,
    place,
    size_text,
    spread,
    ways,
)

MOST_IN_A_SENTENCE = 2  # transports

# Measure → how a sentence says it, before and after its first figure.
COUNTS = {
    "payload_copies": ("copies each payload byte", "times"),
    "functions_hit": ("goes through", "of its functions"),
    "function_calls": ("calls them", "times"),
}

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
    counts = [sentence] if (sentence := _counts(ledger)) else []
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
    transports = ledger.transports[:MOST_IN_A_SENTENCE]
    clauses = []
    for measure, (before, after) in COUNTS.items():
        found = {t: text for t in transports if (text := _figure(ledger, measure, t))}
        if found:
            clauses.append(f"{before} {_by_transport(found, after)}")
    return (
        f"For a message of {size_text(ledger.size)} the kernel {listed(clauses)}."
        if clauses
        else ""
    )


def _instructions(ledger: Ledger) -> str:
    transports = ledger.transports[:MOST_IN_A_SENTENCE]
    found = {t: text for t in transports if (text := _figure(ledger, "instructions", t))}
    if not found:
        return ""
    executed = f"{_by_transport(found, 'instructions')}, the kernel's and the program's"
    return f"A message of {size_text(ledger.size)} takes {executed}."


def _by_transport(figures: dict[str, str], after: str) -> str:
    """`2.00 times over a Unix socket and TCP alike`, or each transport with its own figure."""
    names = [TRANSPORTS.get(transport, transport) for transport in figures]
    texts = list(figures.values())
    if len(set(texts)) == 1:
        return f"{texts[0]} {after} over {listed(names)}" + (" alike" if len(names) > 1 else "")
    rest = [f"{text} over {name}" for text, name in zip(texts[1:], names[1:], strict=True)]
    return listed([f"{texts[0]} {after} over {names[0]}", *rest])


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
    takes = f"A {shown[0].lap} of {size_text(size)} takes, at the median, {medians}."
    return [takes, _regime(shown), *_modes(shown)]


def _first(regime: Regime) -> tuple[Latency, ...]:
    """Two transports are a sentence, nineteen are a table."""
    return regime.latencies[:MOST_IN_A_SENTENCE]


def _medians(regime: Regime) -> str:
    medians = [
        f"{amount(one.p50.value, 'ns')} over {TRANSPORTS.get(one.transport, one.transport)}"
        for one in _first(regime)
        if one.p50
    ]
    text = f"{place(regime.placement)} {listed(medians)}"
    if regime.ratios and regime.ratios[0].both == _first(regime):
        ratio = regime.ratios[0]
        text += f" ({number(ratio.value)} times as long, {interval_text(ratio)})"
    return text


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
    return f"{text[:1].upper()}{text[1:]}."


def _modes(regimes: Sequence[Regime]) -> list[str]:
    """Where a median stands for several times: how often each comes is in the table of times."""
    found = [text for one in regimes if (text := gathering(place(one.placement), _first(one)))]
    if found:
        return [f"Times that gather at several values (modes), not at one: {'; '.join(found)}."]
    known = {one.transport for regime in regimes for one in _first(regime) if one.modality}
    return [f"Each has one mode ({', '.join(sorted(known))})."] if known else []
