# SPDX-License-Identifier: GPL-2.0-or-later
"""What TCP's extra time is made of, by the events that exact mode counted and their prices.

Only where the run has both: a list of prices of this machine with counted events, and the exact
cells of the same kernel. docs/time-explained.md says what the prices are and how far they go.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis.analyse import Analysis
from analysis.drawing import FAINT, INK, Drawn, drawn
from analysis.paths.cells import DEFAULT, ExactCell
from analysis.paths.tree import layer_of
from analysis.report.priced import counted_events, priced_run
from analysis.statistics import Estimate
from analysis.times.events import INSTRUCTIONS, ON_ONE, EventPrices
from analysis.times.figures import STEP_DOWN, STEP_UP
from analysis.wording import amount, number, size_text
from probes.isa import USUAL
from probes.messages import UsageError
from probes.transports import PAIR

SMALL_SHARE = 0.03  # of the difference: layers below it are one row
KIND_NAMES = {
    "code_misses": "code that a cache of 32 KiB lacks",
    "string_bytes": "bytes copied and cleared",
    "switches": "switches",
}
SMALL_LAYERS, NOT_EXPLAINED = "other layers", "not explained"


@dataclass(frozen=True)
class Explained:
    """TCP's extra time of a round trip, in nanoseconds.

    `parts` has what each kind of event tells of it: how many more there are over TCP, and their
    nanoseconds. What the parts do not tell is the last one.
    """

    size: int
    kernel: str
    measured: Estimate
    told: float
    parts: tuple[tuple[str, float, float], ...]

    @property
    def sentence(self) -> str:
        """For the first screen."""
        told, more = amount(self.told, "ns"), amount(self.measured.value, "ns")
        return (
            f"By this machine's prices, warm, the instructions, switches and copies that "
            f"TCP has more on one CPU (counted on Linux {self.kernel.partition('+')[0]}, emulated) "
            f"take {told} of a round trip. TCP took {more} longer: {self.share} are not explained."
        )

    @property
    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.parts, columns=["part", "events", "ns"])

    @property
    def share(self) -> str:
        """How much is not explained, of the difference, also where too much is told."""
        return f"{number(100 * abs(self.rest / self.measured.value))} %"

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
        unix, tcp = (priced.checked(cell) for cell in cells)
    except UsageError as error:
        return str(error)
    return _explained(priced.one_cpu, unix, tcp, measured)


def _explained(
    prices: EventPrices, unix: ExactCell, tcp: ExactCell, measured: Estimate
) -> Explained:
    more = Counter(dict(counted_events(tcp)))
    more.subtract(dict(counted_events(unix)))
    price = dict(zip(prices.names, prices.values, strict=True))
    layers = _layers(tcp)
    layers.subtract(_layers(unix))
    parts = [(name, float(n), n * price[INSTRUCTIONS]) for name, n in layers.items() if n]
    parts += [
        (KIND_NAMES[name], float(more[name]), more[name] * price[name]) for name in KIND_NAMES
    ]
    told = sum(ns for _, _, ns in parts)
    least = SMALL_SHARE * measured.value
    small = [part for part in parts if part[0] in layers and abs(part[2]) < least]
    shown = sorted((part for part in parts if part not in small), key=lambda part: -part[2])
    if small:
        shown.append((SMALL_LAYERS, sum(part[1] for part in small), sum(part[2] for part in small)))
    shown.append((NOT_EXPLAINED, 0.0, measured.value - told))
    return Explained(tcp.size, tcp.kernel, measured, told, tuple(shown))


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
            if wanted
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
        share=found.share,
    )


def explained_plot(found: Explained) -> Figure:
    """A bar for each part, each from where the one above ends."""
    figure = Figure(figsize=(9, 0.9 + 0.3 * len(found.parts)), layout="constrained")
    ax = figure.subplots()
    start = 0.0
    for at, (name, events, ns) in enumerate(found.parts):
        width = ns / 1000
        colour = FAINT if name == NOT_EXPLAINED else STEP_DOWN if width < 0 else STEP_UP
        ax.barh(
            at, width, 0.6, left=start, color=colour, hatch="//" if name == NOT_EXPLAINED else None
        )
        count = f" ({number(events)})" if events else ""
        ax.annotate(
            amount(ns, "ns") + count,
            (max(start, start + width), at),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
        start += width
    ax.axvline(found.measured.value / 1000, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(found.parts)), [name for name, *_ in found.parts])
    ax.set_xlim(right=1.35 * max(found.measured.value, found.told) / 1000)
    ax.set_xlabel("µs a round trip")
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return figure
