# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of times: what each shows, its caption, and where its numbers are from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.counts.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, MOST_TOGETHER, Ledger, order
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.times.iterations import Iterations, Key
from analysis.times.plots import (
    Bar,
    Curve,
    Multiple,
    cdf_plot,
    sizes_plot,
    waterfall_plot,
)
from analysis.times.timing import ITERATION, ROUND_TRIP, Timing
from analysis.times.waterfall import CELLS, PATH, Decomposition, Gap, Part, Waterfall
from analysis.times.words import STEPS, lacking, uneven
from analysis.wording import amount, listed, size_text

QUANTILES = 300
FAMILIES = {
    "Unix sockets": (
        *("unix", "unix-abstract", "unix-pair", "unix-dgram", "unix-seqpacket", "uring-unix"),
    ),
    "TCP": ("tcp", "tcp-nagle", "tcp6", "tcp-sockmap", "tcp-zerocopy", "uring-tcp"),
    "pipes, queues, UDP": ("pipe", "fifo", "mq", "udp", "vsock"),
    "shared memory": ("shm", "shm-spin"),
}
ELSE = "others"
ALL_SIZES = "--target host --sizes 1,64,1K,4K,16K,64K,256K,1M"


def draw_times(
    ledger: Ledger,
    timings: Sequence[Timing],
    parts: Sequence[Decomposition],
    iterations: Mapping[Key, Sequence[Iterations]],
) -> tuple[Drawn, ...]:
    """The figures of a ledger's pattern and size, in the order of the report."""
    pattern, size = ledger.pattern, ledger.size
    same = [one for one in timings if one.pattern == pattern]
    kernels = sorted({one.kernel for timing in same for one in timing.latencies})
    source = f"Numbers: the workload's clock, no probe attached · host · {listed(kernels)}."
    decomposed = next((one for one in parts if one.size == size), None)
    return (
        _latency(ledger, iterations, source),
        _waterfall(decomposed, source),
        _sizes([one for one in same if one.placement in _places(ledger)], source),
    )


def _latency(ledger: Ledger, iterations: Mapping[Key, Sequence[Iterations]], source: str) -> Drawn:
    title = f"How long a {ITERATION.get(ledger.pattern, ROUND_TRIP)} takes"
    pattern, size = ledger.pattern, ledger.size
    here = {key[2:]: repeats for key, repeats in iterations.items() if key[:2] == (pattern, size)}
    if not here:
        return not_drawn("latency", title, "no valid, unprobed cell of the host")
    many = len({transport for _, transport in here}) > MOST_TOGETHER
    curves = {
        where: _cumulated(where[1], repeats, many)
        for where, repeats in here.items()
        if not many or where[0] in _places(ledger)
    }
    rows = _multiples(curves, beside_all=many)
    caption = f"{_latency_caption(pattern, size_text(size), many)} {source}"
    alt = "Cumulative distribution of iteration times, for each transport and placement."
    axis = "time, µs (log scale)"
    return drawn("latency", title, caption, alt, cdf_plot, rows, axis, data=_curves_table(rows))


def _latency_caption(pattern: str, size: str, many: bool) -> str:
    lines, agree = "repeat", " Lines of one colour that lie on each other: repeats agree."
    if many:
        lines, agree = "transport, its repeats together", ""
    return " ".join(
        [
            f"Each line is one {lines} ({pattern}, {size}): the share of iterations that took no "
            f"longer than x.{agree} A step: two kinds of iteration, named in the table of ratios.",
            *_grey(many),
            "The slowest lie further right: the table has p99.",
        ]
    )


def _cumulated(transport: str, repeats: Sequence[Iterations], together: bool) -> list[Curve]:
    every = [one.times for one in repeats]
    share = np.linspace(0, 100, QUANTILES)
    return [
        Curve(transport, _floats(np.percentile(times, share) / 1000), _floats(share))
        for times in ([np.concatenate(every)] if together else every)
    ]


def _curves_table(rows: Sequence[Sequence[Multiple]]) -> pd.DataFrame:
    """A row for each point of each line; lines of one transport are numbered."""
    points = [
        (plot.title, curve.transport, number, x, y)
        for row in rows
        for plot in row
        for number, curve in enumerate(plot.curves)
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    return pd.DataFrame(points, columns=["panel", "transport", "line", "us", "percent"])


def _places(ledger: Ledger) -> set[str]:
    """The placements that somebody asked for."""
    return {place for place, _ in ledger.columns}


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _grey(many: bool) -> list[str]:
    return ["Grey: unix and tcp, to compare with."] if many else []


def _multiples(
    curves: Mapping[tuple[str, str], Sequence[Curve]], beside_all: bool
) -> list[list[Multiple]]:
    """A row for each family, or one for all; a column for each placement."""
    places = sorted({place for place, _ in curves}, key=lambda name: order(name, FIRST_PLACEMENTS))
    names = sorted({name for _, name in curves}, key=lambda name: order(name, FIRST_TRANSPORTS))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_family(name) if beside_all else "", []).append(name)
    listing = sorted(groups, key=lambda family: order(family, tuple(FAMILIES)))
    return [
        [
            Multiple(
                f"{place} · {family}" if family else place,
                tuple(c for name in groups[family] for c in curves.get((place, name), ())),
                tuple(
                    c
                    for name in FIRST_TRANSPORTS
                    if beside_all and name not in groups[family]
                    for c in curves.get((place, name), ())
                ),
            )
            for place in places
        ]
        for family in listing
    ]


def _family(transport: str) -> str:
    return next((family for family, names in FAMILIES.items() if transport in names), ELSE)


def _sizes(timings: Sequence[Timing], source: str) -> Drawn:
    title = "The median by message size"
    table = pd.DataFrame(
        [
            (timing.placement, one.transport, timing.size, one.p50.value, one.p50.low, one.p50.high,
             one.p50.repeats)
            for timing in timings
            for one in timing.latencies
            if one.p50
        ],
        columns=["placement", "transport", "bytes", "p50_ns", "low_ns", "high_ns", "repeats"],
    )  # fmt: skip
    if table["bytes"].nunique() < 2:
        return not_drawn("sizes", title, f"one message size; {ALL_SIZES} gives the whole range")
    curves = {
        (str(place), str(name)): [_curve(str(name), rows.sort_values("bytes"))]
        for (place, name), rows in table.groupby(["placement", "transport"])
    }
    many = table["transport"].nunique() > MOST_TOGETHER
    p50 = f"p50 of a {timings[0].iteration}"
    read = (
        f"{p50} against the payload, both logarithmic; the band spans the repeats. Flat: what a "
        "message costs whatever it carries. Rising along a diagonal: the bytes are what costs. A "
        "line that ends early: the transport carries no larger message, see what is missing."
    )
    caption = " ".join([read, *_grey(many), source])
    alt = f"{p50} by message size for each transport, by placement."
    rows = _multiples(curves, beside_all=many)
    return drawn("sizes", title, caption, alt, sizes_plot, rows, f"{p50}, µs", data=table)


def _curve(transport: str, rows: pd.DataFrame) -> Curve:
    micro: Callable[[str], tuple[float, ...]] = lambda name: _floats(rows[name] / 1000)  # noqa: E731
    return Curve(
        transport, _floats(rows["bytes"]), micro("p50_ns"), micro("low_ns"), micro("high_ns")
    )


def _waterfall(one: Decomposition | None, source: str) -> Drawn:
    title = "What the time of a message is made of"
    complete = [w for w in one.waterfalls if len(w.steps) > 1] if one else []
    short = (
        [w for w in one.waterfalls if w.missing and w.transport in FIRST_TRANSPORTS] if one else []
    )
    if one is None or not complete:
        none = not_drawn("waterfall", title, "not the cells for it")
        why = [lacking(w, one.size) for w in short] if one else []
        return replace(none, caption=" ".join([none.caption, *why]))
    shown = complete[:2]
    panels = {w.transport: _bars(w.steps) for w in shown}
    gaps = [g for g in one.gaps if [g.than, g.transport] == [w.transport for w in shown]]
    panels |= {f"{gap.transport} minus {gap.than}": _gap_bars(gap) for gap in gaps}
    panels |= {w.transport: _bars(w.steps) for w in complete[2:]}
    caption = " ".join(
        [
            _waterfall_caption(one.size),
            *(text for w in complete if (text := uneven(w))),
            *(lacking(w, one.size) for w in short),
            source,
        ]
    )
    table = pd.DataFrame(
        [row for w in one.waterfalls for row in _rows(w)],
        columns=["transport", "bytes", "part", "kind", "ns", "low_ns", "high_ns", "repeats"],
    ).assign(bytes=one.size)
    names = listed([w.transport for w in complete])
    alt = f"Waterfall of a message's time for {names}."
    return drawn("waterfall", title, caption, alt, waterfall_plot, panels, data=table)


def _waterfall_caption(size: int) -> str:
    steps = "; ".join(f"“{step}”: {cells}" for step, cells in (STEPS[name] for name in CELLS))
    return (
        f"Read from top to bottom ({size_text(size)}): each bar is what one more difference "
        "between two cells costs a message, and begins where the one above ends. "
        f"{steps}. A round trip is two messages. Black: 95 % interval, where there are repeats "
        "enough."
    )


def _bars(steps: Mapping[str, Part]) -> tuple[Bar, ...]:
    bars: list[Bar] = []
    for name, step in steps.items():
        start = bars[-1].end if bars else 0.0
        ends = [None if end is None else start + end / 1000 for end in (step.low, step.high)]
        words, text = STEPS[name][0], amount(step.value, "ns")
        bars.append(Bar(words, start, start + step.value / 1000, text, *ends))
    return tuple(bars)


def _gap_bars(gap: Gap) -> tuple[Bar, ...]:
    bars = _bars(gap.parts)
    if PATH in gap.parts:
        return bars
    first = bars[0]
    return (replace(first, text=f"{first.text} with path"), *bars[1:])


def _rows(waterfall: Waterfall) -> list[tuple[object, ...]]:
    return [
        (waterfall.transport, 0, name, kind, part.value, part.low, part.high, waterfall.repeats)
        for kind, parts in (("level", waterfall.levels), ("step", waterfall.steps))
        for name, part in parts.items()
    ]
