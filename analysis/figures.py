# SPDX-License-Identifier: GPL-2.0-or-later
"""From tables to figures: what each shows, its caption, and where its numbers are from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import plots
from analysis.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, Ledger, Line, Row, order
from analysis.measures import SOURCE, source_rank
from analysis.plots import Panel, Point, Times
from analysis.probe_files import read_samples
from analysis.quantities import MEASURE_BY_ID
from analysis.raw import Run
from analysis.wording import counted, listed, size_text, source_text

PER_MESSAGE = (
    "payload_copies", "skb_allocs", "skb_clones", "segments_data", "segments_ack", "lo_packets",
    "softirqs", "wakeups_per_message", "switches_per_message",
)  # fmt: skip
KINDS = {
    "switches_voluntary": "voluntary: went to sleep",
    "switches_involuntary": "involuntary: was preempted",
}
QUANTILES = 400


@dataclass(frozen=True)
class Drawn:
    """A figure, or why there is none (`svg` empty)."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str = ""
    png: bytes = b""


def draw_figures(
    run: Run, ledger: Ledger | None, measured: pd.DataFrame, unsound: set[tuple[str, int]]
) -> tuple[Drawn, ...]:
    """All figures of the run's first ledger, in the order of the report."""
    if ledger is None:
        return ()
    regime = f"{ledger.pattern}, {size_text(ledger.size)}"
    return (
        _ledger(ledger, regime),
        _latency(run, ledger, regime, unsound),
        _switches(ledger, measured, regime),
        _functions(ledger, regime),
    )


def _drawn(
    name: str, title: str, caption: str, alt: str, plot: Callable[..., Any], *data: Any
) -> Drawn:
    svg, png = plots.draw(plot, *data)
    return Drawn(name, title, caption, alt, svg, png)


def _not_drawn(name: str, title: str, lacks: str) -> Drawn:
    return Drawn(name, title, f"Not drawn: this run has {lacks}.", "")


def _from(lines: list[Line]) -> str:
    sources = [source_text(one.instrument, one.lane, one.kernel, one.probed) for one in lines]
    return f"Numbers: {listed(list(dict.fromkeys(sources)))}."


def _best(rows: list[Row]) -> list[tuple[Row, Line]]:
    """Rows with their best line, where that has a sound figure."""
    return [
        (row, row.lines[0])
        for row in rows
        if row.lines and any(entry.sound for entry in row.lines[0].entries.values())
    ]


def _points(lines: list[tuple[str, Line]], placement: str) -> Iterator[Point]:
    for label, line in lines:
        for (where, transport), e in sorted(
            line.entries.items(), key=lambda kv: order(kv[0][1], FIRST_TRANSPORTS)
        ):
            if where == placement and e.sound:
                yield Point(transport, label, e.value, e.low, e.high)


def _ledger(ledger: Ledger, regime: str) -> Drawn:
    title = "What one message costs, in counts"
    best = _best([ledger.row(name) for name in PER_MESSAGE])
    labelled = [(row.measure.words, line) for row, line in best]
    places = list(dict.fromkeys(placement for placement, _ in ledger.columns))
    panels = tuple(
        Panel(place, points) for place in places if (points := tuple(_points(labelled, place)))
    )
    if not panels:
        return _not_drawn("ledger", title, "no sound counts")
    caption = (
        f"Read the line between the two marks: its length is the difference between the transports "
        f"({regime}; copies are per payload byte, all else per message; median over repeats). "
        "Where the marks lie on each other, the transports cost the same. "
        + _from([line for _, line in best])
    )
    alt = f"Dot plot of {counted(len(best), 'count')} per message for each transport, by placement."
    return _drawn("ledger", title, caption, alt, plots.ledger_plot, panels, "per message")


def _latency(run: Run, ledger: Ledger, regime: str, unsound: set[tuple[str, int]]) -> Drawn:
    title = "How long a round trip takes"
    panels: dict[str, list[Times]] = {}
    kernels: list[str] = []
    for lane in run.lanes:
        for cell in lane.cells if lane.lane == "host" else ():
            same = (cell.pattern, cell.size) == (ledger.pattern, ledger.size)
            if same and cell.result and not cell.probed and (lane.folder, cell.id) not in unsound:
                samples = read_samples(lane, cell)
                if len(samples):
                    thin = np.percentile(samples, np.linspace(0, 100, QUANTILES)) / 1000
                    times = Times(cell.transport, cell.repeat, tuple(map(float, thin)))
                    panels.setdefault(cell.placement, []).append(times)
                    kernels.append(lane.kernel)
    if not panels:
        return _not_drawn("latency", title, "no sound, unprobed cell of the host")
    ordered = {
        place: tuple(sorted(panels[place], key=_times_order))
        for place in sorted(panels, key=lambda place: order(place, FIRST_PLACEMENTS))
    }
    caption = (
        f"Each line is one repeat ({regime}): the share of its round trips that took no longer "
        "than x. Lines of one colour that lie on each other say that repeats agree; a step says "
        "that there are two kinds of round trip. The slowest lie further right: the table has p99. "
        f"Numbers: the workload's clock, no probe attached · host · {listed(sorted(set(kernels)))}."
    )
    alt = "Cumulative distribution of round-trip times, one line for each transport and repeat."
    return _drawn("latency", title, caption, alt, plots.cdf_plot, ordered)


def _times_order(times: Times) -> tuple[tuple[int, str], int]:
    return order(times.transport, FIRST_TRANSPORTS), times.repeat


def _switches(ledger: Ledger, measured: pd.DataFrame, regime: str) -> Drawn:
    title = "Context switches of a round trip, repeat by repeat"
    here = (measured["pattern"] == ledger.pattern) & (measured["size"] == ledger.size)
    rows = measured[here & measured["measure"].isin(list(KINDS)) & measured["sound"].astype(bool)]
    if rows.empty:
        return _not_drawn("switches", title, "no sound count of switches")
    measure = MEASURE_BY_ID["switches"]
    groups = [group for _, group in rows.groupby(list(SOURCE), sort=True)]
    best = min(groups, key=lambda group: source_rank(measure, group.iloc[0]))
    panels = tuple(
        Panel(words, tuple(_repeats(best[best["measure"] == kind])))
        for kind, words in KINDS.items()
    )
    first = best.iloc[0]
    source = source_text(first["instrument"], first["lane"], first["kernel"], bool(first["probed"]))
    caption = (
        f"Each mark is one repeat ({regime}), both processes together. Marks of one column "
        f"that form two groups tell of two regimes; their median would hide it. Numbers: {source}."
    )
    alt = "Strip plot of voluntary and involuntary context switches per round trip, by placement."
    return _drawn("switches", title, caption, alt, plots.switches_plot, panels)


def _repeats(rows: pd.DataFrame) -> Iterator[Point]:
    found = [
        (order(str(r.placement), FIRST_PLACEMENTS), order(str(r.transport), FIRST_TRANSPORTS),
         int(str(r.repeat)), float(str(r.value)))
        for r in rows.itertuples()
    ]  # fmt: skip
    for (_, placement), (_, transport), _, value in sorted(found):
        yield Point(transport, placement, value, value, value)


def _functions(ledger: Ledger, regime: str) -> Drawn:
    title = "Kernel functions behind a message"
    best = _best([ledger.row("functions_hit"), ledger.row("function_calls")])
    if not best:
        return _not_drawn("functions", title, "no function trace")
    titles = {"functions_hit": "different functions", "function_calls": "calls of them a message"}
    places = list(dict.fromkeys(placement for placement, _ in ledger.columns))
    panels = []
    for row, line in best:
        points = tuple(point for place in places for point in _points([(place, line)], place))
        panels.append(Panel(titles[row.measure.id], points))
    caption = (
        f"Left, how many different kernel functions ran at least once a round trip; right, how "
        f"often they were called for one message ({regime}). More calls are a longer path, not the "
        "same as more time. " + _from([line for _, line in best])
    )
    alt = "Bars: kernel functions hit and their calls per message, by transport and placement."
    return _drawn("functions", title, caption, alt, plots.functions_plot, tuple(panels))
