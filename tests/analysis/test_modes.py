# SPDX-License-Identifier: GPL-2.0-or-later
"""Modes of made-up times: what is there is named, and what is not there is not."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy.signal import find_peaks

from analysis.times.modes import DEEPEST_VALLEY, ITERATIONS, Modes, _Density, find_modes, modality

Times = npt.NDArray[np.float64]
COUNT = 20_000


def lognormal(at: float, count: int, seed: int, spread: float = 0.05) -> Times:
    """Times around `at` nanoseconds, with the long right tail that times have."""
    chance = np.random.default_rng(seed)
    times = at * np.exp(chance.normal(0, spread, count))
    times[::400] *= 5  # hiccups
    return times


def mixed(first: Times, second: Times) -> Times:
    both = np.concatenate([first, second])
    np.random.default_rng(5).shuffle(both)
    return both


def modes(times: Times) -> Modes:
    found = find_modes(times)
    assert found is not None
    return found


@pytest.mark.parametrize("tick", [1, 10, 42, 100])
def test_one_mode_whatever_the_clock_ticks(tick: int) -> None:
    """10 µs read from a clock that ticks every 100 ns is a comb of a dozen values, and one mode."""
    times = np.round(lognormal(10_000, COUNT, 1, spread=0.03) / tick) * tick
    assert modes(times).words() == "one mode"


def test_one_mode_with_a_shoulder() -> None:
    """5 % apart: the dip test of 20,000 values may see it, and no reader needs it."""
    times = mixed(lognormal(13_400, 12_000, 1, 0.004), lognormal(14_000, 8_000, 2, 0.004))
    found = modes(times)
    assert found.p < 0.01
    assert found.words() == "one mode"


def test_two_modes_are_named_with_their_shares() -> None:
    found = modes(mixed(lognormal(22_000, 12_200, 1), lognormal(41_000, 7_800, 2)))
    first, second = found.modes
    assert first.at == pytest.approx(22_000, rel=0.02)
    assert second.at == pytest.approx(41_000, rel=0.02)
    assert found.words().startswith("2 modes at 2")
    assert "µs (61 %) and 4" in found.words()
    assert found.words().endswith("µs (39 %)")


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
def test_peaks_are_scipys(spread: float) -> None:
    found = 0
    for seed in range(30):
        chance = np.random.default_rng(seed)
        centres = chance.normal(0, 0.5, 4)
        logs = chance.choice(centres, 300) + chance.normal(0, spread, 300)
        density = _Density(logs, 0.03)
        heights, apart = density.heights, np.log(1.1) / density._step
        peaks, facts = find_peaks(heights, distance=np.ceil(max(apart, 1)), prominence=0)
        deep = facts["prominences"] > (1 - DEEPEST_VALLEY) * heights[peaks]
        assert density.deep_peaks() == list(peaks[deep])
        found += deep.sum()
    assert found > 30


def test_how_the_modes_alternate() -> None:
    low = [lognormal(22_000, 5_000, seed, 0.02) for seed in range(3)]
    high = [lognormal(41_000, 5_000, seed, 0.02) for seed in range(3, 6)]
    halves = [np.concatenate(pair) for pair in zip(low, high, strict=True)]
    shuffled = [mixed(*pair) for pair in zip(low, high, strict=True)]
    for repeats, rhythm in (
        ([*low, *high], "from repeat to repeat"),
        (halves, "in blocks of 256 iterations or more"),
        (shuffled, "from iteration to iteration"),
    ):
        found = modality(repeats)
        assert found is not None
        modes = found.modes[ITERATIONS]
        assert modes is not None and len(modes.modes) == 2
        assert found.words().endswith(rhythm)


def test_repeats_that_form_two_groups() -> None:
    """Medians of repeats are tested as well: three at 22 µs and three at 41."""
    repeats = [lognormal(at, 5_000, at, 0.02) for at in (22_000, 22_100, 22_200, 41_000, 41_100)]
    repeats.append(lognormal(41_200, 5_000, 6, 0.02))
    found = modality(repeats)
    assert found is not None
    modes = found.modes["medians of repeats"]
    assert modes is not None
    assert [mode.share for mode in modes.modes] == [0.5, 0.5]


def test_an_outlier_stands_alone() -> None:
    usual = [lognormal(22_000, 1_000, seed, 0.005) for seed in range(15)]
    far = [lognormal(at, 1_000, at, 0.005) for at in (30_000, 40_000, 50_000, 60_000, 70_000)]
    for more, words in ((far[:1], "outlier: repeat 16 of 16"), (far, "5 of 20 repeats lie apart")):
        found = modality([*usual, *more])
        assert found is not None
        (clause,) = found.outliers
        assert clause.startswith(words)
