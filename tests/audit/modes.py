# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a cell's iterations gather, by a histogram of our own: rougher than the report's test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from tests.audit import workload
from tests.audit.cells import conditions
from tests.audit.screen import Screen

WIDTH = 0.02  # of a bin, in logarithms: 2 %
NEAR = 0.06  # how far a printed mode may lie from our peak
DEEP = 0.8  # of the lower peak: where two modes may be parted
ROUGH = 1.5  # percent: printed shares are rounded, and of a sample


def wrong(
    screen: Screen, transport: str, where: str, places: Sequence[float],
    shares: Sequence[int | None],
) -> Iterator[str]:  # fmt: skip
    """A sentence for each printed mode that is no peak, and for shares that no valley gives."""
    times, bins = _gathered(screen, transport, where)
    for place in places:
        inside = [n for n in bins if abs(n * WIDTH - math.log(place)) <= 2 * NEAR]
        peak = max(inside, key=lambda n: bins[n], default=0) * WIDTH
        if abs(peak - math.log(place)) > NEAR:
            yield f"{transport}, {where}: no mode at {place:.4g} ns"
    below = 0
    for (low, high), share in zip(pairwise(places), shares, strict=False):
        if share is None:
            return
        below += share
        least, most = _possible(times, bins, low, high)
        if not least - ROUGH <= below <= most + ROUGH:
            yield (
                f"{transport}, {where}: {below} % below the valley between {low:.4g} and "
                f"{high:.4g} ns, and we count {least:.0f} to {most:.0f} %"
            )


def _possible(
    times: Sequence[int], bins: dict[int, float], low: float, high: float
) -> tuple[float, float]:
    """Percent of the iterations below the first and the last place that may part two modes."""
    between = range(round(math.log(low) / WIDTH), round(math.log(high) / WIDTH) + 1)
    limit = DEEP * min(bins.get(between[0], 0), bins.get(between[-1], 0))
    valley = [n for n in between if bins.get(n, 0) <= limit] or list(between)
    ends = (math.exp(valley[0] * WIDTH), math.exp(valley[-1] * WIDTH))
    first, last = (100 * sum(t < end for t in times) / len(times) for end in ends)
    return first, last


@cache
def _gathered(screen: Screen, transport: str, where: str) -> tuple[list[int], dict[int, float]]:
    """The iterations, and how many there are around each place."""
    times = _iterations(screen, transport, where)
    return times, _smooth(_histogram(times))


def _iterations(screen: Screen, transport: str, where: str) -> list[int]:
    """The samples of the valid, unprobed cells on the host."""
    rows = screen.select(target="host", probed=False, transport=transport, quantity="rtt_ns")
    valid = {row.cell for row in rows}
    found: list[int] = []
    for target in screen.folder.manifest["targets"]:
        for cell in screen.folder.lines(target["folder"], "cells.jsonl"):
            if (
                target["kind"] == "host"
                and cell["id"] in valid
                and cell["pattern"] == screen.pattern
                and conditions(cell) == where
            ):
                found += workload.samples(screen.folder.raw / target["folder"], cell)
    return found


def _histogram(times: Sequence[int]) -> dict[int, float]:
    bins: dict[int, float] = {}
    for time in times:
        number = round(math.log(max(time, 1)) / WIDTH)
        bins[number] = bins.get(number, 0) + 1
    return bins


def _smooth(bins: dict[int, float]) -> dict[int, float]:
    """Each bin with its neighbours, the nearer the more."""
    weights = {0: 3, 1: 2, -1: 2, 2: 1, -2: 1}
    near = {number + step for number in bins for step in weights}
    return {n: sum(w * bins.get(n + step, 0) for step, w in weights.items()) for n in near}
