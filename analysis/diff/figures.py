# SPDX-License-Identifier: GPL-2.0-or-later
"""Differential flame graphs, as Brendan Gregg defines them, and their stacks.

A frame is as wide as in one run and coloured by what it took itself more or less in the other:
https://www.brendangregg.com/blog/2014-11-09/differential-flame-graphs.html
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

from analysis.diff.compare import of_first_conditions
from analysis.drawing import Drawn, drawn
from analysis.paths.changes import ExactPair
from analysis.paths.figures import legend, painted
from analysis.paths.tree import Box, Graph, Path, own_by_path

UNIT = "instructions a round trip"
# Told apart by colour-blind readers, and by lightness from what did not change.
SHRANK, EQUAL, GREW = "#4a9ad4", "#dadcdf", "#e8743b"
SCALE = LinearSegmentedColormap.from_list("change", [SHRANK, EQUAL, GREW])


def draw_diff(pairs: Sequence[ExactPair], names: tuple[str, str]) -> tuple[Drawn, ...]:
    """Of the first scheduling, size and placement: as wide as after, and as wide as before."""
    if not pairs:
        return ()
    alike = of_first_conditions(pairs)
    colours = (
        "Orange: it takes more itself in the second run; blue: less; grey: as much. "
        "The transports are on one scale."
    )
    alt = "Flame graphs coloured by what changed."
    return (
        drawn(
            "diff-flame", "Differential flame graph",
            f"As wide as in the second run, {names[1]}. {colours} What vanished is not in it.",
            alt, _plot, alike, True,
        ),
        drawn(
            "diff-flame-first", "The same, as wide as before",
            f"As wide as in the first run, {names[0]}: what vanished is in it, what is new is not. "
            f"{colours}",
            alt, _plot, alike, False,
        ),
    )  # fmt: skip


def folded(pair: ExactPair) -> tuple[str, str]:
    """A file's name and its lines, as difffolded.pl writes them: path, first count, second."""
    before, after = own_by_path(pair.before.tree), own_by_path(pair.after.tree)
    cell = pair.after
    name = f"{cell.transport}-{cell.size}-{cell.sched}-{cell.where.replace(' ', '-')}"
    lines = [f"{';'.join(p)} {before[p]} {after[p]}\n" for p in sorted({*before, *after})]
    return f"folded/{name}.diff.folded", "".join(lines)


def _plot(pairs: Sequence[ExactPair], as_after: bool) -> Figure:
    changes = [own_by_path(pair.after.tree) for pair in pairs]
    for change, pair in zip(changes, pairs, strict=True):
        change.subtract(own_by_path(pair.before.tree))
    most = max((abs(n) for change in changes for n in change.values()), default=0) or 1
    graphs = [_graph(pair, as_after) for pair in pairs]
    figure = painted(graphs, UNIT, [partial(_colour, change, most) for change in changes])
    legend(figure, {"takes less itself": SHRANK, "as much": EQUAL, "takes more itself": GREW})
    return figure


def _graph(pair: ExactPair, as_after: bool) -> Graph:
    cell = pair.after if as_after else pair.before
    title = f"{pair.words}: {pair.before.total:,} → {pair.after.total:,} ({pair.more:+,})"
    return Graph(title, cell.tree)


def _colour(changes: Counter[Path], most: int, box: Box) -> str:
    """Small changes are seen too: the square root of the share."""
    change = changes[box.path]
    share = (abs(change) / most) ** 0.5
    return to_hex(SCALE(0.5 + (share if change > 0 else -share) / 2))
