# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of times: what each shows, its caption, and where its numbers are from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.counts.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, MOST_TOGETHER, Ledger, order
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.times.plots import Bar, Curve, Multiple, cdf_plot, sizes_plot, waterfall_plot
from analysis.times.timing import ITERATION, ROUND_TRIP, Iterations, Times
from analysis.times.waterfall import CELLS, PATH, Decomposition, Gap, Part
from analysis.times.words import STEPS, lacking, uneven
from analysis.wording import amount, listed, size_text

QUANTILES = 300
FAMILIES = {
    "Unix sockets": (
        "unix", "unix-abstract", "unix-pair", "unix-dgram", "unix-seqpacket", "uring-unix",
    ),
    "TCP": ("tcp", "tcp-nagle", "tcp6", "tcp-sockmap", "tcp-zerocopy", "uring-tcp"),
    "pipes, queues, UDP": ("pipe", "fifo", "mq", "udp", "vsock"),
    "shared memory": ("shm", "shm-spin"),
}  # fmt: skip
GREY = " Grey: unix and tcp, to compare with."
ALL_SIZES = "--target host --sizes 1,64,1K,4K,16K,64K,256K,1M"


def draw_times(
    ledger: Ledger,
    timings: Sequence[Times],
    parts: Sequence[Decomposition],
    iterations: Iterations,
) -> tuple[Drawn, ...]:
    """The figures of a ledger's pattern and size, in the order of the report."""
    pattern, size = ledger.pattern, ledger.size
    same = [times for times in timings if times.pattern == pattern]
    kernels = sorted({latency.kernel for times in same for latency in times.latencies})
    source = f"Numbers: the workload's clock, no probe attached · host · {listed(kernels)}."
    # The placements that the run was started for.
    requested = {conditions for conditions, _ in ledger.columns}
    decomposed = next((part for part in parts if part.size == size), None)
    return (
        _latency(ledger, requested, iterations, source),
        _waterfall(decomposed, source),
        _sizes([times for times in same if times.conditions in requested], source),
    )


def _latency(ledger: Ledger, requested: set[str], iterations: Iterations, source: str) -> Drawn:
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
    lines, agree = "repeat", " Lines of one colour that lie on each other: repeats agree."
    if many:
        lines, agree = "transport, its repeats together", ""
    caption = (
        f"Each line is one {lines} ({pattern}, {size_text(size)}): the share of iterations that "
        f"took no longer than x.{agree} A step: two kinds of iteration, named in the table of "
        f"ratios.{GREY if many else ''} The slowest lie further right: the table has p99. {source}"
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
        family = next((family for family, names in FAMILIES.items() if name in names), "others")
        groups.setdefault(family if beside_all else "", []).append(name)

    def multiple(place: str, family: str) -> Multiple:
        mine = groups[family]
        beside = [name for name in FIRST_TRANSPORTS if beside_all and name not in mine]
        shown, grey = (
            tuple(curve for name in names for curve in curves.get((place, name), ()))
            for names in (mine, beside)
        )
        return Multiple(f"{place} · {family}" if family else place, shown, grey)

    families = sorted(groups, key=lambda family: order(family, tuple(FAMILIES)))
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
    for (place, name), rows in table.sort_values("bytes").groupby(["conditions", "transport"]):
        micro = [_floats(rows[column] / 1000) for column in ("p50_ns", "low_ns", "high_ns")]
        curves[str(place), str(name)] = [Curve(str(name), _floats(rows["bytes"]), *micro)]
    many = table["transport"].nunique() > MOST_TOGETHER
    p50 = f"p50 of a {timings[0].iteration}"
    caption = (
        f"{p50} against the payload, both logarithmic; the band spans the repeats. Flat: what a "
        "message costs whatever it carries. Rising along a diagonal: the bytes are what costs. A "
        "line that ends early: the transport carries no larger message, see what is missing."
        f"{GREY if many else ''} {source}"
    )
    alt = f"{p50} by message size for each transport, by placement."
    multiples = _multiples(curves, beside_all=many)
    return drawn("sizes", title, caption, alt, sizes_plot, multiples, f"{p50}, µs", data=table)


def _waterfall(decomposed: Decomposition | None, source: str) -> Drawn:
    title = "What the time of a message is made of"
    waterfalls = decomposed.waterfalls if decomposed else ()
    complete = [w for w in waterfalls if len(w.steps) > 1]
    short = [w for w in waterfalls if w.missing and w.transport in FIRST_TRANSPORTS]
    if decomposed is None or not complete:
        none = not_drawn("waterfall", title, "not the cells for it")
        why = [lacking(w, decomposed.size) for w in short] if decomposed else []
        return replace(none, caption=" ".join([none.caption, *why]))
    size, shown = decomposed.size, complete[:2]
    panels = {w.transport: _bars(w.steps) for w in shown}
    gaps = [g for g in decomposed.gaps if [g.than, g.transport] == [w.transport for w in shown]]
    panels |= {f"{gap.transport} minus {gap.than}": _gap_bars(gap) for gap in gaps}
    panels |= {w.transport: _bars(w.steps) for w in complete[2:]}
    steps = "; ".join(f"“{step}”: {cells}" for step, cells in (STEPS[name] for name in CELLS))
    caption = " ".join(
        [
            f"Read from top to bottom ({size_text(size)}): each bar is what one more difference "
            "between two cells costs a message, and begins where the one above ends. "
            f"{steps}. A round trip is two messages. Black: 95 % interval, where there are repeats "
            "enough.",
            *(text for w in complete if (text := uneven(w))),
            *(lacking(w, size) for w in short),
            source,
        ]
    )
    table = pd.DataFrame(
        [
            (w.transport, size, name, kind, part.value, part.low, part.high, w.repeats)
            for w in waterfalls
            for kind, parts in (("level", w.levels), ("step", w.steps))
            for name, part in parts.items()
        ],
        columns=["transport", "bytes", "part", "kind", "ns", "low_ns", "high_ns", "repeats"],
    )
    names = listed([w.transport for w in complete])
    alt = f"Waterfall of a message's time for {names}."
    return drawn("waterfall", title, caption, alt, waterfall_plot, panels, data=table)


def _bars(steps: Mapping[str, Part]) -> tuple[Bar, ...]:
    bars: list[Bar] = []
    for name, step in steps.items():
        start = bars[-1].end if bars else 0.0
        ends = [None if end is None else start + end / 1000 for end in (step.low, step.high)]
        words, text = STEPS[name][0], amount(step.value, "ns")
        bars.append(Bar(words, start, start + step.value / 1000, text, *ends))
    return tuple(bars)


def _gap_bars(gap: Gap) -> tuple[Bar, ...]:
    first, *others = _bars(gap.parts)
    text = first.text if PATH in gap.parts else f"{first.text} with path"
    return (replace(first, text=text), *others)
