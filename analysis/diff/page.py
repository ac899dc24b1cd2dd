# SPDX-License-Identifier: GPL-2.0-or-later
"""diff.html: two runs compared."""

import sys
from collections.abc import Sequence

import pandas as pd

from analysis.diff import words
from analysis.diff.compare import BEYOND, SAME, UNKNOWN, WITHIN, Diff, Shift
from analysis.diff.words import fates_text, kernels_text
from analysis.drawing import Drawn
from analysis.paths.changes import ExactPair
from analysis.report.frames import frame
from analysis.report.render import code, page, render
from analysis.statistics import LEAST_REPEATS
from analysis.wording import signed

__all__ = ["diff_page", "fates_text", "functions", "kernels_text", "layers", "settings", "shifts"]
VERDICTS = {
    BEYOND: "Changed beyond the noise",
    WITHIN: "Within the noise",
    UNKNOWN: "Cannot be told: too few repeats",
    SAME: "The same",
}


def diff_page(diff: Diff, figures: Sequence[Drawn]) -> str:
    """The page of a comparison."""
    text = render(
        "diff.md.j2", d=diff, f=sys.modules[__name__], answer=words.answer(diff), verdicts=VERDICTS,
        least_repeats=LEAST_REPEATS, figures={figure.name: figure for figure in figures},
    )  # fmt: skip
    return page(text, "pathcost: {} and {}".format(*diff.names), figures)


def shifts(found: Sequence[Shift]) -> pd.DataFrame:
    heads = ("conditions", "per message unless noted", "first", "second", "change",
             "95 % interval of it", "repeats", "where from")  # fmt: skip
    return frame(heads, map(_shift, found))


def _shift(shift: Shift) -> Sequence[object]:
    per = ", per round trip" if shift.measure.per == "round trip" else ""
    times = f" ({shift.ratio:.3g} times)" if shift.ratio is not None and shift.change else ""
    return (
        shift.conditions_words, shift.measure.words + per,
        words.value(shift, shift.before), words.value(shift, shift.after),
        words.change(shift) + times, words.interval(shift),
        "{} and {}".format(*shift.repeats), words.source(shift),
    )  # fmt: skip


def layers(pair: ExactPair) -> pd.DataFrame:
    return frame(
        ("layer", "first", "second", "change"),
        [
            (moved.name, f"{moved.before:,}", f"{moved.after:,}", signed(moved.difference))
            for moved in pair.layers()
        ],
    )


def functions(pair: ExactPair) -> pd.DataFrame:
    return frame(
        ("function", "first", "second", "change", "calls"),
        [
            (code(moved.name), f"{moved.before:,}", f"{moved.after:,}", signed(moved.difference),
             words.calls(moved))
            for moved in pair.functions()
        ],
    )  # fmt: skip


def settings(diff: Diff) -> pd.DataFrame:
    lines = [(where, code(what), *values) for where, what, *values in diff.settings]
    return frame(("where", "what", "first", "second"), lines)
