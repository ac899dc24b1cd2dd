# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a knob: what it changes, and what one more of what it counts costs."""

import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path

from analysis.languages import say, to_say
from analysis.raw.exact import Knob

TABLE = Path(__file__).parents[2] / "runners/exact/knobs.toml"

SAME = to_say("{thing}: a message over {transport} costs the same however many there are.")
ONE = to_say("{thing}: the first costs a message over {transport} {cost} instructions more.")
SOME = to_say(
    "{thing}: the first {count} cost a message over {transport} {cost} instructions more."
)
EACH_AND_ONE = to_say(
    "{thing}: each costs a message over {transport} {slopes}; the first, with all that comes with "
    "it, {cost}."
)
EACH_AND_SOME = to_say(
    "{thing}: each costs a message over {transport} {slopes}; the first {count}, with all that "
    "comes with them, {cost}."
)


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
    """`points`: how many there are, and how many instructions more a message takes then.

    The thing stands before the sentence, where no language has to bend its name.
    """
    least, first = points[0]
    if not any(cost for _, cost in points):
        text = SAME
    elif len(points) == 1:
        text = ONE if least == 1 else SOME
    else:
        text = EACH_AND_ONE if least == 1 else EACH_AND_SOME
    return say(
        text,
        thing=say(one),
        transport=transport,
        count=least,
        cost=f"{first:,.1f}",
        slopes=say(", ").join(_slopes(points)),
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
