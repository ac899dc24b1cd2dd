# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of times: what each shows, its caption, and where its numbers are from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.counts.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, MOST_TOGETHER, Ledger, order
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.times.modes import ITERATIONS
from analysis.times.plots import (
    Bar,
    Curve,
    Label,
    Multiple,
    Panel,
    cdf_plot,
    sizes_plot,
    waterfall_plot,
)
from analysis.times.timing import ITERATION, ROUND_TRIP, Iterations, Times
from analysis.times.waterfall import Parts
from analysis.times.words import REST, STACK_OF, lacking, uneven
from analysis.wording import amount, listed, place, size_text
from probes.transports import read_transports

QUANTILES = 300
FAMILIES = tuple(dict.fromkeys(one.family for one in read_transports().values() if one.family))
GREY = " Grey: unix and tcp, to compare with."
ALL_SIZES = "--target host --sizes 1,64,1K,4K,16K,64K,256K,1M"


def draw_times(
    ledger: Ledger,
    timings: Sequence[Times],
    parts: Sequence[Parts],
    iterations: Iterations,
) -> tuple[Drawn, ...]:
    """The figures of a ledger's pattern and size, in the order of the report."""
    pattern, size = ledger.pattern, ledger.size
    same = [times for times in timings if times.pattern == pattern]
    kernels = sorted({latency.kernel for times in same for latency in times.latencies})
    source = f"Numbers: the workload's clock, no probe attached · host · {listed(kernels)}."
    # The placements that the run was started for.
    requested = {conditions for conditions, _ in ledger.columns}
    shown = [p for p in parts if p.size == size and p.transport in FIRST_TRANSPORTS]
    return (
        _latency(ledger, requested, iterations, same, source),
        _waterfall(shown, source),
        _sizes([times for times in same if times.conditions in requested], source),
    )


def _latency(
    ledger: Ledger, requested: set[str], iterations: Iterations, timings: Sequence[Times],
    source: str,
) -> Drawn:  # fmt: skip
    title = f"How long a {ITERATION.get(ledger.pattern, ROUND_TRIP)} takes"
    pattern, size = ledger.pattern, ledger.size
    here = {key[2:]: repeats for key, repeats in iterations.items() if key[:2] == (pattern, size)}
    if not here:
        return not_drawn("latency", title, "no valid, unprobed cell of the host")
    many = len({transport for _, transport in here}) > MOST_TOGETHER
    share = np.linspace(0, 100, QUANTILES)
    curves = {
        (conditions, name): [
            Curve(name, _floats(np.percentile(times, share) / 1000), _floats(share))
            for times in ([np.concatenate(repeats)] if many else repeats)
        ]
        for (conditions, name), repeats in here.items()
        if not many or conditions in requested
    }
    rows = _multiples(curves, beside_all=many)
    if not many:
        labels = {t.conditions: tuple(_labels(t)) for t in timings if t.size == size}
        rows = [[replace(plot, labels=labels.get(plot.title, ())) for plot in row] for row in rows]
    lines, agree = "repeat", " Lines of one colour that lie on each other: repeats agree."
    if many:
        lines, agree = "transport, its repeats together", ""
    caption = (
        f"Each line is one {lines} ({pattern}, {size_text(size)}): the share of iterations that "
        f"took no longer than x.{agree} A step: two kinds of iteration. A dot is the median, a "
        f"stroke a mode.{GREY if many else ''} The slowest are beyond the right end: the table has "
        "p99. "
        f"{source}"
    )
    alt = "Cumulative distribution of iteration times, for each transport and placement."
    # A row for each point of each line; lines of one transport are numbered.
    points = [
        (plot.title, curve.transport, number, x, y)
        for row in rows
        for plot in row
        for number, curve in enumerate(plot.curves)
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    table = pd.DataFrame(points, columns=["panel", "transport", "line", "us", "percent"])
    axis = "time, µs (log scale)"
    return drawn("latency", title, caption, alt, cdf_plot, rows, axis, data=table)


def _labels(times: Times) -> Iterator[Label]:
    """Of each transport; modes where there are several."""
    for latency in times.latencies:
        if latency.p50:
            text = f"{latency.transport}: median {amount(latency.p50.value, 'ns')}"
            several = latency.modality and latency.modality.several()
            modes = several[1].modes if several else ()
            if several:
                of = "" if several[0] == ITERATIONS else f"; {several[0]}:"
                each = [f"{amount(m.at, 'ns')} {m.share * 100:.0f} %" for m in modes]
                text += f"{of}\n  modes {', '.join(each)}"
            places = tuple(mode.at / 1000 for mode in modes)
            yield Label(latency.transport, latency.p50.value / 1000, places, text)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _multiples(
    curves: Mapping[tuple[str, str], Sequence[Curve]], beside_all: bool
) -> list[list[Multiple]]:
    """A row for each family, or one for all; a column for each of the conditions."""
    places = sorted({place for place, _ in curves}, key=lambda name: order(name, FIRST_PLACEMENTS))
    names = sorted({name for _, name in curves}, key=lambda name: order(name, FIRST_TRANSPORTS))
    groups: dict[str, list[str]] = {}
    for name in names:
        family = read_transports()[name].family or "others"
        groups.setdefault(family if beside_all else "", []).append(name)

    def multiple(place: str, family: str) -> Multiple:
        mine = groups[family]
        beside = [name for name in FIRST_TRANSPORTS if beside_all and name not in mine]
        shown, grey = (
            tuple(curve for name in names for curve in curves.get((place, name), ()))
            for names in (mine, beside)
        )
        return Multiple(f"{place} · {family}" if family else place, shown, grey)

    families = sorted(groups, key=lambda family: order(family, FAMILIES))
    return [[multiple(place, family) for place in places] for family in families]


def _sizes(timings: Sequence[Times], source: str) -> Drawn:
    title = "The median by message size"
    table = pd.DataFrame(
        [
            (times.conditions, latency.transport, times.size, spread.value, spread.low,
             spread.high, spread.repeats)
            for times in timings
            for latency in times.latencies
            if (spread := latency.p50)
        ],
        columns=["conditions", "transport", "bytes", "p50_ns", "low_ns", "high_ns", "repeats"],
    )  # fmt: skip
    if table["bytes"].nunique() < 2:
        return not_drawn("sizes", title, f"one message size; {ALL_SIZES} gives the whole range")
    curves: dict[tuple[str, str], list[Curve]] = {}
    for (where, name), rows in table.sort_values("bytes").groupby(["conditions", "transport"]):
        ends = rows[["p50_ns", "low_ns", "high_ns"]].astype(float) / 1000
        ends = ends.T.fillna(ends["p50_ns"]).T  # no interval, no band
        micro = [_floats(ends[column]) for column in ends]
        curves[str(where), str(name)] = [Curve(str(name), _floats(rows["bytes"]), *micro)]
    many = table["transport"].nunique() > MOST_TOGETHER
    p50 = f"p50 of a {timings[0].iteration}"
    caption = (
        f"{p50} against the payload, both logarithmic; the band is the 95 % interval of the mean "
        "over repeats. Flat: what a message costs whatever it carries. Rising along a diagonal: "
        "the bytes are what costs. A line that ends early: the transport carries no larger "
        f"message, see what is missing.{GREY if many else ''} {source}"
    )
    alt = f"{p50} by message size for each transport, by placement."
    multiples = _multiples(curves, beside_all=many)
    return drawn("sizes", title, caption, alt, sizes_plot, multiples, f"{p50}, µs", data=table)


def _waterfall(parts: Sequence[Parts], source: str) -> Drawn:
    title = "What the time of a message is made of"
    whole = [part for part in parts if part.stack and part.rest]
    alone = [part for part in parts if not part.than]
    why = [text for part in alone for text in (uneven(part), lacking(part)) if text]
    if not whole:
        none = not_drawn("waterfall", title, "not the cells for it")
        return replace(none, caption=" ".join([none.caption, *why]))
    rows = [
        [_panel(part) for part in whole if part.placement == placement]
        for placement in dict.fromkeys(part.placement for part in whole)
    ]
    cells = "; ".join(f"{place(where)}, the stack is {words}" for where, words in STACK_OF.items())
    caption = " ".join(
        [
            f"What a message of {size_text(whole[0].size)} takes, by cells that differ in one "
            f"thing: {cells}; below it, what the usual pair takes longer. A bar begins where the "
            "one above ends; a green one shortens the time. The difference has an axis of its own. "
            "Black: 95 % interval, where there are repeats enough.",
            *why,
            source,
        ]
    )
    table = pd.DataFrame(
        [
            (p.placement, p.transport, p.than, p.size, name, e.value, e.low, e.high, e.repeats)
            for p in parts
            for name, e in (("total", p.total), ("stack", p.stack), ("rest", p.rest))
            if e
        ],
        columns=[
            *("placement", "transport", "than", "bytes", "part"),
            *("ns", "low_ns", "high_ns", "repeats"),
        ],
    )
    names = listed(list(dict.fromkeys(part.transport for part in whole)))
    alt = f"Stack, and switching or sleeping, of a message's time for {names}."
    return drawn("waterfall", title, caption, alt, waterfall_plot, rows, data=table)


def _panel(part: Parts) -> Panel:
    title = f"{part.transport} minus {part.than}" if part.than else part.transport
    bars: list[Bar] = []
    labels = (f"stack, {place(part.placement)}", REST[part.placement])
    for label, figure in zip(labels, (part.stack, part.rest), strict=True):
        if figure:
            start = bars[-1].end if bars else 0.0
            ends = [
                None if end is None else start + end / 1000 for end in (figure.low, figure.high)
            ]
            text = amount(figure.value, "ns")
            bars.append(Bar(label, start, start + figure.value / 1000, text, *ends))
    return Panel(title, "" if part.than else part.transport, tuple(bars))
