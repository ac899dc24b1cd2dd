# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of call trees: flame graphs, and the journey of a message; what report.js draws of them.

A flame graph is drawn from the top down: what is called lies below its caller, as wide as what it
and all that it calls took, in the colour of its layer.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import drawing
from analysis.counts.ledger import MOST_TOGETHER
from analysis.drawing import CARD, FAINT, INK, RULE, Drawn, colour, drawn, not_drawn, words
from analysis.paths.cells import DEFAULT, Comparison, ExactCell
from analysis.paths.functions import Profile
from analysis.paths.journey import journeys
from analysis.paths.tree import Box, Mark, View, by_layer, flame_graph
from analysis.wording import counted, listed, size_text
from probes.files import read_rows
from probes.transports import read_transports

MOST_DRAWN = 4  # transports in one figure of call stacks
# Where an identifier of a kernel is defined and used. A run does not record source files.
KERNEL_SOURCE = "https://elixir.bootlin.com/linux/v{}/A/ident/"
RELEASE = re.compile(r"\d+\.\d+(\.[1-9]\d*)?")
UNIT = "instructions a round trip"
# What delivery needs on the kernels of reports/reference/lesions; tests/docs/lesions.py writes it.
NEEDED = Path(__file__).with_name("needed.tsv")
SCHEDULED_COUNTS = Path(__file__).with_name("scheduled.tsv")
FIRST_ORDER = "largest first"  # of needs.csv
NEEDS_SIZE, NEEDS_PLACEMENT = 64, "same-cpu"  # of which the report tells
NEEDS_CELL = ["kernel", "transport", "size", "placement", "sched", "knob"]
# Neither the transports' blue nor their orange; neighbours in the figures differ in lightness, too.
PALETTE = (
    "#8ccfb4", "#cc79a7", "#f0e442", "#009e73", "#b5a6d6", "#c2b280", "#9ac24d", "#e5b8c9",
    "#a98bc4", "#5fb3b3",
)  # fmt: skip
DELIVERY_COLOUR = "#3c4650"  # no purpose and no transport has it
OTHER_LAYERS, REST_COLOUR = "all other layers", "#c8ccd0"
LEAST_BOX = 0.002  # of the widest graph: thinner boxes cannot be seen
CHARACTER = 0.0066  # of the figure's width, as drawn in the small type
ROW = 0.19  # inches; of a flame graph
JOURNEY_ROW = 0.22
TALL = 0.93  # of a row: a box
WIDE = 12.5  # inches
DARK = "#101214"  # on the layers' colours, whatever the page's theme
WORD_ROWS = 3
ABOVE = 2.1 + 0.8 * WORD_ROWS  # rows for a journey's stages, marks and their words
SIGNS = {"copy": "v", "wake-up": "*", "switch": "X"}

Paint = Callable[[Box], str]  # the colour of a box


@dataclass(frozen=True)
class BoxTimes:
    """What an instruction of a cell costs in nanoseconds; 0 where it is not known.

    `words` say on which machine, `lack` why it is not known.
    """

    ns_of: Callable[[ExactCell], float] = lambda _: 0.0
    words: str = ""
    lack: str = ""


def palette(layers: Iterable[Counter[str]]) -> dict[str, str]:
    """A colour for each of the most expensive layers; all other layers share a colour."""
    most = reduce(or_, layers, Counter[str]())
    named = [name for name, _ in most.most_common(len(PALETTE))]
    return dict(zip(named, PALETTE, strict=False)) | {OTHER_LAYERS: REST_COLOUR}


def legend(figure: Figure, colours: dict[str, str]) -> None:
    handles = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=10)


def layered(views: Sequence[View], unit: str, colours: dict[str, str], above: float = 0) -> Figure:
    """Views in the colours of their layers."""
    paint: Paint = lambda box: colours.get(box.layer, REST_COLOUR)  # noqa: E731
    figure = painted(views, unit, [paint] * len(views), above)
    names = {OTHER_LAYERS, *(box.layer for view in views for box in view.boxes)}
    legend(figure, {name: fill for name, fill in colours.items() if name in names})
    return figure


def painted(views: Sequence[View], unit: str, paints: Sequence[Paint], above: float = 0) -> Figure:
    """Views one below the other on one scale, each in colours of the caller's choice, without a
    legend; `above`: rows for stages and marks."""
    widest = max(view.total for view in views)
    shown = [[box for box in view.boxes if box.width >= LEAST_BOX * widest] for view in views]
    depths = [max(box.depth for box in boxes) + 1 for boxes in shown]
    heights = [above + depth for depth in depths]
    row, base = (JOURNEY_ROW, 1.5) if above else (ROW, 1.4 + 0.3 * len(views))
    figure = Figure(figsize=(WIDE, base + row * sum(heights)), layout="constrained")
    ratios = {"height_ratios": heights}
    grid = figure.subplots(len(views), 1, sharex=True, squeeze=False, gridspec_kw=ratios)
    for ax, view, boxes, depth, paint in zip(grid[:, 0], views, shown, depths, paints, strict=True):
        ax.set_yticks([])
        ax.grid(visible=False)
        ax.spines["left"].set_visible(False)
        ink = colour(view.transport, [view.transport for view in views]) if above else INK
        ax.set_title(view.title, color=ink)
        if above:
            stages = [stage._replace(depth=-1) for stage in view.stages]
            _draw(ax, stages, widest, [RULE] * len(stages), INK)
        _draw(ax, boxes, widest, list(map(paint, boxes)))
        _draw_marks(ax, view.marks, widest)
        ax.set_ylim(depth, -above)
    ax.set_xlim(0, widest)
    ax.set_xlabel(unit)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _draw(
    ax: Axes, boxes: Sequence[Box], widest: int, fills: Sequence[str], ink: str = DARK
) -> None:
    """One collection is half the SVG of many."""
    places = [(box.start, box.depth, box.start + box.width, box.depth + TALL) for box in boxes]
    corners = [((x, y), (x, low), (end, low), (end, y)) for x, y, end, low in places]
    collection = PolyCollection(corners, facecolors=fills, edgecolors=CARD, linewidths=0.4)
    collection.set_clip_on(False)
    ax.add_collection(collection)
    for box in boxes:
        if text := fitting(box.name, box.width / widest):
            place = (box.start, box.depth + TALL / 2)
            ax.text(*place, f" {text}", va="center", fontsize=10, color=ink, clip_on=True)


def fitting(name: str, share: float) -> str:
    room = int(share / CHARACTER) - 1
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= 5 else ""


def _draw_marks(ax: Axes, marks: Iterable[Mark], widest: int) -> None:
    """A sign for each; its words once for those that follow each other, where there is room."""
    rows = [-1.0] * WORD_ROWS  # where the words of each end
    last = ""
    for mark in sorted(marks, key=lambda mark: mark.at):
        ax.plot(mark.at, -1.35, SIGNS.get(mark.kind, "P"), color=INK, markersize=6, clip_on=False)
        if mark.words == last:
            continue
        wide = len(mark.words) * CHARACTER * widest
        left = min(mark.at, widest - wide)
        row = next((n for n, end in enumerate(rows) if end <= left), WORD_ROWS - 1)
        ax.vlines(mark.at, -1.8 - 0.8 * row, -1.35, color=FAINT, linewidth=0.7)
        ax.text(left, -1.8 - 0.8 * row, mark.words, fontsize=10, color=INK, va="bottom")
        last, rows[row] = mark.words, left + wide


def explored(
    unit: str, colours: dict[str, str], views: Mapping[str, Sequence[View]], kernel: str
) -> dict[str, Any]:
    """What explore.js draws: graphs by the title of their view, of which it shows one.

    A box: words, layer, depth, start, width, own, copies, function.
    """
    release = RELEASE.match(kernel)
    source = KERNEL_SOURCE.format(release[0]) if release else ""
    graphs = {title: list(map(_explored, shown)) for title, shown in views.items()}
    return {
        "unit": unit,
        "colours": colours,
        "rest": OTHER_LAYERS,
        "source": source,
        "views": graphs,
    }


def _explored(view: View) -> dict[str, Any]:
    return {
        "title": view.title,
        "transport": view.transport,
        "total": view.total,
        "ns": round(view.ns, 4),
        "stages": [(stage.name, stage.start, stage.width) for stage in view.stages],
        "marks": view.marks,
        "boxes": [
            (b.name, b.layer, b.depth, b.start, b.width, b.own, b.copies, b.function)
            for b in view.boxes
        ],
    }


def draw_exact(
    comparisons: tuple[Comparison, ...], times: BoxTimes | None = None
) -> tuple[Drawn, ...]:
    """The figures of the first kernel, size and pattern, with the times of their boxes."""
    times = times or BoxTimes()
    if not comparisons:
        return ()
    first = comparisons[0]
    few = list(map(one_of_each_family, alike_first(comparisons)))
    words = (first.kernel, first.pattern, first.unusual, size_text(first.size))
    place = ", ".join(filter(None, words))
    return _journey(few, place, times), _flame(few, place, times)


def alike_first(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of the first kernel, size and pattern, the usual one first."""
    shared = attrgetter("kernel", "size", "pattern", "unusual")
    return sorted((c for c in comparisons if shared(c) == shared(comparisons[0])), key=usual_first)


def one_of_each_family(comparison: Comparison) -> Comparison:
    """The comparison with the cells that are drawn: of too many the first of each family.

    A family's name is the letters with which its transports' names begin: unix, tcp, uring.
    """
    if len(comparison.cells) <= MOST_DRAWN:
        return comparison
    order = list(read_transports())
    families: dict[str, ExactCell] = {}
    for cell in sorted(comparison.cells, key=lambda cell: order.index(cell.transport)):
        families.setdefault(re.split(r"[^a-z]", cell.transport)[0], cell)
    return comparison._replace(cells=tuple(families.values())[:MOST_DRAWN])


def usual_first(comparison: Comparison) -> tuple[bool, bool]:
    """A sort key: one CPU and the default scheduler are what most people have."""
    return comparison.placement != "same-cpu", comparison.sched != DEFAULT


def timed(views: Iterable[View], comparison: Comparison, times: BoxTimes) -> list[View]:
    """The views of a comparison's cells, each with what an instruction of its cell costs."""
    ns = {cell.transport: times.ns_of(cell) for cell in comparison.cells}
    return [replace(view, ns=ns[view.transport]) for view in views]


def _journey(comparisons: Sequence[Comparison], place: str, times: BoxTimes) -> Drawn:
    views = [(c, made) for c in comparisons if (made := journeys(c, comparisons))]
    if not views:
        return not_drawn("journey", place=place)
    comparison, shown = views[0]
    costs = [f"{message.total:,} over {message.transport}" for message in shown]
    softirqs = (
        words(
            "journey",
            "softirq",
            transport=message.transport,
            share=sum(message.softirq.values()) / message.total,
            calls=listed(list(message.softirq)),
        )
        for message in shown
        if message.softirq
    )
    stages = "; ".join(
        f"{message.transport}: " + ", ".join(f"{name} {n:,}" for name, n in message.by_stage())
        for message in shown
    )
    colours = palette(cell.layers() for cell in comparison.cells)
    graphs = {c.title: timed(made, c, times) for c, made in views}
    return drawn(
        "journey",
        layered,
        shown,
        "instructions since the sender's system call",
        colours,
        ABOVE,
        explored=explored("instructions", colours, graphs, comparison.kernel),
        place=place,
        scheduling=comparison.title,
        costs=listed(costs),
        softirqs="".join(softirqs),
        times=times.words or times.lack,
        stages=stages,
    )


def _flame(comparisons: Sequence[Comparison], place: str, times: BoxTimes) -> Drawn:
    views = {c.title: timed(map(_flame_of, c.cells), c, times) for c in comparisons}
    first = comparisons[0]
    colours = palette(cell.layers() for cell in first.cells)
    named = {"place": place, "scheduling": first.title, "times": times.words}
    return graphs("exact-flame", UNIT, views, colours, first.kernel, **named)


def _flame_of(cell: ExactCell) -> View:
    return flame_graph(f"{cell.transport}: {cell.total:,} {UNIT} ({cell.frequency})", cell.tree)


def graphs(
    name: str,
    unit: str,
    views: dict[str, list[View]],
    colours: dict[str, str],
    kernel: str,
    **values: Any,
) -> Drawn:
    """Flame graphs of the first view; explore.js can show the others."""
    shown = next(iter(views.values()))
    return drawn(
        name,
        layered,
        shown,
        unit,
        colours,
        explored=explored(unit.split()[0], colours, views, kernel),
        **values,
    )


def draw_profiles(profiles: tuple[Profile, ...]) -> tuple[Drawn, ...]:
    """A figure for all conditions of the first kernel: the host, where perf watched cells there."""
    if not profiles:
        return ()
    shared = attrgetter("target", "kernel", "pattern", "size")
    first = [profile for profile in profiles if shared(profile) == shared(profiles[0])]
    by_placement = groupby(first, attrgetter("conditions"))
    return tuple(_profile(conditions, list(some)) for conditions, some in by_placement)


def _profile(conditions: str, profiles: list[Profile]) -> Drawn:
    profiles, first = profiles[:MOST_TOGETHER], profiles[0]
    shown = [
        flame_graph(f"{p.transport}: {counted(p.samples, 'sample')}", p.spans) for p in profiles
    ]
    colours = palette(by_layer(profile.spans) for profile in profiles)
    emulated = words("profile", "emulated") if first.emulated else ""
    return graphs(
        f"profile-{conditions.replace('+', '-')}",
        "samples",
        {conditions: shown},
        colours,
        first.kernel,
        entry="profile",
        conditions=conditions,
        cell=first.words,
        emulated=emulated,
    )


def needs(table: Path, picture: Path) -> None:
    """Draw needs.csv of a study of lesions: for each cell a bar, delivery first."""
    rows = pd.read_csv(table, keep_default_na=False)
    with mpl.rc_context(drawing.STYLE):
        plot_needs(rows).savefig(picture, dpi=drawing.PNG_DPI, metadata={"Software": None})


def needed(kernel: str) -> list[tuple[str, int, int, int]]:
    """Transport, instructions of a round trip, and of these: what delivery needs without a
    difference of state, and where memory may leak.

    They are of the stored study of lesions of this kernel; of another kernel there is none.
    """
    rows = [row for row in read_rows(NEEDED) if row["kernel"] == kernel]
    return [
        (row["transport"], int(row["instructions"]), int(row["needed"]), int(row["leaking"]))
        for row in rows
    ]


def scheduled(kernel: str, sched: str) -> list[float]:
    """How many times a Unix socket's instructions TCP takes, by build of the workload and window.

    They are of a stored study of this kernel; of another kernel there is none.
    """
    rows = [
        row
        for row in read_rows(SCHEDULED_COUNTS)
        if (row["kernel"], row["sched"]) == (kernel, sched)
    ]
    return [float(row["tcp"]) / float(row["unix"]) for row in rows]


def plot_needs(rows: pd.DataFrame) -> Figure:
    """Delivery, and beside it what the lesions that survive save together, by purpose.

    Hatched: what only a form saves that lets memory leak. Outlined: what lesions add.
    """
    main = rows[(rows["order"] == FIRST_ORDER) & (rows["purpose"] != "left")]
    taxes = main[main["form"] != "delivery"]
    cells = taxes[taxes["purpose"] == "all"]
    usual = taxes[taxes["purpose"] != "all"].groupby("purpose")["instructions"].sum()
    ranked = list(usual.sort_values(ascending=False).index)
    colours = dict(zip(ranked, PALETTE, strict=False))
    figure = Figure(figsize=(WIDE, 1.6 + 0.8 * len(cells)), layout="constrained")
    ax, ends, forms = figure.subplots(), [], list(dict.fromkeys(taxes["form"]))
    for place, (_, cell) in enumerate(cells.iterrows()):
        own = taxes[(taxes[NEEDS_CELL] == cell[NEEDS_CELL]).all(axis="columns")].iloc[1:]
        at = cell["instructions"] - own["instructions"].sum()
        ax.barh(place, at, color=DELIVERY_COLOUR)
        ax.text(at / 2, place, f"delivery {at:,.0f}", ha="center", va="center", color=CARD)
        rank = own["purpose"].map(ranked.index) + len(ranked) * (own["form"] == forms[-1])
        for _, tax in own.loc[rank.sort_values().index].iterrows():
            fill = colours.get(tax["purpose"], REST_COLOUR)
            leaks = "//" if tax["form"] == forms[-1] else ""
            style: dict[str, Any] = {"color": fill, "hatch": leaks, "ec": CARD}
            if tax["instructions"] < 0:
                style = {"fill": False, "ec": DELIVERY_COLOUR, "zorder": 3}
            ax.barh(place, tax["instructions"], left=at, **style)
            at += tax["instructions"]
        where = f"{cell['transport']}, {size_text(cell['size'])}"
        if cell["placement"] != NEEDS_PLACEMENT:
            where += ", two CPUs"
        if cell["kernel"] != cells["kernel"].iloc[0]:
            where += ", Linux " + ".".join(cell["kernel"].split(".")[:2])
        ends.append(f"{where}\n{at:,.0f}")
    ax.set_yticks(range(len(ends)), ends)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(f"{UNIT} (hatched: memory leaks without it; outlined: more without it)")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    others = {"all other purposes": REST_COLOUR} if ranked[len(PALETTE) :] else {}
    legend(figure, colours | others)
    return figure
