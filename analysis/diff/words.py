# SPDX-License-Identifier: GPL-2.0-or-later
"""What a comparison of two runs says first, and how its figures are written."""

from collections.abc import Iterator

from analysis.diff.compare import BEYOND, UNKNOWN, Diff, Shift, of_first_conditions
from analysis.paths.changes import ExactPair, Fates, Moved
from analysis.wording import (
    amount,
    counted,
    listed,
    number,
    place,
    signed,
    size_text,
    source_text,
)

LAYERS = 3  # in a sentence
MOST_TIMES = 4  # sentences


def answer(diff: Diff) -> list[str]:
    """A sentence for each exact round trip of the first conditions, each median time, the rest."""
    sentences = [*map(_round_trip, of_first_conditions(diff.exact)), *_times(diff)]
    told = [shift for shift in diff.shifts if shift.verdict != UNKNOWN]
    changed = len(diff.of(BEYOND))
    if told:
        sentences.append(
            f"Of {counted(len(told), 'figure')} that can be compared, {changed} changed beyond the "
            f"noise{_by_luck(diff)}."
        )
    return sentences or ["The two runs have nothing in common that was measured alike."]


def _by_luck(diff: Diff) -> str:
    if not diff.tested:
        return ""
    return (
        f"; {diff.tested} of them vary from repeat to repeat and were judged by a 95 % interval, "
        f"so about {diff.tested / 20:.0f} would seem to change by luck alone"
    )


def _round_trip(pair: ExactPair) -> str:
    before, after = pair.before.total, pair.after.total
    what = f"A round trip ({pair.words})"
    if not pair.functions():
        return f"{what} takes the same {after:,} instructions in both, function by function."
    why = listed([f"{moved.name} {signed(moved.difference)}" for moved in pair.layers()[:LAYERS]])
    return (
        f"{what} takes {before:,} instructions in the first run and {after:,} in the second "
        f"({signed(pair.more)}, {pair.more / before:+.1%})"
        f"{': ' + why if why else ''}."
    )


def _times(diff: Diff) -> Iterator[str]:
    found = [s for s in diff.shifts if s.measure.id == "rtt_p50" and s.target == "host"]
    for shift in found[:MOST_TIMES]:
        extent, few = interval(shift), " with {} and {} repeats".format(*shift.repeats)
        told = f", 95 % interval of the change {extent}" if extent else ""
        yield (
            f"The median round trip of {size_text(shift.size)} over {shift.transport} "
            f"{place(shift.conditions)}: {value(shift, shift.before)} and "
            f"{value(shift, shift.after)} ({number(shift.ratio or 0)} times{told}): "
            f"{shift.verdict}{'' if extent else few}."
        )


def value(shift: Shift, figure: float) -> str:
    return amount(figure, shift.measure.unit)


def change(shift: Shift) -> str:
    """With its sign: `+12.0 ns`."""
    sign = "+" if shift.change > 0 else ""
    return f"{sign}{amount(shift.change, shift.measure.unit)}"


def interval(shift: Shift) -> str:
    if shift.low is None or shift.high is None:
        return ""
    unit = shift.measure.unit
    return f"{amount(shift.low, unit)} to {amount(shift.high, unit)}"


def source(shift: Shift) -> str:
    kernels = kernels_text(*shift.kernels)
    return source_text(shift.instrument, shift.target, kernels, shift.probed)


def kernels_text(first: str, second: str) -> str:
    return first if first == second else f"{first} → {second}"


def fates_text(fates: Fates, things: str = "") -> str:
    """`2 functions appeared, 1 vanished, 0 renamed`."""
    appeared, vanished = len(fates.appeared), len(fates.vanished)
    return f"{appeared}{things} appeared, {vanished} vanished, {len(fates.renamed)} renamed"


def calls(moved: Moved) -> str:
    if moved.calls_before == moved.calls_after:
        return str(moved.calls_after)
    return f"{moved.calls_before} → {moved.calls_after}"
