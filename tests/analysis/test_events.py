# SPDX-License-Identifier: GPL-2.0-or-later
"""Prices of events, from cells whose times are made of known prices."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from analysis.raw.programs import PriceList
from analysis.times.events import BLIND_RATIOS, TOLD_TIMES, EventPrices, MachinePrices, fitted
from probes.messages import UsageError

NAMES = ("instructions", "string_bytes", "switches")
TRUE = {"instructions": 0.4, "string_bytes": 0.02, "switches": 500.0}
CELLS = [
    {"instructions": 4_000 + 3_000 * n, "string_bytes": 10_000 * (n % 3), "switches": 2 * (n % 2)}
    for n in range(12)
]


def time_of(events: dict[str, int]) -> float:
    return sum(TRUE[name] * count for name, count in events.items())


def noisy(seed: int) -> EventPrices:
    noise = np.random.default_rng(seed).normal(1, 0.05, len(CELLS))
    cells = [(events, time_of(events) * by) for events, by in zip(CELLS, noise, strict=True)]
    return fitted(cells, NAMES)


def test_prices_and_the_parts_of_a_time() -> None:
    prices = fitted([(events, time_of(events)) for events in CELLS], NAMES)
    assert dict(zip(prices.names, prices.values, strict=True)) == pytest.approx(TRUE)
    events = {"instructions": 10_000, "switches": 2}
    assert prices.parts(events) == pytest.approx(
        {"instructions": 4_000, "string_bytes": 0, "switches": 1_000}
    )
    assert prices.tell(events).value == pytest.approx(5_000)


def test_intervals_hold_times_and_prices() -> None:
    """Of 200 machines, whose cells are off by 5 %."""
    asked = {"instructions": 20_000, "string_bytes": 5_000, "switches": 2}
    noise = np.random.default_rng(7).normal(1, 0.05, 200)
    held, priced = 0, 0
    for seed, by in enumerate(noise):
        low, high = noisy(seed).tell(asked).ends
        held += low <= time_of(asked) * by <= high
        low, high = noisy(seed).price("instructions").ends
        priced += low <= TRUE["instructions"] <= high
    assert 180 <= held <= 199
    assert 180 <= priced <= 199


def test_no_price_is_below_nothing() -> None:
    cheap = [(events, 0.4 * events["instructions"] - 100 * events["switches"]) for events in CELLS]
    prices = fitted(cheap, NAMES)
    assert (prices.values >= 0).all()
    assert prices.values[NAMES.index("switches")] == 0


def price_list(**changes: Any) -> dict[str, Any]:
    """Cells made of known prices: an instruction of 0.4 ns, on two CPUs twice as dear, and 9 µs for
    a hand-over."""
    cells: list[dict[str, Any]] = []
    for events, placement in product(CELLS, ("same-cpu", "cross-cpu")):
        ns = time_of(events)
        if placement == "same-cpu":
            kinds = {"executed": events}
        else:
            ns = 2 * ns + 2 * 9000
            kinds = {"executed": events, "busy": events, "path": events | {"hand_overs": 2}}
        times = {name: [ns / 1000] for name in ("iteration_us", "median_us", "client_cpu_us")}
        names = {"transport": "pipe", "pattern": "pingpong", "size": 64, "placement": placement}
        cells.append(names | times | {"server_cpu_us": [0.0], "events": kinds} | changes)
    return {"format": 3, "measured": 1, "kernel": "6.12", "cells": cells, "fingerprint": {}}


def machine_prices(**changes: Any) -> MachinePrices:
    return MachinePrices(PriceList.model_validate_json(json.dumps(price_list(**changes))))


def test_times_on_one_cpu_and_on_two() -> None:
    machine = machine_prices()
    events = {"instructions": 10_000, "string_bytes": 1000, "switches": 2}
    path = time_of(events)
    assert machine.tell("one CPU", events).value == pytest.approx(path)
    for name in ("two CPUs", "CPU time on two"):
        told = machine.tell(name, events | {"hand_overs": 2}).value
        assert told == pytest.approx(2 * path + 2 * 9000)


def test_an_interval_is_never_narrower_than_blind_errors_were() -> None:
    events = {"instructions": 10_000, "hand_overs": 2}
    for name in TOLD_TIMES:
        told = machine_prices().tell(name, events)
        low, high = told.ends
        least, most = BLIND_RATIOS[name]
        assert low <= least * told.value < most * told.value <= high


def test_no_price_without_counts() -> None:
    with pytest.raises(UsageError, match="exact --priced"):
        machine_prices(events=None)


def test_too_few_cells_for_the_prices() -> None:
    with pytest.raises(UsageError, match="3 cells are too few for 3 prices"):
        fitted([(events, 1.0) for events in CELLS[:3]], NAMES)
