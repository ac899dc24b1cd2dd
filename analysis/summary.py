# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer in a few sentences, of counts, of times and of what divides them, from the data."""

from collections.abc import Sequence
from typing import Protocol

from analysis.claims.rules import TERMS
from analysis.counts.ledger import Ledger
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.machine import is_virtual, machine_text
from analysis.paths.cells import DEFAULT, Comparison
from analysis.raw.run import Run
from analysis.times.disturbed import Disturbed
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

ACROSS, EARLY = "cross-cpu", "wakeups_write_space"
MOST_IN_A_SENTENCE = 2  # transports: two are a sentence, more are a table
# Measure, and the words before and after its figure.
COUNTS = (
    ("payload_copies", "copies each payload byte", "times"),
    ("functions_hit", "runs", "different functions a round trip"),
    ("function_calls", "makes", "function calls a message"),
)
NO_COUNTS = "This run has no valid cell in which copies or kernel functions were counted."
NO_TIMES = "It has no times: a guest's are none, and no valid, unprobed cell ran on the host."


class Answered(Protocol):
    """What an analysis found, as far as the answer needs it."""

    run: Run
    ledgers: tuple[Ledger, ...]
    timings: tuple[Times, ...]
    parts: tuple[Parts, ...]
    exact: tuple[Comparison, ...]
    disturbed: Disturbed


def summary(found: Answered) -> tuple[str, ...]:
    """What a message costs over each transport, how long its round trip takes, and in what."""
    if not found.ledgers:
        return ("This run holds no figures: see what is missing.",)
    ledger = found.ledgers[0]
    timed = [
        timing
        for timing in found.timings
        if (timing.pattern, timing.size) == (ledger.pattern, ledger.size)
        and timing.conditions in ledger.conditions
    ]
    counts, durations = _counts(found.run, ledger), _durations(found, ledger, timed)
    if not durations and found.exact:
        usual = sorted(found.exact, key=lambda compared: compared.sched != DEFAULT)
        return (*counts, usual[0].sentence)
    if not counts:
        return (*durations, NO_COUNTS)
    return (*counts, *(durations or [NO_TIMES]))


def _counts(run: Run, ledger: Ledger) -> list[str]:
    """A sentence for each machine that the counts are from."""
    clauses: dict[str, list[str]] = {}
    for measure, verb, unit in COUNTS:
        if figures := _by_transport(ledger, measure, unit):
            line = ledger.row(measure).lines[0]
            machine = machine_text(run, line.target, line.kernel)
            clauses.setdefault(machine, []).append(f"{verb} {figures}")
    size = size_text(ledger.size)
    return [
        f"With messages of {size} the kernel {listed(said)} ({machine})."
        for machine, said in clauses.items()
    ]


def _durations(found: Answered, ledger: Ledger, timed: Sequence[Times]) -> list[str]:
    kernels = {latency.kernel for timing in timed for latency in timing.latencies}
    machine = listed([machine_text(found.run, "host", kernel) for kernel in sorted(kernels)])
    times = _times(ledger.size, timed, machine)
    if times and found.disturbed.runs:
        times.append(found.disturbed.sentence())
    return [*times, *_gap(found, ledger)]


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


def _times(size: int, timings: Sequence[Times], machine: str) -> list[str]:
    """Medians and ratios, placement by placement, and then the timing that they hold for."""
    shown = [timing for timing in timings if any(latency.p50 for latency in _first(timing))]
    if not shown:
        return []
    medians = listed([_medians(timing) for timing in shown])
    takes = (
        f"On {machine} a {shown[0].iteration} of {size_text(size)} takes, at the median, {medians}."
    )
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
        f"{text} ({number(ratio.median.value)} times as long, {interval_text(ratio.median)}"
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


def _gap(found: Answered, ledger: Ledger) -> list[str]:
    """What the difference between the first two transports is made of, and its known causes."""
    gaps = [part for part in found.parts if part.size == ledger.size and part.than]
    gaps = [gap for gap in gaps if gap.transport == gaps[0].transport]
    said = [gap_text(gap) for gap in gaps]
    if any(gap.placement == ACROSS for gap in gaps) and (causes := _causes(found.run, ledger)):
        said.append(f"What bears on sleeping and waking across CPUs: {'; '.join(causes)}.")
    return said


def _causes(run: Run, ledger: Ledger) -> list[str]:
    causes = []
    for line in ledger.row(EARLY).lines[:1]:
        early = line.entries.get((ACROSS, "unix"))
        if early and early.valid and early.value > TERMS.none:
            machine = machine_text(run, line.target, line.kernel)
            causes.append(
                f"over a Unix socket unix_write_space makes {number(early.value)} wake-ups a round "
                f"trip, before the message is there ({machine})"
            )
    if is_virtual(run):
        causes.append(
            "the host is a virtual machine, where an idle CPU usually wakes by way of the "
            "hypervisor"
        )
    return causes
