# SPDX-License-Identifier: GPL-2.0-or-later
"""How figures are written."""

import pytest

from analysis.machine import kernel_text
from analysis.statistics import Estimate
from analysis.wording import amount, extent, listed, number, size_text, spanned


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (0.0001, "<0.001"), (0.004, "0.004"), (1, "1.00")),
        *((17.17, "17.2"), (1717, "1,717"), (-17.17, "\N{MINUS SIGN}17.2")),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_amounts_and_lists() -> None:
    assert amount(-1500, "ns") == "\N{MINUS SIGN}1.50 µs"
    assert amount(1717, "1/s") == "1,717"
    assert [size_text(n) for n in (64, 1500, 4096, 1 << 20)] == ["64 B", "1500 B", "4 KiB", "1 MiB"]
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_a_range_has_its_unit_once() -> None:
    assert extent(1000, 2000, "ns") == "1.00\N{EN DASH}2.00 µs"
    assert extent(-1000, 2e6, "ns") == "\N{MINUS SIGN}1.00 µs to 2.00 ms"
    assert spanned(Estimate(1500, 1000, 2000), "ns") == "1.50 µs (1.00\N{EN DASH}2.00)"
    assert spanned(Estimate(1500, 500, 2000), "ns") == "1.50 µs (500 ns\N{EN DASH}2.00 µs)"
    assert spanned(Estimate(1500, 1500.1, 1500.2), "ns") == "1.50 µs"
    assert [extent(1.001, 1.002), extent(0, 0.0001), extent(0, 0)] == ["1.00", "<0.001", "0"]


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("6.12.118+deb13-cloud-amd64", "Linux 6.12.118"),
        ("6.12.118+deb13-cloud-arm64", "Linux 6.12.118 for arm64"),
        ("6.12.118+deb13-arm64", "Linux 6.12.118-arm64"),
        ("6.12.118+deb13-arm64-16k", "Linux 6.12.118-arm64-16k"),
        ("6.9.0-mine", "Linux 6.9.0"),
    ],
)
def test_kernels_of_one_version_have_names_of_their_own(release: str, text: str) -> None:
    assert kernel_text(release) == text
