# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's tables of exact mode: what a message costs, and what one change makes of it."""

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis import wording
from analysis.paths.cells import Comparison
from analysis.paths.changes import ExactPair, Moved, knob_name
from analysis.report.frames import Line, frame
from analysis.report.render import code
from analysis.wording import counted, number


def costs(found: Iterable[Comparison]) -> pd.DataFrame:
    """A row for each transport and scheduler: what a message costs."""
    heads = (
        "cell",
        "transport",
        "instructions",
        "of the first",
        "most frequent",
        "identical",
        "system calls",
        "went to sleep",
        "preempted",
        "copies in, within, out",
    )
    lines = []
    for comparison in found:
        for cell in comparison.cells:
            each, copies = cell.messages_per_iteration, list[str]()
            if payload := cell.payload:
                size = payload.messages * cell.size
                copies = [number(payload.copied[way] / size) for way in ("in", "kernel", "out")]
            lines.append(
                (
                    comparison.title,
                    cell.transport,
                    f"{cell.of_message:,.0f}",
                    number(cell.of_message / comparison.cells[0].of_message),
                    f"{cell.steady:,.0f}",
                    f"{cell.identical} of {cell.iterations}",
                    number(cell.system_calls() / each),
                    *(number(count / cell.messages) for count in cell.switches()),
                    ", ".join(copies) or None,
                )
            )
    return frame(heads, lines)


def layers(found: Comparison) -> pd.DataFrame:
    lines = [(name, *(f"{value:,}" for value in values)) for name, values in found.layers()]
    return frame(("layer", *(cell.transport for cell in found.cells)), lines)


def knobs(pairs: Sequence[ExactPair]) -> pd.DataFrame:
    """Instructions of a message without and with each knob; of a probe also those of an event."""
    heads = (
        "knob",
        "transport",
        "without → with",
        "difference",
        "share",
        "steps",
        "events a message",
        "an event",
    )
    lines = []
    for pair in pairs:
        knob = pair.after.knob
        name = f"{knob.name}: {knob.what}" if knob and knob.what else knob_name(pair)
        lines.append(
            (
                name,
                pair.transport,
                f"{pair.before.steady:,.0f} → {pair.after.steady:,.0f}",
                wording.signed(pair.difference) + ("" if pair.valid else " invalid"),
                f"{pair.share:+.1%}".replace("-", wording.MINUS),
                wording.signed(pair.steps),
                f"{pair.events:,.1f}" if pair.events else None,
                None if pair.of_an_event is None else f"{pair.of_an_event:,.0f}",
            )
        )
    return frame(heads, lines)


def moved(
    rows: Sequence[Moved], most: int, first: str = "without", second: str = "with"
) -> pd.DataFrame:
    """The functions or layers that a difference is made of, a round trip, without callees."""
    lines: list[Line] = [
        (
            code(one.name),
            one.fate,
            f"{one.before:,}",
            f"{one.after:,}",
            wording.signed(one.difference),
            f"{one.calls_before} → {one.calls_after}",
        )
        for one in rows[:most]
    ]
    if others := rows[most:]:
        rest = wording.signed(sum(one.difference for one in others))
        lines.append((counted(len(others), "other function"), "", "", "", rest, ""))
    heads = ("function", "what became of it", first, second, "difference", "calls")
    return frame(heads, lines)
