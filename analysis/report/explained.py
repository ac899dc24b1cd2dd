# SPDX-License-Identifier: GPL-2.0-or-later
"""What TCP's extra time is made of, by the events that exact mode counted and their prices.

Only where the run has both: a list of prices of this machine with counted events, and the exact
cells of the same kernel. docs/time-explained.md says what the prices are and how far they go.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from analysis.analyse import Analysis
from analysis.drawing import CARD, FAINT, INK, Drawn, drawn
from analysis.paths.cells import DEFAULT, ExactCell
from analysis.paths.tree import layer_of
from analysis.report.priced import Priced, counted_events, priced_run
from analysis.statistics import Estimate
from analysis.times.events import INSTRUCTIONS, ON_ONE
from analysis.times.figures import STEP_DOWN, STEP_UP
from analysis.wording import amount, number, signed, size_text
from probes.isa import USUAL
from probes.messages import UsageError
from probes.transports import PAIR

SMALL_SHARE = 0.03  # of the difference: layers below it are one row
EVENT_KINDS = {  # event → what its part is called, and what is counted
    "code_misses": ("code that a cache of 32 KiB lacks", "lines"),
    "string_bytes": ("copied and cleared", "bytes"),
    "switches": ("switching between tasks", "switches"),
}
SMALL_LAYERS, NOT_EXPLAINED, TOLD_TOO_MUCH = "other layers", "not explained", "told too much"


class TimePart(NamedTuple):
    """Some of the extra time: how many more events of a unit there are over TCP, and their ns."""

    name: str
    unit: str
    events: float
    ns: float

    @property
    def is_rest(self) -> bool:
        """Whether it is what the events do not tell, or tell too much."""
        return not self.unit


@dataclass(frozen=True)
class Explained:
    """TCP's extra time of a round trip, in nanoseconds, and its parts; the rest is the last one."""

    size: int
    kernel: str
    counted: str  # in which conditions, in words; empty for the usual ones
    measured: Estimate
    told: float
    parts: tuple[TimePart, ...]

    @property
    def sentence(self) -> str:
        """For the first screen."""
        told, more = amount(self.told, "ns"), amount(self.measured.value, "ns")
        rest = f"{amount(abs(self.rest), 'ns')} ({self.share})"
        missed = (
            f"{rest} are not explained" if self.rest > 0 else f"the prices tell {rest} too much"
        )
        return (
            f"What TCP executes more than a Unix socket costs {told} a round trip on one CPU, by "
            f"this machine's prices with warm caches (counted on Linux "
            f"{self.kernel.partition('+')[0]}, emulated{self.counted}). TCP took {more} longer, so "
            f"{missed}."
        )

    @property
    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.parts)

    @property
    def words(self) -> pd.DataFrame:
        """The parts as a reader sees them."""
        rows = [
            (
                part.name,
                f"{signed(part.events)} {part.unit}" if part.unit else None,
                amount(part.ns, "ns"),
            )
            for part in self.parts
        ]
        return pd.DataFrame(rows, columns=["part", "more over TCP", "time"])

    @property
    def share(self) -> str:
        """How much is not explained, of the difference, also where too much is told."""
        return f"{number(100 * abs(self.rest / self.measured.value))} %"

    @property
    def highest(self) -> float:
        """How far the parts reach that lengthen the time, in nanoseconds."""
        return sum(part.ns for part in self.parts if part.ns > 0)

    @property
    def rest(self) -> float:
        return self.measured.value - self.told


def explain(analysis: Analysis) -> Explained | str:
    """What is explained of the first ledger's size on one CPU, or a sentence that says why not.

    The sentence is empty where the run has no times of both.
    """
    found = [
        part
        for part in analysis.parts
        if (part.placement, part.transport, part.than) == (ON_ONE.placement, PAIR[1], PAIR[0])
    ]
    if not found:
        return ""
    cells = [_exact(analysis.cells, name, found[0].size) for name in PAIR]
    measured = found[0].figures["total"] * 2  # messages of a round trip
    try:
        priced = priced_run(analysis.run)
        unix, tcp = (priced.counted_alike(cell, analysis.cells) for cell in cells)
    except UsageError as error:
        return str(error)
    return _explained(priced, unix, tcp, measured)


def _explained(priced: Priced, unix: ExactCell, tcp: ExactCell, measured: Estimate) -> Explained:
    prices = priced.one_cpu
    more = Counter(dict(counted_events(tcp)))
    more.subtract(dict(counted_events(unix)))
    price = dict(zip(prices.names, prices.values, strict=True))
    layers = _layers(tcp)
    layers.subtract(_layers(unix))
    parts = [
        TimePart(name, INSTRUCTIONS, float(n), n * price[INSTRUCTIONS])
        for name, n in layers.items()
        if n
    ]
    parts += [
        TimePart(name, unit, float(more[event]), more[event] * price[event])
        for event, (name, unit) in EVENT_KINDS.items()
        if more[event]
    ]
    told = sum(part.ns for part in parts)
    least = SMALL_SHARE * measured.value
    small = [part for part in parts if part.unit == INSTRUCTIONS and abs(part.ns) < least]
    shown = [part for part in parts if part not in small]
    if small:
        sums = (sum(part.events for part in small), sum(part.ns for part in small))
        shown.append(TimePart(SMALL_LAYERS, INSTRUCTIONS, *sums))
    shown.sort(key=lambda part: -part.ns)
    rest = measured.value - told
    shown.append(TimePart(NOT_EXPLAINED if rest > 0 else TOLD_TOO_MUCH, "", 0.0, rest))
    return Explained(tcp.size, tcp.kernel, priced.counted, measured, told, tuple(shown))


def _layers(cell: ExactCell) -> Counter[str]:
    """Instructions by layer, without the loops that real processors do not run."""
    layers: Counter[str] = Counter()
    for span in cell.tree:
        if span.path[-1] not in USUAL.fills:
            layers[layer_of(span.path)] += span.instructions
    return layers


def _exact(cells: Sequence[ExactCell], transport: str, size: int) -> ExactCell | None:
    wanted = (transport, size, "pingpong", ON_ONE.placement, DEFAULT, "")
    return next(
        (
            cell
            for cell in cells
            if cell.arch == USUAL.name
            and wanted
            == (cell.transport, cell.size, cell.pattern, cell.placement, cell.sched, cell.cell.knob)
        ),
        None,
    )


def draw_explained(found: Explained) -> Drawn:
    return drawn(
        "explained",
        explained_plot,
        found,
        data=found.table,
        size=size_text(found.size),
        more=amount(found.measured.value, "ns"),
        kernel=found.kernel,
        counted=found.counted,
        share=found.share,
    )


def explained_plot(found: Explained) -> Figure:
    """A bar for each part, each from where the one above ends."""
    figure = Figure(figsize=(9, 1.1 + 0.3 * len(found.parts)), layout="constrained")
    ax = figure.subplots()
    measured = found.measured.value / 1000
    ax.axvline(measured, color=INK, linewidth=0.8)
    start = 0.0
    for at, part in enumerate(found.parts):
        width = part.ns / 1000
        colour, hatch = STEP_DOWN if width < 0 else STEP_UP, None
        if part.is_rest:
            colour, hatch = FAINT, "//"
        ax.barh(at, width, 0.6, left=start, color=colour, hatch=hatch)
        ax.annotate(
            amount(part.ns, "ns"),
            (max(start, start + width), at),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1},
        )
        start += width
    ax.set_yticks(range(len(found.parts)), [part.name for part in found.parts])
    ax.set_xlim(right=1.15 * max(found.measured.value, found.highest) / 1000)
    ax.set_xlabel("µs that a round trip over TCP takes longer; the line: measured")
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return figure
