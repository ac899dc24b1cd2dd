# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of call trees with their captions, and what report.js draws in their place."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from analysis.counts.ledger import MOST_TOGETHER
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.paths import plots
from analysis.paths.cells import DEFAULT, Comparison, ExactCell
from analysis.paths.functions import Profile
from analysis.paths.journey import Journey, journeys, table
from analysis.paths.tree import Graph, Path, by_layer, inclusive, layer_of
from analysis.wording import counted, listed, size_text
from probes.transports import read_transports

MOST_DRAWN = 4  # transports in one figure of call stacks
LEAST_SHARE = 0.02  # of the most expensive round trip: what the side-by-side tree shows
# Where an identifier of a kernel is defined and used. A run does not record source files.
SOURCE = "https://elixir.bootlin.com/linux/v{}/A/ident/"
RELEASE = re.compile(r"\d+\.\d+(\.[1-9]\d*)?")
UNIT = "instructions a round trip"


def explored(
    unit: str,
    colours: Mapping[str, str],
    views: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    kernel: str,
) -> dict[str, Any]:
    """Return what report.js draws. `views`: a title and its graphs; the first one is shown."""
    release = RELEASE.match(kernel)
    return {
        "unit": unit,
        "colours": dict(colours),
        "rest": plots.REST_COLOUR,
        "source": SOURCE.format(release[0]) if release else "",
        "views": [{"title": title, "graphs": graphs} for title, graphs in views],
    }


def explored_journey(journey: Journey) -> dict[str, Any]:
    """Return a box: name, layer, depth, start, width, own, copies, function."""
    return {
        "title": journey.title,
        "transport": journey.transport,
        "total": journey.total,
        "stages": [(stage.name, stage.start, stage.width) for stage in journey.stages],
        "marks": [(mark.kind, mark.words, mark.at) for mark in journey.marks],
        "boxes": [
            (box.name, box.name, box.depth, box.start, box.width, own, copies, function)
            for box, function, own, copies in map(
                attrgetter("box", "function", "own", "copies"), journey.boxes
            )
        ],
    }


def explored_graph(graph: Graph) -> dict[str, Any]:
    """Boxes of functions, of which nobody knows who copies."""
    return {
        "title": graph.title,
        "transport": graph.title.partition(":")[0],
        "total": graph.total,
        "stages": [],
        "marks": [],
        "boxes": [
            (name, layer_of(("", *path)).name, depth, start, width, graph.own[path], None, name)
            for name, depth, start, width, path in graph.boxes
        ],
    }


def draw_exact(comparisons: tuple[Comparison, ...]) -> tuple[Drawn, ...]:
    """Return the figures of the first kernel, size and pattern."""
    if not comparisons:
        return ()
    first = comparisons[0]
    what = attrgetter("kernel", "size", "pattern", "unusual")
    alike = sorted((c for c in comparisons if what(c) == what(first)), key=usual_first)
    few = [replace(c, cells=one_of_each_family(c.cells)) for c in alike]
    words = (first.kernel, first.pattern, first.unusual, size_text(first.size))
    place = ", ".join(filter(None, words))
    return _journey(few, place), _flame(few, place)


def one_of_each_family(cells: tuple[ExactCell, ...]) -> tuple[ExactCell, ...]:
    """Return the cells that are drawn: where they are too many, the first of each family.

    A family's name is the letters with which its transports' names begin: unix, tcp, uring.
    """
    if len(cells) <= MOST_DRAWN:
        return cells
    order = list(read_transports())
    families: dict[str, ExactCell] = {}
    for cell in sorted(cells, key=lambda cell: order.index(cell.transport)):
        families.setdefault(re.split(r"[^a-z]", cell.transport)[0], cell)
    return tuple(families.values())[:MOST_DRAWN]


def usual_first(comparison: Comparison) -> tuple[bool, bool]:
    """Return a sort key: one CPU and the default scheduler are what most people have."""
    return comparison.placement != "same-cpu", comparison.sched != DEFAULT


def _journey(comparisons: Sequence[Comparison], place: str) -> Drawn:
    title = "The journey of one message"
    views = [(c, made) for c in comparisons if (made := journeys(c, comparisons))]
    if not views:
        lacks = "no round trip in its order (made before that was kept)"
        return not_drawn("journey", title, lacks)
    comparison, shown = views[0]
    costs = [f"{message.total:,} instructions over {message.transport}" for message in shown]
    shares = [
        f"{cell.identical} of {cell.iterations} ({cell.transport})" for cell in comparison.cells
    ]
    caption = " ".join(
        (
            "The client's message, from its system call to the server's return from its own: "
            f"{listed(costs)} ({place}, {comparison.title}). The server's answer takes another "
            "path, so the mean of a message, which stands above, is another number. Read the "
            "figure from left to right, and down into the kernel: a box lies below the layer that "
            "called it and is as wide as its instructions, all on one scale.",
            *(
                f"Of {message.transport}'s, {sum(message.softirq.values()) / message.total:.0%} "
                f"lie in the receive softirq, which runs in {listed(list(message.softirq))}."
                for message in shown
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
                for message in shown
                if message.woken_ahead
            ),
        )
    )
    alt = "; ".join(
        f"{message.transport}: " + ", ".join(f"{name} {n:,}" for name, n in message.by_stage())
        for message in shown
    )
    colours = plots.palette(cell.layers() for cell in comparison.cells)
    graphs = [(c.title, list(map(explored_journey, made))) for c, made in views]
    return drawn(
        "journey", title, caption, alt, plots.journey_plot, shown, colours, data=table(shown),
        explored=explored("instructions", colours, graphs, comparison.kernel),
    )  # fmt: skip


def _flame(comparisons: Sequence[Comparison], place: str) -> Drawn:
    views = [(c.title, [Graph(f"{cell.transport}: {cell.total:,} {UNIT}", cell.tree)
                        for cell in c.cells]) for c in comparisons]  # fmt: skip
    caption = (
        f"{place}, {comparisons[0].title}. A function lies below its caller and is as wide as its "
        "instructions. Equal paths of the two processes are one box. Colours are layers; all "
        "transports have one scale. The stacks are in folded/, for any flame graph program."
    )
    alt = "A flame graph for each transport."
    kernel = comparisons[0].kernel
    return _graphs("exact-flame", "Flame graph", caption, alt, UNIT, views, kernel)


def _graphs(
    name: str, title: str, caption: str, alt: str, unit: str,
    views: Sequence[tuple[str, Sequence[Graph]]], kernel: str,
) -> Drawn:  # fmt: skip
    """Flame graphs of the first view; report.js can show the others."""
    shown = views[0][1]
    colours = plots.palette(by_layer(graph.spans) for graph in shown)
    interactive = [(words, list(map(explored_graph, graphs))) for words, graphs in views]
    return drawn(
        name, title, caption, alt, plots.flame_plot, shown, unit,
        explored=explored(unit.split()[0], colours, interactive, kernel),
    )  # fmt: skip


class Branch(NamedTuple):
    """A function under its callers, with all it calls: instructions by transport."""

    depth: int
    function: str
    values: tuple[int, ...]


def branches(comparison: Comparison) -> list[Branch]:
    """The call trees of all transports as one, thinned to what weighs; the most expensive first."""
    cells = comparison.cells
    sums = [inclusive(cell.tree) for cell in cells]
    least = LEAST_SHARE * max(cell.total for cell in cells)
    below: dict[Path, list[Path]] = {}
    for path in {path for counts in sums for path, n in counts.items() if n >= least}:
        below.setdefault(path[:-1], []).append(path)

    def walk(parent: Path) -> Iterator[Branch]:
        order = sorted(below.get(parent, ()), key=lambda p: (-max(counts[p] for counts in sums), p))
        for path in order:
            yield Branch(len(path) - 1, path[-1], tuple(counts[path] for counts in sums))
            yield from walk(path)

    return list(walk(()))


def draw_profiles(profiles: tuple[Profile, ...]) -> tuple[Drawn, ...]:
    """A figure for all conditions of the first kernel: the host, where perf watched cells there."""
    if not profiles:
        return ()
    shared = attrgetter("target", "kernel", "pattern", "size")
    first = [profile for profile in profiles if shared(profile) == shared(profiles[0])]
    by_placement = groupby(first, attrgetter("conditions"))
    return tuple(_profile(conditions, list(some)) for conditions, some in by_placement)


def _profile(conditions: str, profiles: list[Profile]) -> Drawn:
    shown = [
        Graph(f"{p.transport}: {counted(p.samples, 'sample')}", p.spans)
        for p in profiles[:MOST_TOGETHER]
    ]
    first = profiles[0]
    emulated = "The CPU is emulated: widths tell which ways were taken, not how long they took. "
    caption = (
        f"{first.where}. Samples of both processes by a clock (perf record, cpu-clock), of as "
        "many messages on each transport, on one scale. What is called lies below its caller; "
        "colours are layers; all of user space is one frame. Where interrupts are off the clock "
        "waits, so that such code is charged to the function that lets them in again, as "
        f"_raw_spin_unlock_irqrestore. {emulated if first.emulated else ''}The stacks are in "
        "folded/."
    )
    title = f"Where the time on the CPU goes, {conditions}"
    name, alt = (
        f"profile-{conditions.replace('+', '-')}",
        "A flame graph of samples for each transport.",
    )
    return _graphs(name, title, caption, alt, "samples", [(conditions, shown)], first.kernel)
