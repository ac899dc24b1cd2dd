# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in two sentences, one of counts and one of times, made from the data."""

from collections.abc import Iterable

from analysis.ledger import Ledger
from analysis.quantities import MEASURE_BY_ID
from analysis.timing import Ratio, Regime, Spread
from analysis.wording import PLACEMENTS, TRANSPORTS, amount, listed, number, size_text, spread

# Measure → how a sentence says it, before and after its first figure.
COUNTS = {
    "payload_copies": ("copies each payload byte", "times"),
    "functions_hit": ("goes through", "of its functions"),
    "function_calls": ("calls them", "times"),
}


def answer(ledger: Ledger | None, regimes: Iterable[Regime]) -> tuple[str, str]:
    """What a message costs over each transport, and how long its round trip takes."""
    if ledger is None:
        return "This run holds no figures: see what is missing.", ""
    times = [r for r in regimes if (r.pattern, r.size) == (ledger.pattern, ledger.size)]
    counts, durations = _counts(ledger), _times(ledger.size, times)
    if counts:
        return counts, durations or "No sound, unprobed cell of the host gave times."
    unknown = "What the kernel does for a message was not measured by any sound cell of this run."
    return (durations, unknown) if durations else (unknown, "")


def _counts(ledger: Ledger) -> str:
    transports = list(dict.fromkeys(transport for _, transport in ledger.columns))
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


def _times(size: int, regimes: list[Regime]) -> str:
    parts = [text for regime in regimes if (text := _regime(regime))]
    if not parts:
        return ""
    return f"A round trip of {size_text(size)} takes, at the median, {'; '.join(parts)}."


def _regime(regime: Regime) -> str:
    medians = [
        f"{amount(one.p50.value, 'ns')} over {TRANSPORTS.get(one.transport, one.transport)}"
        for one in regime.latencies
        if isinstance(one.p50, Spread)
    ]
    if not medians:
        return ""
    where = PLACEMENTS.get(regime.placement, regime.placement)
    ratios = [ratio_text(ratio) for ratio in regime.ratios]
    return f"{where} {listed(medians)}" + (f" ({'; '.join(ratios)})" if ratios else "")


def ratio_text(ratio: Ratio) -> str:
    """`tcp takes 1.60 times as long as unix, 95 % interval 1.55 to 1.66, 5 repeats`."""
    text = f"{ratio.slow} takes {number(ratio.value)} times as long as {ratio.fast}"
    if ratio.low is not None and ratio.high is not None:
        text += f", 95 % interval {number(ratio.low)} to {number(ratio.high)}"
    text += f", {ratio.repeats} repeats" if ratio.repeats > 1 else ", one repeat"
    return f"{text}; {ratio.regime}" if ratio.regime else text
