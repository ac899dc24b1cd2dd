# SPDX-License-Identifier: GPL-2.0-or-later
"""What exact mode draws and exports: captions, folded stacks, the call tree side by side."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import pandas as pd

from analysis.drawing import Drawn, drawn, not_drawn
from analysis.exact import journey, journey_plot, plots
from analysis.exact.cells import DEFAULT, Comparison, ExactCell, inclusive, scheduling_text
from analysis.functions import explore
from analysis.functions.flame import palette
from analysis.wording import listed, size_text
from probes.paths import read_paths

MOST_DRAWN = 4  # transports in one figure of call stacks
LEAST_SHARE = 0.02  # of the most expensive round trip: what the side-by-side tree shows


class Branch(NamedTuple):
    """A function under its callers, with all it calls: instructions by transport."""

    depth: int
    function: str
    values: tuple[int, ...]


def draw_exact(comparisons: tuple[Comparison, ...]) -> tuple[Drawn, ...]:
    """The figures of the first kernel and size, and the trend where there are several kernels."""
    if not comparisons:
        return ()
    first = comparisons[0]
    kernel, size = first.kernel, first.size
    what = attrgetter("kernel", "size", "pattern", "unusual")
    alike = [compared for compared in comparisons if what(compared) == what(first)]
    alike.sort(key=usual_first)
    where = ", ".join(filter(None, (kernel, first.pattern, first.unusual, size_text(size))))
    few = [replace(compared, cells=one_of_each_family(compared.cells)) for compared in alike]
    bars = alike if len(first.cells) <= MOST_DRAWN else alike[:1]
    found = [_journey(few, where), _layers(tuple(bars), where), _flame(few, where)]
    lines = _by_kernel(comparisons, size)
    if any(len(values) > 1 for values in lines.values()):
        found.append(_kernels(lines, size_text(size)))
    return tuple(found)


def one_of_each_family(cells: tuple[ExactCell, ...]) -> tuple[ExactCell, ...]:
    """The cells that are drawn: where they are too many, the first of each family.

    A family's name is the letters with which its transports' names begin: unix, tcp, uring.
    """
    if len(cells) <= MOST_DRAWN:
        return cells
    order = list(read_paths())
    families: dict[str, ExactCell] = {}
    for cell in sorted(cells, key=lambda cell: order.index(cell.transport)):
        families.setdefault(re.split(r"[^a-z]", cell.transport)[0], cell)
    return tuple(families.values())[:MOST_DRAWN]


def usual_first(comparison: Comparison) -> tuple[bool, bool]:
    """A sort key: one CPU and the default scheduler are what most people have."""
    return comparison.placement != "same-cpu", comparison.scheduling != DEFAULT


def _journey(comparisons: Sequence[Comparison], where: str) -> Drawn:
    title = "The journey of one message"
    views = [(c, found) for c in comparisons if (found := journey.journeys(c, comparisons))]
    if not views:
        lacks = "no round trip in its order (made before that was kept)"
        return not_drawn("journey", title, lacks)
    comparison, found = views[0]
    costs = [f"{message.total:,} instructions over {message.transport}" for message in found]
    shares = [
        f"{cell.identical} of {cell.iterations} ({cell.transport})" for cell in comparison.cells
    ]
    caption = " ".join(
        (
            "The client's message, from its system call to the server's return from its own: "
            f"{listed(costs)} ({where}, {comparison.title}). The server's answer takes another "
            "path, so the mean of a message, which stands above, is another number. Read the "
            "figure from left to right, and down into the kernel: a box lies below the layer that "
            "called it and is as wide as its instructions, all on one scale.",
            *(
                f"Of {message.transport}'s, {sum(message.softirq.values()) / message.total:.0%} "
                f"lie in the receive softirq, which runs in {listed(list(message.softirq))}."
                for message in found
                if message.softirq
            ),
            "The grey row says who is in which system call. Signs mark where payload is copied, a "
            "sleeper is woken, and the CPU switches. Numbers: every instruction that exact mode's "
            f"emulated CPU ({comparison.cells[0].cpu}) executed in the steady round trip, to which "
            f"{listed(shares)} iterations are identical. A copy is marked in the functions that "
            "were seen to copy payload.",
            *(
                f"Over {message.transport} no wake-up precedes the switch: the receiver is awake "
                "already. The wake-up after the switch is the reader's, which wakes the sender "
                "before it answers."
                for message in found
                if message.woken_ahead
            ),
        )
    )
    alt = "; ".join(
        f"{message.transport}: " + ", ".join(f"{name} {n:,}" for name, n in message.by_stage())
        for message in found
    )
    plot, colours = journey_plot.journey_plot, palette(cell.layers() for cell in comparison.cells)
    explored = explore.explored(
        "instructions", colours,
        [(c.title, list(map(explore.of_journey, journeys))) for c, journeys in views],
        comparison.kernel,
    )  # fmt: skip
    table = journey.table(found)
    return drawn(
        "journey", title, caption, alt, plot, found, colours, data=table, explored=explored
    )


def _layers(comparisons: tuple[Comparison, ...], where: str) -> Drawn:
    caption = (
        f"A bar is one round trip ({where}), divided by what the kernel does. Compare the parts: "
        "which layers does one transport have alone? Helpers (locks, lists, memcpy) belong "
        "to the layer that calls them where probes/functions.tsv says so."
    )
    alt = "Stacked bars of instructions a round trip by layer, one for each transport."
    rows = [
        (cell.transport, cell.scheduling, cell.placement, *layer)
        for comparison in comparisons
        for cell in comparison.cells
        for layer in cell.layers().most_common()
    ]
    columns = ["transport", "scheduling", "placement", "layer", "instructions"]
    table, title = pd.DataFrame(rows, columns=columns), "Where the instructions go"
    return drawn("exact-layers", title, caption, alt, plots.layers_plot, comparisons, data=table)


def _flame(comparisons: Sequence[Comparison], where: str) -> Drawn:
    comparison = comparisons[0]
    caption = (
        f"{where}, {comparison.title}. A function lies below its caller and is as wide as its "
        "instructions. Equal paths of the two processes are one box. Colours are layers; all "
        "transports have one scale. The stacks are in folded/, for any flame graph program."
    )
    alt = "A flame graph for each transport."
    colours = palette(cell.layers() for cell in comparison.cells)
    views = [(c.title, list(map(explore.of_graph, plots.graphs(c)))) for c in comparisons]
    explored = explore.explored("instructions", colours, views, comparison.kernel)
    return drawn(
        "exact-flame", "Flame graph", caption, alt, plots.flame_plot, comparison, explored=explored
    )


def _by_kernel(
    comparisons: tuple[Comparison, ...], size: int
) -> dict[tuple[str, str], dict[str, int]]:
    """Transport and scheduling → kernel series → instructions of the round trip on one CPU."""
    lines: dict[tuple[str, str], dict[str, int]] = {}
    for comparison in comparisons:
        usual = (comparisons[0].pattern, comparisons[0].unusual)
        if (comparison.size, comparison.placement) == (size, "same-cpu") and (
            (comparison.pattern, comparison.unusual) == usual
        ):
            series = ".".join(comparison.kernel.split(".")[:2])
            for cell in one_of_each_family(comparison.cells):
                line = (cell.transport, scheduling_text(comparison.scheduling))
                lines.setdefault(line, {})[series] = cell.total
    return lines


def _kernels(lines: dict[tuple[str, str], dict[str, int]], size: str) -> Drawn:
    caption = (
        f"The steady round trip of {size} on one CPU, by kernel: a slope is what a release cost."
    )
    alt = "Lines of instructions a round trip over kernels."
    title = "Kernel by kernel, in instructions"
    rows = [(*line, kernel, n) for line, kernels in lines.items() for kernel, n in kernels.items()]
    columns = ["transport", "scheduling", "kernel", "instructions"]
    table = pd.DataFrame(rows, columns=columns)
    return drawn("exact-kernels", title, caption, alt, plots.kernels_plot, lines, data=table)


def branches(comparison: Comparison) -> list[Branch]:
    """The call trees of all transports as one, thinned to what weighs; the most expensive first."""
    cells = comparison.cells
    sums = [inclusive(cell.nodes) for cell in cells]
    least = LEAST_SHARE * max(cell.total for cell in cells)
    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in {path for counts in sums for path, n in counts.items() if n >= least}:
        below.setdefault(path[:-1], []).append(path)

    def walk(parent: tuple[str, ...]) -> Iterator[Branch]:
        order = sorted(below.get(parent, ()), key=lambda p: (-max(counts[p] for counts in sums), p))
        for path in order:
            yield Branch(len(path) - 1, path[-1], tuple(counts[path] for counts in sums))
            yield from walk(path)

    return list(walk(()))
