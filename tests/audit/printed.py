# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as the report prints them: read back, with the precision that they were printed at."""

from __future__ import annotations

import re
from typing import NamedTuple

MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"
NUMBER = rf"[{MINUS}+]?<?\d(?:\d|,\d)*(?:\.\d+)?"
UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
TIME = rf"{NUMBER} (?:ns|µs|ms|s)\b"
# `950 ns to 4.56 µs`; `8.42 to 16.0`, in the unit of the figure before it.
ENDS = rf"{NUMBER}(?: (?:ns|µs|ms|s))? to {NUMBER}(?: (?:ns|µs|ms|s))?"
EXACT = 1e-9  # what two ways of computing a figure may differ by


class Printed(NamedTuple):
    """A figure in nanoseconds, or without a unit, and half of its last digit."""

    value: float
    half: float

    def fits(self, value: float | None) -> bool:
        """Whether a figure would be printed so."""
        if value is None:
            return False
        return abs(value - self.value) <= self.half * (1 + 1e-6) + EXACT * abs(value)

    @property
    def ends(self) -> tuple[float, float]:
        """What it may have been rounded from."""
        return self.value - self.half, self.value + self.half


def parse(text: str, unit: str = "") -> Printed:
    """`9.72 µs`, `+285 ns`, `7,964`, `1.54`; `unit` where the text has none."""
    number, _, own = text.strip().partition(" ")
    scale = UNITS.get(own or unit, 1.0)
    digits = number.lstrip(f"{MINUS}+<").replace(",", "")
    sign = -1 if number.startswith(MINUS) else 1
    decimals = len(digits.partition(".")[2])
    if number.startswith("<"):  # `<0.001` stands for all from 0 on
        return Printed(float(digits) / 2 * scale, float(digits) / 2 * scale)
    return Printed(sign * float(digits) * scale, 0.5 * 10**-decimals * scale)


def parse_ends(text: str, unit: str = "") -> tuple[Printed, Printed]:
    """`8.42 to 16.0`, with the unit of the figure before it."""
    low, high = text.split(" to ")
    return parse(low, unit), parse(high, unit)


def unit_of(text: str) -> str:
    """The unit of a figure; empty where it has none."""
    return next((unit for unit in text.split(" ") if unit in UNITS), "")


def quotient_fits(over: Printed, under: Printed, ratio: Printed) -> bool:
    """Whether a ratio can be that of the two figures beside it, as all three are printed."""
    (a, b), (c, d) = over.ends, under.ends
    low, high = ratio.ends
    return a / d <= high and b / c >= low


def tokens(text: str) -> list[tuple[int, int, str]]:
    """Begin, end and text of each number. A digit within a name (`tcp6`) is none."""
    found = re.finditer(rf"(?<![\w.]){NUMBER}", text)
    return [(match.start(), match.end(), match[0]) for match in found]
