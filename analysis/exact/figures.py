# SPDX-License-Identifier: GPL-2.0-or-later
"""What exact mode draws and exports: captions, folded stacks, the call tree side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.drawing import Drawn, drawn, not_drawn
from analysis.exact import journey, journey_plot, plots
from analysis.exact.cells import Comparison, inclusive, scheduling_text
from analysis.exact.journey import Journey
from analysis.wording import listed, size_text

LEAST_SHARE = 0.02  # of the dearest round trip: what the side-by-side tree shows


@dataclass(frozen=True)
class Branch:
    """A function under its callers, with all it calls: instructions by transport."""

    depth: int
    function: str
    values: tuple[int, ...]


def draw_exact(comparisons: tuple[Comparison, ...]) -> tuple[Drawn, ...]:
    """The figures of the first kernel and size, and the trend where there are several kernels."""
    if not comparisons:
        return ()
    first = comparisons[0]
    alike = tuple(c for c in comparisons if (c.kernel, c.size) == (first.kernel, first.size))
    where = f"{first.kernel}, pingpong, {size_text(first.size)}"
    found = [_journey(first, where), _layers(alike, where), _flame(first, where)]
    lines = _by_kernel(comparisons, first.size)
    if any(len(values) > 1 for values in lines.values()):
        found.append(_kernels(lines, size_text(first.size)))
    return tuple(found)


def _journey(comparison: Comparison, where: str) -> Drawn:
    title = "The journey of one message"
    found = journey.journeys(comparison)
    if not found:
        lacks = "no round trip in its order (made before that was kept)"
        return not_drawn("journey", title, lacks)
    caption = " ".join(
        (
            _read_journey(found, f"{where}, {comparison.title}"),
            *(_softirq(one) for one in found if one.softirq),
            "The grey row says who is in which system call; signs stand where payload is copied, a "
            "sleeper is woken, and the CPU is switched. Numbers: the steady round trip of exact "
            f"mode (QEMU {comparison.cells[0].qemu}), in its order; copies by who was seen to copy "
            "payload.",
            *(_woken_ahead(one) for one in found if one.woken_ahead),
        )
    )
    alt = "; ".join(
        f"{one.transport}: " + ", ".join(f"{name} {n:,}" for name, n in one.by_stage())
        for one in found
    )
    plot, colours = journey_plot.journey_plot, plots.palette(list(comparison.cells))
    return drawn("journey", title, caption, alt, plot, found, colours, data=journey.table(found))


def _read_journey(found: Sequence[Journey], where: str) -> str:
    costs = [f"{one.total:,} instructions over {one.transport}" for one in found]
    return (
        f"From the sender's system call to the receiver's return from its own: {listed(costs)} "
        f"({where}). Read it from left to right, and down into the kernel: a box lies below the "
        "layer that called it and is as wide as its instructions, both targets on one scale."
    )


def _softirq(one: Journey) -> str:
    return (
        f"Of {one.transport}'s, {sum(one.softirq.values()) / one.total:.0%} lie in the receive "
        f"softirq, which runs in {listed(list(one.softirq))}."
    )


def _woken_ahead(one: Journey) -> str:
    return (
        f"Over {one.transport} nobody is woken before the switch: the receiver is awake already. "
        "Such a wake-up, ahead of the message, stands behind the switch: the reader wakes the "
        "sender before it answers."
    )


def _layers(comparisons: tuple[Comparison, ...], where: str) -> Drawn:
    caption = (
        f"A bar is one round trip ({where}), parted by what the kernel does. Compare the parts: "
        "what both transports share is of one length in both. Helpers (locks, lists, memcpy) are "
        "given to the layer that calls them where probes/functions.tsv says so."
    )
    alt = "Stacked bars of instructions a round trip by layer, one for each transport."
    title = "Where the instructions go"
    return drawn(
        "exact-layers",
        title,
        caption,
        alt,
        plots.layers_plot,
        comparisons,
        data=_layers_table(comparisons),
    )


def _layers_table(comparisons: tuple[Comparison, ...]) -> pd.DataFrame:
    rows = [
        (cell.transport, cell.scheduling, cell.placement, layer, instructions)
        for one in comparisons
        for cell in one.cells
        for layer, instructions in cell.layers().most_common()
    ]
    columns = ["transport", "scheduling", "placement", "layer", "instructions"]
    return pd.DataFrame(rows, columns=columns)


def _kernels_table(lines: dict[tuple[str, str], dict[str, int]]) -> pd.DataFrame:
    rows = [(*which, kernel, n) for which, by in lines.items() for kernel, n in by.items()]
    return pd.DataFrame(rows, columns=["transport", "scheduling", "kernel", "instructions"])


def _flame(comparison: Comparison, where: str) -> Drawn:
    caption = (
        f"{where}, {comparison.title}. What is called lies below its caller, as wide as its "
        "instructions; both processes' equal paths are one; colours are layers. The transports "
        "are on one scale. The stacks are in folded/, for any flame graph program."
    )
    alt = "A flame graph for each transport."
    return drawn("exact-flame", "Flame graph", caption, alt, plots.flame_plot, comparison)


def _by_kernel(
    comparisons: tuple[Comparison, ...], size: int
) -> dict[tuple[str, str], dict[str, int]]:
    lines: dict[tuple[str, str], dict[str, int]] = {}
    for one in comparisons:
        if one.size == size and one.placement == "same-cpu":
            for cell in one.cells:
                words = scheduling_text(one.scheduling)
                lines.setdefault((cell.transport, words), {})[_series(one.kernel)] = cell.total
    return lines


def _series(kernel: str) -> str:
    return ".".join(kernel.split(".")[:2])


def _kernels(lines: dict[tuple[str, str], dict[str, int]], size: str) -> Drawn:
    caption = (
        f"The steady round trip of {size} on one CPU, by kernel: a slope is what a release cost."
    )
    alt = "Lines of instructions a round trip over kernels."
    title = "Kernel by kernel, to the instruction"
    return drawn(
        "exact-kernels",
        title,
        caption,
        alt,
        plots.kernels_plot,
        lines,
        data=_kernels_table(lines),
    )


def branches(comparison: Comparison) -> list[Branch]:
    """The call trees of all transports as one, thinned to what weighs; the dearest first."""
    cells = comparison.cells
    sums = [inclusive(cell.nodes) for cell in cells]
    least = LEAST_SHARE * max(cell.total for cell in cells)
    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in {path for one in sums for path, n in one.items() if n >= least}:
        below.setdefault(path[:-1], []).append(path)

    def walk(parent: tuple[str, ...]) -> Iterator[Branch]:
        order = sorted(below.get(parent, ()), key=lambda p: (-max(one[p] for one in sums), p))
        for path in order:
            yield Branch(len(path) - 1, path[-1], tuple(one[path] for one in sums))
            yield from walk(path)

    return list(walk(()))
