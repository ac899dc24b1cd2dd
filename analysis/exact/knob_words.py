# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a knob: what it changes, and what one more of what it counts costs."""

import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path

from analysis.exact.cells import Knob
from analysis.languages import say

TABLE = Path(__file__).parents[2] / "runners/exact/knobs.toml"


@cache
def _texts() -> tuple[str, ...]:
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(knob["what"] for knob in table.values())


def in_words(knob: Knob) -> str:
    """What it changes. A run has the text with its value put in, so the table's is looked up;
    where that has become another one since, the run's own words stand."""
    value = knob.name.partition("=")[2]
    text = next((one for one in _texts() if one.replace("{value}", value) == knob.what), knob.what)
    return say(text, value=value) if "{value}" in text else say(text)


def cost_of_one(one: str, transport: str, points: list[tuple[int, float]]) -> str:
    """`points`: how many there are, and how many instructions more a message takes then."""
    thing = say(one)
    if not any(cost for _, cost in points):
        return say(
            "A message over {transport} costs the same however many {thing}s there are.",
            transport=transport,
            thing=thing,
        )
    least, first = points[0]
    count = say("the first {thing}", thing=thing)
    if least != 1:
        count = say("{count} {thing}s", count=least, thing=thing)
    if len(points) == 1:
        return say(
            "A message over {transport} costs {cost} instructions more with {things}.",
            transport=transport,
            cost=f"{first:,.1f}",
            things=count,
        )
    return say(
        "Each {thing} costs a message over {transport} {slopes}; {things}, with all that comes "
        "with it, {cost}.",
        thing=thing,
        transport=transport,
        slopes=", ".join(_slopes(points)),
        things=count,
        cost=f"{first:,.1f}",
    )


def _slopes(points: list[tuple[int, float]]) -> list[str]:
    return [
        say(
            "{cost} instructions (from {first} to {last})",
            cost=f"{(high - low) / (last - first):,.1f}",
            first=first,
            last=last,
        )
        for (first, low), (last, high) in pairwise(points)
    ]
